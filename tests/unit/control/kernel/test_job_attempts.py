"""Jobs in the kernel: what is tried again, and who makes room for whom (JB, EF)."""

import msgspec
import pytest

from hostler.control.kernel.commands import ExpireTasks, FoldReports, RetryOperation
from hostler.control.kernel.orders import CancelOrder
from hostler.wire.report import LogLine, Report, TaskStatus
from support.control import USER
from support.jobs import JobBench, spec
from support.kernel_jobs import cancel


@pytest.fixture
def bench() -> JobBench:
    return JobBench()


# -- again ---------------------------------------------------------------------------------------------


def test_JB_05_a_failed_task_is_tried_again_as_a_new_attempt_and_both_are_kept(bench) -> None:
    bench.worker()
    job_id = bench.submit(spec(retries={"failure": 1}))
    (task,) = bench.tasks(job_id)
    bench.start(job_id)
    bench.end(job_id, code="exit_status")
    (again,) = bench.tasks(job_id)
    assert (again.attempt_number, again.state) == (2, "assigned")
    assert again.attempt_uid != task.attempt_uid
    assert [(a.state, a.exit) for a in bench.attempts(task.task_id)] == [("failed", "exit_status"), ("open", "")]
    assert (bench.job(job_id).failures, bench.job(job_id).preemptions) == (1, 0)
    bench.end(job_id, code="exit_status")
    assert bench.operation(job_id).status == "failed"
    assert bench.operation(job_id).error_code == "exit_status"
    bench.check_books()


def test_JB_05_what_the_node_did_is_counted_apart_and_another_node_comes_first(bench) -> None:
    bad, good = bench.worker(), bench.worker()
    job_id = bench.submit()
    assert bench.places(job_id) == [bad.node_id]
    bench.end(job_id, code="disk_full")
    assert bench.places(job_id) == [""]  # it waits a moment
    bench.now += 1000
    bench.run(ExpireTasks())
    assert bench.places(job_id) == [good.node_id]
    assert (bench.job(job_id).failures, bench.job(job_id).preemptions) == (0, 1)


@pytest.mark.parametrize(("on_lost", "state", "tries"), [("retry", "queued", 1), ("fail", "failed", 0)])
def test_JB_05_what_a_lost_container_means_is_the_job_s_to_say(bench, on_lost: str, state: str, tries: int) -> None:
    bench.worker()
    job_id = bench.submit(spec(retries={"on_lost": on_lost, "failure": 5}))
    bench.start(job_id)
    bench.end(job_id, code="container_lost")
    (task,) = bench.tasks(job_id)
    assert (task.state, bench.job(job_id).preemptions) == (state, tries)


def test_JB_05_what_never_began_is_tried_again_whatever_is_said_of_lost_ones(bench) -> None:
    bench.worker()
    job_id = bench.submit(spec(retries={"on_lost": "fail"}))
    bench.start(job_id)
    bench.end(job_id, code="container_unstarted")
    assert bench.job(job_id).preemptions == 1


def test_EF_02_a_late_result_lands_on_its_own_attempt_and_on_no_other(bench) -> None:
    bench.worker()
    job_id = bench.submit(spec(retries={"failure": 1}))
    (old,) = bench.tasks(job_id)
    bench.start(job_id)
    bench.end(job_id, code="exit_status")
    bench.say(old, TaskStatus.SUCCEEDED)
    (task,) = bench.tasks(job_id)
    assert task.state == "assigned"
    assert bench.operation(job_id).status == "running"


def test_a_job_is_not_retried_by_the_way_of_operations(bench) -> None:
    bench.worker()
    job_id = bench.submit()
    bench.end(job_id, code="exit_status")
    refused = bench.refusal(RetryOperation(actor=USER, project_id="train", operation_id=job_id))
    assert refused.code == "operation_final"


def test_OB_07_a_late_line_is_of_the_node_that_its_attempt_ran_on(bench) -> None:
    first = bench.worker()
    job_id = bench.submit(spec(retries={"failure": 1}))
    bench.start(job_id)
    (old,) = bench.tasks(job_id)
    bench.end(job_id, code="container_exit")
    moved = msgspec.structs.replace(bench.tasks(job_id)[0], node_id="nod_elsewhere")
    bench.view.put(moved)
    line = LogLine(
        task_id=old.task_id, attempt_uid=old.attempt_uid, step_id="run", step_index=0, stream="stdout", text="late",
        at_ms=1,
    )  # fmt: skip
    told = bench.decide(FoldReports(node_id=first.node_id, reports=(Report(99, line),)))
    assert [(row.text, row.node_id) for row in told.logs] == [("late", first.node_id)]


