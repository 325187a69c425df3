"""The journal's promises: marks only rise, rows are sent until acknowledged, the chain has no gap."""

import asyncio
from pathlib import Path

import msgspec

from hostler.agent.admission.verdict import Admitted, AdmittedCancel, Replayed
from hostler.agent.journal.journal import MAX_OUTBOX_ROWS
from hostler.agent.journal.rows import TaskKey
from hostler.base.errors import HostlerError
from hostler.wire.codec_report import with_sequence
from hostler.wire.report import LogLine, TaskStatus
from support import builders
from support.agent import core
from support.keys import Keys

LINE = LogLine(task_id="t", attempt_uid="a", step_id="s", step_index=0, stream="stdout", text="hi", at_ms=1)


async def test_RT_07_rows_stay_until_they_are_acknowledged_and_numbers_only_rise(tmp_path: Path) -> None:
    keys = Keys()
    async with core(tmp_path, keys) as node:
        await node.run_task()
        rows = await node.journal.pending(0, 100)
        assert [seq for seq, _ in rows] == [1, 2, 3]
        assert await node.journal.pending(1, 1) == rows[1:2]
        await node.journal.trim(3)
        assert await node.journal.pending(0, 100) == []
        assert node.journal.outbox_rows == 0
    async with core(tmp_path, keys) as node:
        await node.run_task()
        rows = await node.journal.pending(0, 100)
        assert [seq for seq, _ in rows] == [4, 5, 6]
        assert with_sequence(*rows[0]).outbox_seq == 4


async def test_RT_07_results_survive_a_restart(tmp_path: Path) -> None:
    keys = Keys()
    async with core(tmp_path, keys) as node:
        await node.run_task()
        before = await node.journal.pending(0, 100)
    async with core(tmp_path, keys) as node:
        assert await node.journal.pending(0, 100) == before


