"""SK-23, LC-17: a status probe says what the journal and the container runtime know, and nothing to strangers."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.containers.runtime import Found, State, Status
from hostler.agent.containers.spec import ATTEMPT, TASK
from hostler.agent.host.host import Host
from hostler.agent.journal.truth import Asker, TaskTruth
from hostler.agent.steps.contract import StepContext, Truth
from hostler.agent.steps.table import step_kind
from hostler.base.errors import error
from hostler.catalog.params.task import TaskProbe
from hostler.wire.report import TaskReport
from support import fake_kind
from support.agent import core
from support.fake_kind import FakeKind
from support.fake_tasks import catalog_of, say
from support.steps import Told, context_of

ADMIN, TENANT, STRANGER = Asker("admin", "", ""), Asker("", "acme", "train"), Asker("", "rival", "lab")
PROBE = step_kind("task.probe")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeKind:
    return fake_kind.install(monkeypatch)


class Runtime:
    """A runtime that lists what it is told to, or hangs."""

    def __init__(self, *found: tuple[str, Status], hangs: bool = False, broken: bool = False) -> None:
        self.found, self.hangs, self.broken = dict(found), hangs, broken
        self.asked: list[Any] = []

    def runtime(self, name: str = "") -> "Runtime":
        if self.broken:
            raise error("internal_error", "containerd does not answer")
        return self

    def runtimes(self) -> tuple["Runtime", ...]:
        return (self,)

    async def list(self, labels: Any) -> tuple[Found, ...]:
        self.asked.append(labels)
        if self.hangs:
            await asyncio.Event().wait()
        return tuple(Found(id=i, name=i, labels=labels, state=s.state) for i, s in self.found.items())

    async def status(self, container: str) -> Status:
        return self.found[container]


def asked(
    tmp_path: Path, told: Told, found: TaskTruth, *, sees_all: bool = True, task_id: str = "tsk_1", **more: Any
) -> StepContext:
    params = TaskProbe(task_id=task_id, attempt_uid="att_1", within_seconds=0.2)
    return context_of(params, Host(root=tmp_path), told, truth=lambda *_: found, sees_all_tasks=sees_all, **more)


async def test_SK_23_the_journal_knows_what_ended_with_exit_and_receipt(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=catalog_of(say("one"), say("two"))) as node:
        spec = await node.run_task()
        found = node.journal.truth(spec.task_id, spec.attempt_uid, ADMIN)
        assert (found.state, found.attempt_number, found.step_id) == ("succeeded", 1, "two")
        assert found.receipt_digest == (await node.step_reports())[-1].receipt_digest
        assert found.finished_at_ms
        assert node.journal.truth(spec.task_id, "att_other", ADMIN).state == "unknown"
        assert node.journal.truth("tsk_never", "att_never", ADMIN) == TaskTruth()


async def test_SK_23_an_open_task_waits_or_runs(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=catalog_of(say("one"))) as node:
        seen: list[str] = []

        def look(context: StepContext) -> None:
            seen.append(node.journal.truth(context.task_id, spec_uid(context), ADMIN).state)

        def spec_uid(context: StepContext) -> str:
            row = node.journal._read.execute("SELECT attempt_uid FROM tasks WHERE task_id = ?", (context.task_id,))
            return str(row.fetchone()[0])

        fake.on_apply = look
        await node.run_task()
        assert seen == ["running"]


async def test_S2_a_tenant_learns_of_its_own_tasks_alone(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=catalog_of(say("one"))) as node:
        spec = await node.run_task()
        answers = {who: node.journal.truth(spec.task_id, spec.attempt_uid, who).state for who in (TENANT, STRANGER)}
        assert answers == {TENANT: "succeeded", STRANGER: "unknown"}
        await node.journal.compact(2**62)  # the envelope is gone, and with it the word whose task it was
        assert node.journal.truth(spec.task_id, spec.attempt_uid, TENANT).state == "unknown"
        assert node.journal.truth(spec.task_id, spec.attempt_uid, ADMIN).state == "succeeded"


async def test_LC_17_the_result_of_what_has_ended_is_told_once_more(tmp_path: Path, fake: FakeKind) -> None:
    async with core(tmp_path, catalog=catalog_of(say("one"))) as node:
        spec = await node.run_task()
        await node.journal.trim(2**31)
        found = node.journal.truth(spec.task_id, spec.attempt_uid, ADMIN)
        outcome = await PROBE.apply(
            asked(tmp_path, Told(), found, report_again=lambda _: node.journal.replayed(spec.task_id))
        )
        (report,) = await node.outbox()
        assert isinstance(report, TaskReport)
        assert (report.task_id, report.replayed, report.status.value) == (spec.task_id, True, "succeeded")
        assert outcome.outputs["state"] == "succeeded"
        assert not outcome.changed


async def test_SK_23_what_is_open_is_not_told_again(tmp_path: Path) -> None:
    told = Told()
    await PROBE.apply(asked(tmp_path, told, TaskTruth(state="running")))
    assert not any(line.startswith("told again") for line in told.lines)


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        (Runtime(), ("none", -1)),
        (Runtime(("a", Status(state=State.RUNNING))), ("running", -1)),
        (Runtime(("a", Status(state=State.EXITED, exit_code=3))), ("exited", 3)),
        (
            Runtime(("main", Status(state=State.RUNNING)), ("setup", Status(state=State.EXITED))),
            ("running", -1),
        ),
        (Runtime(hangs=True), ("unknown", -1)),
        (Runtime(broken=True), ("unknown", -1)),
    ],
)
async def test_LC_17_the_runtime_is_asked_within_a_bound(tmp_path: Path, runtime: Runtime, expected: Any) -> None:
    async with asyncio.timeout(2):
        outcome = await PROBE.apply(asked(tmp_path, Told(), TaskTruth(), workloads=runtime))
    assert (outcome.outputs["container"], outcome.outputs["container_exit"]) == expected
    if runtime.asked:
        assert runtime.asked == [{TASK: "tsk_1", ATTEMPT: "att_1"}]


async def test_S2_no_container_of_another_is_told_to_a_tenant(tmp_path: Path) -> None:
    runtime = Runtime(("a", Status(state=State.RUNNING)))
    outcome = await PROBE.apply(asked(tmp_path, Told(), TaskTruth(), sees_all=False, workloads=runtime))
    assert (outcome.outputs["container"], runtime.asked) == ("none", [])


async def test_a_crash_in_the_middle_asks_anew(tmp_path: Path) -> None:
    assert (await PROBE.probe(asked(tmp_path, Told(), TaskTruth()))).truth is Truth.NOT_DONE
    plan = await PROBE.plan(asked(tmp_path, Told(), TaskTruth()))
    assert msgspec.to_builtins(plan)["changes"][0]["action"] == "check"
