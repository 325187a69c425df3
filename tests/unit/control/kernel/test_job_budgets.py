"""`max_task_seconds`: a job and all below it end once they have run for that long, whether or not a task has ended."""

import pytest

from hostler.control.kernel.commands import ExpireTasks
from support.jobs import JobBench, spec


@pytest.fixture
def bench() -> JobBench:
    return JobBench()


def told_to_end(bench: JobBench, *job_ids: str) -> list[bool]:
    return [bool(bench.operation(job_id).cancel_requested_ms) for job_id in job_ids]


def test_a_task_that_alone_uses_up_its_budget_is_told_to_end(bench: JobBench) -> None:
    bench.worker()
    job_id = bench.submit(spec(max_task_seconds=10))
    bench.start(job_id)
    bench.now += 9_999
    bench.run(ExpireTasks())
    assert told_to_end(bench, job_id) == [False]
    bench.now += 1
    bench.run(ExpireTasks())
    assert told_to_end(bench, job_id) == [True]
    assert [task.cancel_requested for task in bench.tasks(job_id)] == [True]


def test_what_runs_below_counts_for_the_job_above_and_all_of_it_ends(bench: JobBench) -> None:
    bench.worker()
    root = bench.submit(spec("root", max_task_seconds=30))
    below = bench.submit(spec("below", replicas=2), parent=root)
    free = bench.submit(spec("free"))
    for job_id in (root, below, free):
        bench.start(job_id)
    bench.now += 6_000
    bench.end(below, 0)  # 6 s have ended, 12 s run
    bench.now += 5_000
    bench.run(ExpireTasks())
    assert told_to_end(bench, root, below, free) == [False, False, False]
    bench.now += 1_000
    bench.run(ExpireTasks())
    assert told_to_end(bench, root, below, free) == [True, True, False]
    bench.check_books()


def test_what_waits_for_a_place_or_has_ended_uses_nothing_up(bench: JobBench) -> None:
    job_id = bench.submit(spec(max_task_seconds=1))
    bench.now += 60_000
    bench.run(ExpireTasks())
    assert told_to_end(bench, job_id) == [False]
