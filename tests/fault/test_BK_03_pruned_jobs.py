"""BK-03, OD-31: jobs that have been over for long enough go, one a transaction; what happened stays."""

import sqlite3
from pathlib import Path

from hostler.control.kernel.job_commands import PruneJob
from hostler.control.loops.prune import prune_jobs
from hostler.wire.report import TaskStatus
from support.control import task_report
from support.job_fleet import jobs_in, submitted, worker, wrong
from support.jobs import spec
from support.keys import Keys

DAY_MS = 86_400_000
GOES = ("jobs", "job_tasks", "job_attempts")
STAYS = ("operations", "tasks", "task_attempts", "operation_steps", "receipts")


def count(directory: Path, tables: tuple[str, ...]) -> list[int]:
    db = sqlite3.connect(f"file:{directory / 'control.db'}?mode=ro", uri=True)
    try:
        return [db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables]
    finally:
        db.close()


async def test_BK_03_children_go_before_their_parents_and_what_happened_stays(tmp_path: Path) -> None:
    async with jobs_in(tmp_path, keys=Keys()) as fleet:
        node = await worker(fleet)
        parent = await submitted(fleet, spec("above"))
        (first,) = await fleet.take(node)
        child = await submitted(fleet, spec("below", replicas=2), parent=parent)
        for each in await fleet.take(node):
            await fleet.run(node, each)
        await fleet.run(node, first)
        fleet.clock.move(6 * DAY_MS)
        running = await submitted(fleet, spec("runs"))
        (open_,) = await fleet.take(node)
        assert await prune_jobs(fleet.engine, 7) == 0
        before = count(tmp_path, STAYS)
        fleet.clock.move(DAY_MS + 1)
        early = await fleet.execute(PruneJob(parent, fleet.clock.now_ms()))
        assert early is False, "its child is still there"
        assert await prune_jobs(fleet.engine, 7) == 2
        assert count(tmp_path, GOES) == [1, 1, 1]
        assert count(tmp_path, STAYS) == before
        gone = await fleet.events(type_="job.pruned")
        assert [event.operation_id for event in gone] == [child, parent]
        assert wrong(tmp_path) == {}
        # the name is free, and the writer has forgotten the rows
        again = await submitted(fleet, spec("above"), idempotency_key="again")
        assert again != parent
        await fleet.report(node, task_report(open_, TaskStatus.SUCCEEDED))
        assert (await fleet.operation(running)).status == "succeeded"
    assert wrong(tmp_path) == {}


async def test_OD_31_a_job_that_runs_is_never_pruned(tmp_path: Path) -> None:
    async with jobs_in(tmp_path, keys=Keys()) as fleet:
        await worker(fleet)
        job_id = await submitted(fleet, spec())
        fleet.clock.move(400 * DAY_MS)
        assert await fleet.execute(PruneJob(job_id, fleet.clock.now_ms())) is False
        assert await prune_jobs(fleet.engine, 1) == 0
