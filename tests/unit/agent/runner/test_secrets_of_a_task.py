"""A task's secrets are gone when it has ended, however it ended, and its receipts say so: CR-05, CR-06, CR-09."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.runner import step_run
from hostler.agent.secrets.secret import Secret
from hostler.agent.steps.contract import Outcome, StepContext
from hostler.base.errors import HostlerError, error
from hostler.pki.dsse import from_json
from hostler.wire.report import StepStatus, TaskStatus
from support import fake_kind
from support.agent import Core, core
from support.fake_kind import FakeKind
from support.fake_tasks import catalog_of, say

MINT_AND_USE = catalog_of(say("mint", "mint"), say("use", "${steps.mint.word}"), say("after", "after"))


class Tasks:
    """What the fake kind does: `mint` makes a secret for `use`, and `ends` says how `use` ends."""

    def __init__(self, fake: FakeKind) -> None:
        self.made: list[Secret] = []
        self.one_time = False
        self.ends: Any = lambda context: None
        fake.on_apply = self.apply

    async def apply(self, context: StepContext) -> Outcome | None:
        if context.step_id == "mint":
            self.made.append(Secret.take(bytearray(b"correct horse battery")))
            steps = frozenset({"use"})
            handle = context.secrets.put(self.made[-1], steps=steps, lifetime_s=60, one_time=self.one_time)
            return Outcome(outputs={"word": handle})
        if context.step_id == "use":
            assert context.secrets.use(context.params.word) in self.made
            context.log("stdout", "the password is correct horse battery.")
            answer = self.ends(context)
            if hasattr(answer, "__await__"):
                await answer
        return None


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Tasks:
    return Tasks(fake_kind.install(monkeypatch))


def said(node: Core) -> list[Any]:
    predicates = [msgspec.json.decode(from_json(r).payload)["predicate"] for r in node.journal.receipts()]
    return [predicate.get("secrets") for predicate in predicates]


@pytest.mark.parametrize("one_time", [True, False])
async def test_CR_06_the_receipt_of_the_using_step_says_consumed_or_wiped(
    tmp_path: Path, tasks: Tasks, one_time: bool
) -> None:
    tasks.one_time = one_time
    async with core(tmp_path, catalog=MINT_AND_USE) as node:
        await node.run_task()
        first, (ending,), last = said(node)
        assert (first, last) == (None, None)
        assert ending["end"] == ("consumed" if one_time else "wiped")
        assert ending["handle"].startswith("secret:")
        assert tasks.made[0].wiped
        assert node.chain().ok


async def test_CR_09_a_line_of_the_log_that_holds_the_secret_is_scrubbed(tmp_path: Path, tasks: Tasks) -> None:
    async with core(tmp_path, catalog=MINT_AND_USE) as node:
        await node.run_task()
        assert [line.text for line in await node.log_lines()] == ["the password is [secret]."]
    assert not [path for path in tmp_path.iterdir() if path.is_file() and b"correct horse" in path.read_bytes()]


def fails(context: StepContext) -> None:
    raise error("exit_status", "it failed")


def breaks(context: StepContext) -> None:
    raise ZeroDivisionError


async def hangs(context: StepContext) -> None:
    await asyncio.sleep(60)


async def is_cancelled(context: StepContext) -> None:
    context.cancelled.set()
    raise error("canceled", "it was cancelled")


@pytest.mark.parametrize(
    ("ends", "code"),
    [(fails, "exit_status"), (breaks, "internal_error"), (hangs, "timeout"), (is_cancelled, "canceled")],
)
async def test_CR_05_every_bad_end_wipes_and_says_so(
    tmp_path: Path, tasks: Tasks, monkeypatch: pytest.MonkeyPatch, ends: Any, code: str
) -> None:
    monkeypatch.setattr(step_run, "GRACE_SECONDS", 0.05 if ends is hangs else 5)
    monkeypatch.setattr(step_run, "step_deadline", _soon if ends is hangs else step_run.step_deadline)
    tasks.ends, tasks.one_time = ends, True
    async with core(tmp_path, catalog=MINT_AND_USE) as node:
        await node.run_task()
        assert tasks.made[0].wiped
        assert [step.error_code for step in await node.step_reports() if step.error_code] == [code]
        assert [endings and endings[0]["end"] for endings in said(node)] == [None, "wiped"]


async def test_CR_05_a_failure_before_the_use_wipes(tmp_path: Path, tasks: Tasks) -> None:
    make = catalog_of(say("mint", "mint"), say("between", "${inputs.absent}"), say("use", "${steps.mint.word}"))
    async with core(tmp_path, catalog=make) as node:
        await node.run_task()
        assert tasks.made[0].wiped
        assert [bool(endings) for endings in said(node)] == [False, True]


async def test_CR_05_an_agent_that_stops_in_the_middle_wipes(tmp_path: Path, tasks: Tasks) -> None:
    reached = asyncio.Event()

    async def waits(context: StepContext) -> None:
        reached.set()
        await asyncio.sleep(60)

    tasks.ends = waits
    async with core(tmp_path, catalog=MINT_AND_USE) as node:
        running = asyncio.ensure_future(node.run_task())
        await reached.wait()
        assert not tasks.made[0].wiped
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert tasks.made[0].wiped


async def test_CR_03_one_task_cannot_use_another_one_s_handle(tmp_path: Path, tasks: Tasks) -> None:
    held: list[str] = []
    both = asyncio.Event()

    async def stays(context: StepContext) -> None:
        held.append(context.params.word)
        if len(held) == 2:
            both.set()
        await both.wait()
        (other,) = [handle for handle in held if handle != context.params.word]
        with pytest.raises(HostlerError) as caught:
            context.secrets.use(other)
        assert caught.value.code == "unknown_handle"

    tasks.ends = stays
    async with core(tmp_path, catalog=MINT_AND_USE) as node:
        await asyncio.gather(node.run_task(), node.run_task())
        ends = [step.status for step in await node.step_reports() if step.step_id == "use" and step.receipt]
        assert ends == [StepStatus.SUCCEEDED] * 2
        assert [task.status for task in await node.task_reports()] == [TaskStatus.SUCCEEDED] * 2


def _soon(spec: Any, task_deadline: Any, clock: Any) -> Any:
    return type(task_deadline).after(0, clock)
