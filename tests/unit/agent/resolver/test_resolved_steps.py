"""RS-01, RS-05, RS-07: one task, two kinds of hardware, two commands; and none is a refusal."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hostler.agent.resolver.resolver import Active
from hostler.agent.steps import table
from hostler.catalog import kinds
from hostler.catalog.definition import StepTemplate
from hostler.catalog.manifest import Catalog
from hostler.wire.report import StepStatus, TaskStatus
from support import builders, fake_kind, resolving
from support.agent import Core, core
from support.fake_kind import FakeKind
from support.keys import Keys

KIND = "gpu.runtime.check"
NVIDIA, AMD, OTHER = ({"gpu.vendor": vendor} for vendor in ("nvidia", "amd", "other"))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeKind:
    """An abstract kind that remembers what it was given."""
    kind = FakeKind()
    monkeypatch.setitem(kinds.KINDS, KIND, kinds.Kind(fake_kind.Params, "for tests", ("word",), abstract=True))
    monkeypatch.setitem(table.MODULES, KIND, "support.fake_kind_module")
    monkeypatch.setattr(table, "import_module", lambda name: SimpleNamespace(KIND=kind))
    return kind


def catalog_at(version: int = 1, **more: Any) -> Callable[[Keys], Catalog]:
    step = StepTemplate(id="check", kind=KIND, params={"word": "hi"})

    def make(keys: Keys) -> Catalog:
        values: dict[str, Any] = {"resolvers": {"default": resolving.sample()}, "commands": resolving.commands()}
        return builders.catalog(keys, builders.definition(step), version=version, **(values | more))

    return make


async def applied(node: Core, version: int = 1) -> None:
    await node.resolver.apply(
        Active(config="default", version=version, digest=node.catalog.manifest.resolvers["default"])
    )


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
        receipt = _predicate(node.journal.receipts()[-1])
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


def _predicate(receipt: bytes) -> dict[str, Any]:
    from hostler.pki import dsse

    statement = msgspec.json.decode(dsse.from_json(receipt).payload)
    predicate: dict[str, Any] = statement["predicate"]
    return predicate