async def test_the_uplink_is_woken_once_for_each_commit_with_rows_and_not_by_others(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        wakes: list[int] = []
        node.journal.on_outbox(lambda: wakes.append(1))
        await node.journal.check()
        assert wakes == []
        node.journal.append_logs([LINE, LINE])
        await node.journal.check()
        assert wakes == [1]


async def test_OB_07_a_full_outbox_drops_log_lines_and_counts_them_but_no_result(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        node.journal._last_row = MAX_OUTBOX_ROWS + 1
        node.journal.append_logs([LINE, LINE])
        assert node.journal.dropped_lines == 2
        await node.run_task()
        assert (await node.task_reports())[-1].status is TaskStatus.SUCCEEDED


async def test_acceptance_raises_the_sequence_before_the_disk_has_it(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        spec = builders.task(node.keys, node.catalog)
        admitted = node.judge(builders.envelope(node.keys, spec))
        assert isinstance(admitted, Admitted)
        async with asyncio.TaskGroup() as group:
            group.create_task(node.journal.accept(admitted))
            await asyncio.sleep(0)
            assert node.journal.high_sequence == spec.sequence


async def test_RT_06_the_same_attempt_is_accepted_once(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        admitted = node.judge(builders.envelope(node.keys, builders.task(node.keys, node.catalog)))
        assert isinstance(admitted, Admitted)
        results = await asyncio.gather(
            node.journal.accept(admitted), node.journal.accept(admitted), return_exceptions=True
        )
        assert results[0] is None
        assert isinstance(results[1], HostlerError)
        assert results[1].code == "replayed"
        assert len(await node.journal.open_tasks()) == 1


async def test_P1_the_epoch_never_falls(tmp_path: Path) -> None:
    keys = Keys()
    async with core(tmp_path, keys) as node:
        await node.journal.begin_epoch(5)
        await node.journal.begin_epoch(4)
        assert node.journal.control_epoch == 5
    async with core(tmp_path, keys) as node:
        assert node.journal.control_epoch == 5


async def test_P1_a_new_epoch_starts_the_sequences_again_and_ends_a_hold_which_outlives_restarts(
    tmp_path: Path,
) -> None:
    keys = Keys()
    async with core(tmp_path, keys) as node:
        await node.journal.begin_epoch(1)
        spec = await node.run_task()
        await node.journal.hold()
    async with core(tmp_path, keys) as node:
        assert (node.journal.held, node.journal.high_sequence) == (True, spec.sequence)
        await node.journal.begin_epoch(1)
        assert (node.journal.held, node.journal.high_sequence) == (True, spec.sequence), "the same again is nothing"
        await node.journal.begin_epoch(2)
        assert (node.journal.held, node.journal.high_sequence) == (False, 0)
        assert node.journal.known(spec.task_id) is not None, "what was executed stays known"
    async with core(tmp_path, keys) as node:
        assert (node.journal.held, node.journal.control_epoch) == (False, 2)


async def test_the_catalog_comes_back_as_it_was_saved_and_old_documents_stay_while_tasks_may_need_them(
    tmp_path: Path,
) -> None:
    async with core(tmp_path) as node:
        first = node.catalog
        await node.journal.save_catalog(b"manifest", (b"two", b"three"))
        assert await node.journal.load_catalog() == (b"manifest", (b"two", b"three"))
        assert node.journal.document(next(iter(first.definitions.values())).digest()) is not None
        await node.journal.compact(0)
        assert node.journal.document(next(iter(first.definitions.values())).digest()) is None
        assert await node.journal.load_catalog() == (b"manifest", (b"two", b"three"))


async def test_compaction_shrinks_a_task_to_its_id_and_result_digest_and_keeps_the_chain(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        old = await node.run_task()
        node.clock.forward(1000)
        recent = await node.run_task()
        assert await node.journal.compact(node.clock.now_ms()) == 1
        assert await node.journal.compact(node.clock.now_ms()) == 0

        def rows(connection: object) -> dict[str, tuple[object, ...]]:
            found = connection.execute(  # type: ignore[attr-defined]
                "SELECT task_id, envelope, result, length(result_digest), state FROM tasks"
            )
            return {row[0]: tuple(row[1:]) for row in found}

        stored = await node.journal._write(rows)
        assert stored[old.task_id] == (None, None, 64, "succeeded")
        assert stored[recent.task_id][0] is not None
        assert node.journal.known(old.task_id) is not None
        assert node.journal.chain_head().index == 2
        await node.run_task()
        assert len(node.journal.receipts()) == 2  # the oldest receipt itself is gone


async def test_RT_05_checkpoints_outlive_the_attempt_and_go_when_the_task_succeeds(tmp_path: Path) -> None:
    keys = Keys()
    key = TaskKey("tsk_1", 1)
    async with core(tmp_path, keys) as node:
        await node.journal.save_checkpoint(key, "pull", {"offset": 7})
        await node.journal.save_checkpoint(key, "pull", {"offset": 9})
    async with core(tmp_path, keys) as node:
        assert node.journal.checkpoint(TaskKey("tsk_1", 2), "pull") == {"offset": 9}
        assert node.journal.checkpoint(key, "other") == {}
        await node.run_task(task_id="tsk_1")
        assert node.journal.checkpoint(key, "pull") == {}


async def test_OP_17_a_cancel_of_a_task_that_never_came_is_answered_and_remembered(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        spec = builders.task(node.keys, node.catalog)
        order = node.judge(builders.envelope(node.keys, builders.cancel(spec)))
        assert isinstance(order, AdmittedCancel)
        assert await node.journal.cancel(order) is False
        (report,) = await node.task_reports()
        assert (report.status, report.attempt_uid) == (TaskStatus.CANCELED, spec.attempt_uid)
        assert isinstance(await node.deliver(builders.envelope(node.keys, spec)), Replayed)
        assert node.files() == []


async def test_OP_17_a_cancel_of_an_open_task_is_durable(tmp_path: Path) -> None:
    keys = Keys()
    async with core(tmp_path, keys) as node:
        spec = builders.task(keys, node.catalog)
        admitted = node.judge(builders.envelope(keys, spec))
        assert isinstance(admitted, Admitted)
        await node.journal.accept(admitted)
        order = node.judge(builders.envelope(keys, builders.cancel(spec)))
        assert isinstance(order, AdmittedCancel)
        assert await node.journal.cancel(order) is True
    async with core(tmp_path, keys) as node:
        (stored,) = await node.journal.open_tasks()
        assert stored.cancel_requested
        await node.runner.resume(stored, node.catalog, node.cancelled)
        assert [report.status for report in await node.task_reports()] == [TaskStatus.CANCELED]
        assert node.files() == []


async def test_a_refused_cancel_is_not_taken_for_a_refusal_of_its_task(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        spec = builders.task(node.keys, node.catalog)
        late = builders.cancel(spec, expires_at_ms=node.clock.now_ms())
        await node.deliver(builders.envelope(node.keys, late))
        (report,) = await node.task_reports()
        assert (report.status, report.error_code) == (TaskStatus.REFUSED, "expired")
        assert (report.task_id, report.attempt_uid) == ("", "")
        statement = msgspec.json.decode(_payload(report.receipt))
        assert statement["predicate"]["task_id"] == spec.task_id
        assert statement["predicate"]["subject"] == "cancel"


def _payload(receipt: bytes) -> bytes:
    from hostler.pki.dsse import from_json

    return from_json(receipt).payload


async def test_open_tasks_come_back_in_sequence_order(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        specs = [builders.task(node.keys, node.catalog) for _ in range(3)]
        for spec in specs:
            admitted = node.judge(builders.envelope(node.keys, spec))
            assert isinstance(admitted, Admitted)
            await node.journal.accept(admitted)
        assert [task.key.task_id for task in await node.journal.open_tasks()] == [s.task_id for s in specs]
