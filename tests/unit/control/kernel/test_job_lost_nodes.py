"""Jobs in the kernel: tasks of nodes that are lost, come back or are revoked (EF)."""

import pytest

from hostler.control.kernel.commands import ExpireTasks, RevokeNode
from hostler.control.kernel.job_rows import StrayRow
from hostler.control.kernel.orders import CancelOrder, TaskOrder
from hostler.wire.report import TaskStatus
from support.control import ADMIN
from support.jobs import JobBench, spec
from support.kernel_jobs import cancel, hello, lose


@pytest.fixture
def bench() -> JobBench:
    return JobBench()


def test_EF_05_a_job_that_may_not_run_twice_waits_for_its_node(bench) -> None:
    node, _ = bench.worker(), bench.worker()
    job_id = bench.submit()
    bench.start(job_id)
    lose(bench, node)
    bench.now += 86_000_000
    bench.run(ExpireTasks())
    assert (bench.places(job_id), bench.tasks(job_id)[0].state) == ([node.node_id], "running")


@pytest.mark.parametrize(
    ("said", "after_s"), [({"relocatable": True}, 60), ({"fence": "hard", "fence_seconds": 90}, 120)]
)
def test_EF_06_a_task_of_a_lost_node_is_placed_anew_in_its_time_and_the_old_one_is_cancelled(
    bench, said, after_s
) -> None:
    node, other = bench.worker(), bench.worker()
    job_id = bench.submit(spec(**said))
    (old,) = bench.tasks(job_id)
    bench.start(job_id)
    lose(bench, node)
    bench.now += after_s * 1000 - 1
    bench.run(ExpireTasks())
    assert bench.places(job_id) == [node.node_id]
    bench.now += 1
    bench.run(ExpireTasks())
    (again,) = bench.tasks(job_id)
    assert (again.node_id, again.attempt_number) == (other.node_id, 2)
    assert [attempt.state for attempt in bench.attempts(old.task_id)] == ["lost", "open"]
    assert bench.job(job_id).preemptions == 1
    bench.orders.clear()
    hello(bench, node, high=1)
    (order,) = [order for order in bench.orders if isinstance(order, CancelOrder)]
    assert (order.node.node_id, order.attempt_uid, order.task_id) == (node.node_id, old.attempt_uid, old.task_id)
    bench.say(old, TaskStatus.CANCELED, "canceled")
    assert bench.tasks(job_id)[0] == again  # the new one is not touched
    assert bench.attempts(old.task_id)[0].state == "canceled"
    assert bench.view.rows[StrayRow][old.attempt_uid].ended_at_ms
    bench.check_books()


def test_EF_06_no_second_attempt_beside_the_first_on_a_node_that_comes_back(bench) -> None:
    node = bench.worker()
    job_id = bench.submit(spec(relocatable=True))
    (old,) = bench.tasks(job_id)
    bench.start(job_id)
    lose(bench, node)
    bench.now += 60_000
    bench.run(ExpireTasks())
    hello(bench, node, high=1)
    assert bench.places(job_id) == [""]
    assert bench.booked(job_id)[0].reason in ("old_attempt", "node_away")
    bench.say(old, TaskStatus.CANCELED, "canceled")
    assert bench.places(job_id) == [node.node_id]


def test_EF_09_a_node_that_lost_its_journal_is_sent_the_same_attempt_again(bench) -> None:
    node = bench.worker()
    job_id = bench.submit()
    (task,) = bench.tasks(job_id)
    bench.start(job_id)
    bench.orders.clear()
    hello(bench, node, high=0)
    (order,) = bench.orders
    (again,) = bench.tasks(job_id)
    assert isinstance(order, TaskOrder)
    assert order.sequence > task.sequence
    assert (again.attempt_uid, again.attempt_number, again.state) == (task.attempt_uid, 1, "assigned")
    bench.start(job_id)
    bench.end(job_id)
    assert bench.operation(job_id).status == "succeeded"


def test_EF_09_one_that_was_to_end_is_adopted_and_ended(bench) -> None:
    node = bench.worker()
    job_id = bench.submit()
    bench.start(job_id)
    cancel(bench, job_id)
    bench.orders.clear()
    hello(bench, node, high=0)
    assert [type(order) for order in bench.orders] == [TaskOrder, CancelOrder]


def test_a_revoked_node_ends_what_may_not_run_twice_and_gives_the_rest_back(bench) -> None:
    node = bench.worker()
    fixed, loose = bench.submit(spec("fixed")), bench.submit(spec("loose", relocatable=True))
    other = bench.worker()
    bench.run(RevokeNode(actor=ADMIN, node_id=node.node_id))
    assert (bench.operation(fixed).status, bench.operation(fixed).error_code) == ("failed", "revoked")
    bench.now += 1000
    bench.run(ExpireTasks())
    assert bench.places(loose) == [other.node_id]
    bench.check_books()
