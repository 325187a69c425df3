"""A task's steps are run in order, its ends, and the edges of admission (OP-03, RT-06, T11, AZ-09, AR-05)."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.admission.authority import LocalAuthority
from hostler.agent.admission.verdict import Admitted
from hostler.agent.steps.contract import FileState, Outcome, StepContext
from hostler.base.digest import sha256_hex
from hostler.base.errors import error
from hostler.catalog.definition import ArtifactConstraints, StepTemplate
from hostler.pki.dsse import from_json
from hostler.wire.report import StepStatus, TaskStatus
from support import builders, fake_kind
from support.agent import Core, core
from support.fake_kind import FakeKind
from support.fake_tasks import THREE, catalog_of, say


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeKind:
    return fake_kind.install(monkeypatch)


def statements(node: Core) -> list[dict[str, Any]]:
    return [msgspec.json.decode(from_json(receipt).payload) for receipt in node.journal.receipts()]


async def test_OP_03_steps_run_in_order_and_each_ends_in_a_receipt(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=THREE) as node:
        spec = await node.run_task()
        assert fake.applied == ["one", "two", "three"]
        predicates = [statement["predicate"] for statement in statements(node)]
        assert [p["step_index"] for p in predicates] == [0, 1, 2]
        assert [p["chain"]["index"] for p in predicates] == [0, 1, 2]
        assert node.chain().ok
        assert node.chain().length == 3
        for predicate in predicates:
            assert predicate["task_id"] == spec.task_id
            assert predicate["attempt_uid"] == spec.attempt_uid
            assert predicate["inputs_digest"] == spec.inputs_digest
            assert predicate["operation_type"] == "demo.write@v1"
            assert len(predicate["params_digest"]) == len(predicate["plan_digest"]) == 64


async def test_the_reports_tell_each_start_and_end_and_the_end_of_the_task(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=THREE) as node:
        await node.run_task()
        steps = await node.step_reports()
        assert [(s.step_id, s.status) for s in steps] == [
            (name, status) for name in ("one", "two", "three") for status in (StepStatus.RUNNING, StepStatus.SUCCEEDED)
        ]
        ends = [step for step in steps if step.receipt]
        assert [end.receipt for end in ends] == node.journal.receipts()
        assert [sha256_hex(end.receipt) for end in ends] == [end.receipt_digest for end in ends]
        assert [end.chain_index for end in ends] == [0, 1, 2]
        (task,) = await node.task_reports()
        assert task.status is TaskStatus.SUCCEEDED
        assert (await node.outbox())[-1] == task


async def test_outputs_are_bound_into_later_steps(tmp_path: Path, fake: FakeKind) -> None:
    make = catalog_of(say("one", "${inputs.word}"), say("two", "${steps.one.word}"))
    async with core(tmp_path, catalog=make) as node:
        await node.run_task(inputs={"word": "hush"})
        assert fake.applied == ["hush", "hush"]


async def test_a_receipt_holds_what_the_outcome_says(tmp_path: Path, fake: FakeKind) -> None:
    fake.on_apply = lambda _: Outcome(
        outputs={"n": 1},
        argv_digest="a" * 64,
        exit_status=0,
        files_before=(FileState(path="/x", exists=False),),
        files_after=(FileState(path="/x", sha256="f" * 64, size_bytes=3, mode="0644"),),
    )
    async with core(tmp_path, catalog=catalog_of(say("one"))) as node:
        await node.run_task()
        (statement,) = statements(node)
        assert statement["subject"] == [{"name": "/x", "digest": {"sha256": "f" * 64}}]
        predicate = statement["predicate"]
        assert (predicate["argv_digest"], predicate["exit_status"], predicate["status"]) == ("a" * 64, 0, "succeeded")
        assert predicate["files_before"][0]["exists"] is False
        assert predicate["output_digest"] == sha256_hex(b'{"n":1}')


async def test_a_step_that_fails_ends_the_task_and_the_rest_is_not_run(tmp_path: Path, fake: FakeKind) -> None:
    def fail_at_two(context: StepContext) -> None:
        if context.params.word == "two":
            raise error("exit_status", "the command ended with 3", hint="look at its log")

    fake.on_apply = fail_at_two
    async with core(tmp_path, catalog=THREE) as node:
        await node.run_task()
        assert fake.applied == ["one", "two"]
        (task,) = await node.task_reports()
        assert (task.status, task.error_code, task.failed_step_id) == (TaskStatus.FAILED, "exit_status", "two")
        step = (await node.step_reports())[-1]
        assert (step.status, step.error_hint) == (StepStatus.FAILED, "look at its log")
        assert statements(node)[-1]["predicate"]["error_code"] == "exit_status"
        assert await node.journal.open_tasks() == []


async def test_an_unexpected_exception_ends_the_task_and_its_trace_stays_on_the_node(
    tmp_path: Path, fake: FakeKind
) -> None:
    def bug(_: StepContext) -> None:
        raise ZeroDivisionError("secret detail")

    fake.on_apply = bug
    async with core(tmp_path, catalog=THREE) as node:
        spec = await node.run_task()
        (task,) = await node.task_reports()
        assert (task.status, task.error_code) == (TaskStatus.FAILED, "internal_error")
        assert "secret detail" not in task.error_message
        trace = await node.journal._write(
            lambda db: db.execute("SELECT trace FROM tasks WHERE task_id = ?", (spec.task_id,)).fetchone()[0]
        )
        assert "ZeroDivisionError: secret detail" in trace
        assert node.chain().length == 1
        fake.on_apply = None
        await node.run_task()
        assert (await node.task_reports())[-1].status is TaskStatus.SUCCEEDED


async def test_a_missing_output_fails_the_step_before_its_intent(tmp_path: Path, fake: FakeKind) -> None:
    make = catalog_of(say("one"), say("two", "${steps.one.absent}"))
    async with core(tmp_path, catalog=make) as node:
        await node.run_task()
        assert fake.applied == ["one"]
        (task,) = await node.task_reports()
        assert (task.error_code, task.failed_step_id) == ("binding_error", "two")
        assert [s.status for s in await node.step_reports() if s.step_id == "two"] == [StepStatus.FAILED]


async def test_AZ_09_a_value_bound_from_an_output_is_judged_by_local_authority_too(
    tmp_path: Path, fake: FakeKind
) -> None:
    fake.on_apply = lambda _: Outcome(outputs={"where": "/srv/secret/x"})
    bound = builders.definition(
        say("one"),
        msgspec.structs.replace(say("two"), params={"path": "${steps.one.where}"}),
    )
    authority = LocalAuthority(deny_paths=("/srv/secret",))
    async with core(tmp_path, catalog=lambda keys: builders.catalog(keys, bound), authority=authority) as node:
        await node.run_task()
        assert len(fake.applied) == 1
        (task,) = await node.task_reports()
        assert (task.error_code, task.failed_step_id) == ("local_policy_denied", "two")


async def test_nothing_is_applied_for_a_task_that_was_not_accepted(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=THREE) as node:
        admitted = node.judge(builders.envelope(node.keys, builders.task(node.keys, node.catalog)))
        assert isinstance(admitted, Admitted)
        await node.runner.run(admitted, node.cancelled)
        assert fake.applied == []
        assert await node.outbox() == []


async def test_a_task_may_run_while_its_acceptance_is_still_being_written(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=THREE) as node:
        admitted = node.judge(builders.envelope(node.keys, builders.task(node.keys, node.catalog)))
        assert isinstance(admitted, Admitted)
        async with asyncio.TaskGroup() as group:
            group.create_task(node.journal.accept(admitted))
            group.create_task(node.runner.run(admitted, node.cancelled))
        assert [task.status for task in await node.task_reports()] == [TaskStatus.SUCCEEDED]


async def test_RT_06_two_copies_that_were_both_admitted_run_once(tmp_path: Path, fake: FakeKind) -> None:
    """Whatever the pipeline does: the journal takes one, the runner runs one."""
    async with core(tmp_path, catalog=THREE) as node:
        sent = builders.envelope(node.keys, builders.task(node.keys, node.catalog))
        first, second = node.judge(sent), node.judge(sent)
        assert isinstance(first, Admitted)
        assert isinstance(second, Admitted)
        await asyncio.gather(
            node.journal.accept(first),
            node.runner.run(second, node.cancelled),
            node.runner.run(first, node.cancelled),
            node.journal.accept(second),
            return_exceptions=True,
        )
        await node.runner.run(second, node.cancelled)
        assert fake.applied == ["one", "two", "three"]
        assert [task.status for task in await node.task_reports()] == [TaskStatus.SUCCEEDED]
        assert node.chain().length == 3


async def test_RT_06_an_attempt_is_begun_only_by_the_envelope_that_was_accepted(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=THREE) as node:
        spec = builders.task(node.keys, node.catalog)
        first = node.judge(builders.envelope(node.keys, spec))
        other = node.judge(builders.envelope(node.keys, builders.changed(spec, sequence=spec.sequence + 1)))
        assert isinstance(first, Admitted)
        assert isinstance(other, Admitted)
        await node.journal.accept(first)
        await node.runner.run(other, node.cancelled)
        assert fake.applied == []
        assert len(await node.journal.open_tasks()) == 1


async def test_T11_a_task_whose_key_left_the_keyset_while_it_waited_is_not_started(
    tmp_path: Path, fake: FakeKind
) -> None:
    async with core(tmp_path, catalog=THREE) as node:
        admitted = node.judge(builders.envelope(node.keys, builders.task(node.keys, node.catalog)))
        assert isinstance(admitted, Admitted)
        await node.journal.accept(admitted)
        rotated = type(node.keys)(root=node.keys.root, catalog=node.keys.catalog, version=2)
        node.trust.update_keyset(rotated.keyset(), node.clock.now_ms())
        await node.runner.run(admitted, node.cancelled)
        assert fake.applied == []
        assert [task.error_code for task in await node.task_reports()] == ["untrusted_key"]


async def test_many_tasks_at_once_share_one_gapless_chain(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=THREE) as node:
        async with asyncio.TaskGroup() as group:
            for _ in range(30):
                group.create_task(node.run_task())
        assert node.chain().ok
        assert node.chain().length == 90
        assert [task.status for task in await node.task_reports()] == [TaskStatus.SUCCEEDED] * 30


async def test_AZ_09_a_step_is_told_what_this_node_lets_in_from_where(tmp_path: Path, fake: FakeKind) -> None:
    """For what only shows on the way: redirects, token servers, URLs in a lock."""
    seen: list[bool] = []

    def look(context: StepContext) -> None:
        seen.extend(context.may_fetch(f"https://{host}.example/x") for host in ("bad", "good"))

    fake.on_apply = look
    async with core(
        tmp_path, catalog=catalog_of(say("one")), authority=LocalAuthority(deny_sources=("https://bad.example",))
    ) as node:
        await node.run_task()
    assert seen == [False, True]


@pytest.mark.parametrize(("required", "code"), [(True, "signature_missing"), (False, "")])
async def test_AR_05_a_definition_s_signature_is_wanted_whatever_the_inputs_name(
    tmp_path: Path, required: bool, code: str
) -> None:
    """The step binds the signature's path, and the input is empty."""
    named: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {"s": {"type": "string"}}}
    params = {"path": "/srv/m", "sha256": sha256_hex(b"model"), "signature_path": "${inputs.s}"}
    made = builders.definition(
        StepTemplate(id="check", kind="artifact.verify", params=params),
        inputs=named,
        artifacts=ArtifactConstraints(require_signature=required),
    )
    async with core(tmp_path, catalog=lambda keys: builders.catalog(keys, made)) as node:
        (node.root / "srv").mkdir()
        (node.root / "srv" / "m").write_bytes(b"model")
        await node.run_task(inputs={"s": ""})
        assert (await node.task_reports())[-1].error_code == code