# -- making room ------------------------------------------------------------------------------------------


def test_preemption_a_more_important_job_takes_the_place_when_its_node_has_confirmed(bench) -> None:
    node = bench.worker(cpu=2000)
    low = bench.submit(spec("low", replicas=2, priority="low"))
    bench.start(low)
    high = bench.submit(spec("high", priority="critical"))
    assert (bench.places(high), bench.booked(high)[0].reason) == ([""], "preempting")
    (victim,) = [row for row in bench.booked(low) if row.leaving]
    asked = [order for order in bench.orders if isinstance(order, CancelOrder)]
    assert [order.task_id for order in asked] == [victim.task_id]
    small = bench.submit(spec("small", cpu=1, priority="normal"))
    assert bench.places(small) == [""]  # what is promised is nobody else's
    cancel(bench, small)
    bench.end(low, victim.task_index, status=TaskStatus.CANCELED, code="canceled")
    assert bench.places(high) == [node.node_id]
    assert bench.places(low)[victim.task_index] == ""
    assert bench.operation(low).status == "running"
    assert (bench.job(low).preemptions, bench.job(low).failures) == (1, 0)
    assert bench.attempts(victim.task_id)[0].state == "canceled"
    bench.check_books()
    bench.end(high)
    assert all(bench.places(low))


def test_preemption_never_of_what_is_not_preemptible_nor_more_often_than_allowed(bench) -> None:
    bench.worker(cpu=1000)
    fixed = bench.submit(spec("fixed", priority="low", preemptible=False))
    high = bench.submit(spec("high", priority="critical"))
    assert (bench.booked(fixed)[0].leaving, bench.booked(high)[0].reason) == ("", "no_capacity")
    cancel(bench, high)
    bench.end(fixed)
    once = bench.submit(spec("once", priority="low", retries={"preemption": 0}))
    bench.submit(spec("higher", priority="critical"))
    bench.end(once, status=TaskStatus.CANCELED, code="canceled")
    assert (bench.operation(once).status, bench.operation(once).error_code) == ("failed", "preempted")


def test_JB_07_a_gang_is_preempted_whole_and_begins_anew_whole(bench) -> None:
    bench.worker(cpu=2000)
    bench.worker(cpu=1000)
    gang = bench.submit(spec("gang", replicas=3, gang={}, retries={"failure": 1}))
    bench.start(gang)
    bench.end(gang, 0, code="exit_status")  # one fails: all begin anew, together
    assert bench.places(gang)[0] == ""
    assert [row.leaving for row in bench.booked(gang)] == ["", "gang", "gang"]
    bench.end(gang, 1, status=TaskStatus.CANCELED, code="canceled")
    assert bench.places(gang).count("") == 2
    bench.end(gang, 2, status=TaskStatus.CANCELED, code="canceled")
    assert all(bench.places(gang))
    assert (bench.job(gang).failures, bench.job(gang).preemptions) == (1, 0)
    assert {task.attempt_number for task in bench.tasks(gang)} == {2}
    bench.start(gang)
    bench.end(gang, 1, code="exit_status")
    for index in (0, 2):
        bench.end(gang, index, status=TaskStatus.CANCELED, code="canceled")
    bench.start(gang)
    bench.end(gang, 1, code="exit_status")  # this task may not be tried a third time: the gang ends
    assert bench.operation(gang).cancel_requested_ms
    for index in (0, 2):
        bench.end(gang, index, status=TaskStatus.CANCELED, code="canceled")
    assert bench.operation(gang).status == "failed"
    bench.check_books()


def test_a_victim_that_finishes_first_has_finished(bench) -> None:
    node = bench.worker(cpu=1000)
    low = bench.submit(spec("low", priority="low"))
    bench.start(low)
    high = bench.submit(spec("high", priority="critical"))
    bench.end(low)
    assert bench.operation(low).status == "succeeded"
    assert bench.places(high) == [node.node_id]
