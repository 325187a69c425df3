"""T1, RT-06: a task delivered twice has one effect, and answers with its first result: for ever."""

import asyncio
from pathlib import Path

import pytest

from hostler.agent.admission.verdict import Admitted, Replayed
from hostler.wire.report import TaskStatus
from support import builders
from support.agent import core
from support.keys import Keys

MINUTE = 60_000


async def test_T1_the_same_envelope_again_has_no_second_effect_and_the_first_result_comes_back(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        spec = builders.task(node.keys, node.catalog)
        sent = builders.envelope(node.keys, spec)
        assert isinstance(await node.deliver(sent), Admitted)
        written = node.root / "srv/app/config"
        written.write_text("changed by hand")
        assert isinstance(await node.deliver(sent), Replayed)
        assert written.read_text() == "changed by hand"
        first, second = await node.task_reports()
        assert (first.status, first.replayed) == (TaskStatus.SUCCEEDED, False)
        assert (second.status, second.replayed) == (TaskStatus.SUCCEEDED, True)
        assert first.attempt_uid == second.attempt_uid
        assert len(node.journal.receipts()) == 1


@pytest.mark.parametrize("minutes", [0, 31, 60 * 24 * 400], ids=["at once", "past its expiry", "a year later"])
async def test_T1_after_a_restart_the_same_envelope_is_still_known(tmp_path: Path, minutes: int) -> None:
    keys = Keys()
    async with core(tmp_path, keys) as node:
        sent = builders.envelope(keys, builders.task(keys, node.catalog))
        await node.deliver(sent)
    async with core(tmp_path, keys) as node:
        node.clock.forward(minutes * MINUTE)
        node.trust = keys.trust(expires_ms=node.clock.now_ms() + MINUTE)
        assert isinstance(await node.deliver(sent), Replayed)
        assert len(node.journal.receipts()) == 1
        assert (await node.task_reports())[-1].replayed


async def test_T1_after_compaction_the_first_result_is_still_returned(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        spec = builders.task(node.keys, node.catalog)
        sent = builders.envelope(node.keys, spec)
        await node.deliver(sent)
        assert await node.journal.compact(node.clock.now_ms() + 1) == 1
        assert isinstance(await node.deliver(sent), Replayed)
        report = (await node.task_reports())[-1]
        assert (report.task_id, report.attempt_uid) == (spec.task_id, spec.attempt_uid)
        assert (report.status, report.replayed) == (TaskStatus.SUCCEEDED, True)


async def test_T1_a_second_copy_while_the_first_is_still_being_accepted_is_known_already(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        sent = builders.envelope(node.keys, builders.task(node.keys, node.catalog))
        first = node.judge(sent)
        assert isinstance(first, Admitted)
        async with asyncio.TaskGroup() as group:
            group.create_task(node.journal.accept(first))  # queued, the disk does not have it yet
            assert isinstance(node.judge(sent), Replayed)


async def test_T1_a_refused_envelope_that_comes_again_is_answered_with_its_one_refusal(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        spec = builders.task(node.keys, node.catalog, definition_digest="0" * 64)
        sent = builders.envelope(node.keys, spec)
        await node.deliver(sent)
        await node.deliver(sent)
        assert len(node.journal.receipts()) == 1
        first, second = await node.task_reports()
        assert (first.status, second.status) == (TaskStatus.REFUSED, TaskStatus.REFUSED)
        assert (first.replayed, second.replayed) == (False, True)
        assert first.receipt_digest == second.receipt_digest


async def test_T1_a_retry_is_a_new_attempt_and_runs_but_an_attempt_below_the_last_does_not(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        first = await node.run_task()
        again = await node.run_task(task_id=first.task_id, attempt_number=2)
        assert again.attempt_uid != first.attempt_uid
        late = builders.task(node.keys, node.catalog, task_id=first.task_id, attempt_number=1)
        assert isinstance(await node.deliver(builders.envelope(node.keys, late)), Replayed)
