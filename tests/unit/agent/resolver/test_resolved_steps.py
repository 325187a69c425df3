"""RS-01, RS-05, RS-07, RS-09: one task, two kinds of hardware, two commands; and none is a refusal."""

from pathlib import Path

import pytest

from hostler.agent.admission.authority import LocalAuthority
from hostler.agent.journal.journal import Journal
from hostler.agent.steps.contract import Outcome, Probe, Truth
from hostler.base.errors import error
from hostler.catalog.kinds import ABSTRACT
from hostler.wire.report import StepStatus, TaskStatus
from hostler.wire.task import ReusedStep
from support import resolving
from support.agent import Core, core
from support.fake_kind import FakeKind
from support.keys import Keys
from support.resolving import KIND, active_of, catalog_at, predicate

NVIDIA, AMD, OTHER = ({"gpu.vendor": vendor} for vendor in ("nvidia", "amd", "other"))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeKind:
    return resolving.install(monkeypatch)


async def applied(node: Core) -> None:
    await node.resolver.apply(active_of(node.catalog))


@pytest.mark.parametrize(
    ("capabilities", "profile", "rule"),
    [
        (NVIDIA, "nvidia_smi_health", "1:gpu.vendor=nvidia"),
        (AMD, "rocm_smi_health", "2:gpu.vendor=amd"),
        (OTHER, "generic_gpu_runtime_check", "3:*"),
        ({}, "generic_gpu_runtime_check", "3:*"),
    ],
)
async def test_RS_01_RS_07_the_hardware_decides_and_log_report_and_receipt_name_it(
    tmp_path: Path, fake: FakeKind, capabilities: dict[str, str], profile: str, rule: str
) -> None:
    async with core(tmp_path, catalog=catalog_at(), capabilities=capabilities) as node:
        await applied(node)
        await node.run_task()
        (view,) = fake.views
        assert (view.command and view.command.id, view.hardware_match) == (profile, rule)
        reports = await node.step_reports()
        assert [r.status for r in reports] == [StepStatus.RUNNING, StepStatus.SUCCEEDED]
        assert {(r.resolved_profile, r.hardware_match) for r in reports} == {(profile, rule)}
        assert any(profile in line.text and rule in line.text for line in await node.log_lines())
        receipt = predicate(node.journal.receipts()[-1])
        assert (receipt["resolved_profile"], receipt["hardware_match"]) == (profile, rule)
        assert receipt["resolved_profile_digest"] == node.catalog.manifest.commands[profile]
        assert node.resolver.resolve(KIND).rule_id == rule  # RS-09: asked for again, the same


@pytest.mark.parametrize("capabilities", [NVIDIA, {}])
async def test_RS_05_without_a_configuration_the_step_is_refused_and_nothing_runs(
    tmp_path: Path, fake: FakeKind, capabilities: dict[str, str]
) -> None:
    async with core(tmp_path, catalog=catalog_at(), capabilities=capabilities) as node:
        await node.run_task()
        (report,) = await node.task_reports()
        assert (report.status, report.error_code) == (TaskStatus.FAILED, "no_resolver")
        assert fake.planned == fake.applied == []


async def test_RS_05_a_rule_that_names_a_profile_of_another_catalog_is_no_resolution(
    tmp_path: Path, fake: FakeKind
) -> None:
    keys = Keys()
    async with core(tmp_path, keys, catalog=catalog_at(), capabilities=NVIDIA) as node:
        await applied(node)
    less = {"commands": resolving.commands("rocm_smi_health"), "resolvers": {}}
    async with core(tmp_path, keys, catalog=catalog_at(2, **less), capabilities=NVIDIA) as node:
        await node.run_task()
        (report,) = await node.task_reports()
        assert report.error_code == "no_resolver"
        assert fake.applied == []


async def test_EX_09_what_the_node_itself_forbids_is_forbidden_also_where_a_rule_picks_it(
    tmp_path: Path, fake: FakeKind
) -> None:
    authority = LocalAuthority(deny_command_profiles=("nvidia_smi_health",))
    async with core(tmp_path, catalog=catalog_at(), capabilities=NVIDIA, authority=authority) as node:
        await applied(node)
        await node.run_task()
        (report,) = await node.task_reports()
        assert report.error_code == "local_policy_denied"
        assert fake.applied == []


async def test_K2_a_step_that_was_started_as_another_command_is_not_judged_by_this_one(
    tmp_path: Path, fake: FakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node came back with other hardware: nobody can say what became of the first command."""
    keys = Keys()
    fake.truth = Probe(truth=Truth.DONE, outcome=Outcome())
    async with core(tmp_path, keys, catalog=catalog_at(), capabilities=NVIDIA) as node:
        await applied(node)

        async def dies(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Journal, "finish_step", dies)
        with pytest.raises(KeyboardInterrupt):
            await node.run_task()
        monkeypatch.undo()
    resolving.install(monkeypatch).truth = fake.truth
    async with core(tmp_path, keys, catalog=catalog_at(), capabilities=AMD) as node:
        (stored,) = await node.journal.open_tasks()
        await node.runner.resume(stored, node.catalog, node.cancelled)
        (end,) = [report for report in await node.task_reports() if report.status is not TaskStatus.RUNNING]
        assert (end.status, end.error_code) == (TaskStatus.FAILED, "interrupted_apply")


@pytest.mark.parametrize(("later", "again"), [(NVIDIA, False), (AMD, True)], ids=["same", "other-hardware"])
async def test_RT_03_a_result_is_used_again_only_where_it_would_be_the_same_command(
    tmp_path: Path, fake: FakeKind, later: dict[str, str], again: bool
) -> None:
    async with core(tmp_path, catalog=catalog_at(), capabilities=dict(NVIDIA)) as node:
        await applied(node)
        spec = await node.run_task()
        done = (await node.step_reports())[-1]
        node.capabilities.clear()
        node.capabilities.update(later)
        claim = ReusedStep(step_id="check", outputs_json=done.outputs_json, receipt_digest=done.receipt_digest)
        await node.run_task(task_id=spec.task_id, attempt_number=2, attempt_uid="att_again", reused=(claim,))
        status = (await node.step_reports())[-1].status
        assert status is (StepStatus.SUCCEEDED if again else StepStatus.REUSED)
        assert len(fake.applied) == 1 + again


@pytest.mark.parametrize("kind", sorted(ABSTRACT))
async def test_RD_05_a_node_without_a_catalog_resolves_nothing(tmp_path: Path, kind: str) -> None:
    async with core(tmp_path, capabilities=NVIDIA) as node:
        with pytest.raises(type(error("no_resolver", "")), match="no resolver configuration"):
            node.resolver.resolve(kind)
        assert node.resolver.drift == ""
