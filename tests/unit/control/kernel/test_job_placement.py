"""Jobs in the kernel: which nodes their tasks get, whose turn it is, and how long they wait and run (JB, AZ)."""

import msgspec
import pytest

from hostler.catalog.policy import PolicyOverlay
from hostler.control.kernel.allocation_commands import CordonNode
from hostler.control.kernel.commands import ExpireTasks, NodeStatus, PutPolicy
from hostler.control.kernel.job_rows import JobShareRow
from hostler.control.kernel.orders import TaskOrder
from hostler.wire.report import TaskStatus
from hostler.wire.task import Policy
from support.control import ADMIN, USER
from support.jobs import GIB, JobBench, spec, submit_job
from support.kernel_jobs import hello, lose


@pytest.fixture
def bench() -> JobBench:
    return JobBench()


# -- placement ------------------------------------------------------------------------------------------


def test_JB_02_a_job_is_an_operation_whose_tasks_get_nodes_when_there_is_room(bench) -> None:
    job_id = bench.submit(spec(replicas=3, cpu=2000))
    assert bench.places(job_id) == ["", "", ""]
    assert {row.reason for row in bench.booked(job_id)} == {"no_node_matches"}
    node = bench.worker(connected=False, session_id="")
    hello(bench, node)
    assert bench.places(job_id) == [node.node_id, node.node_id, ""]
    assert bench.booked(job_id)[2].reason in ("no_capacity", "no_node_matches")
    assert [type(order) for order in bench.orders] == [TaskOrder, TaskOrder]
    bench.check_books()
    bench.end(job_id, 0)
    assert bench.places(job_id)[2] == node.node_id  # a freed slot wakes the scheduler
    bench.end(job_id, 1)
    bench.end(job_id, 2)
    assert bench.operation(job_id).status == "succeeded"
    assert bench.job(job_id).gone_ms
    types = [event.type for event in bench.events if event.type.startswith("job.")]
    assert types == ["job.submitted", *["job.task_placed"] * 3, "job.finished"]
    bench.check_books()


def test_more_room_on_a_node_and_the_end_of_a_cordon_wake_the_scheduler(bench) -> None:
    node = bench.worker(cpu=1000)
    job_id = bench.submit(spec(cpu=2000))
    assert bench.booked(job_id)[0].detail.startswith("cpu_millis: 2000 asked for, at most 1000 free, on gpu-1")
    status = NodeStatus(
        node_id=node.node_id, keyset_version=1, catalog_version=1, storage="ok", hold="", drift="",
        capabilities={"workload.runtimes": "docker", "cpu.millis": "8000", "memory.bytes": str(GIB * 9)},
    )  # fmt: skip
    bench.run(CordonNode(actor=ADMIN, node_id=node.node_id, owner="op", kind="cordoned"))
    bench.run(status)
    assert bench.places(job_id) == [""]
    bench.run(CordonNode(actor=ADMIN, node_id=node.node_id, owner="op", kind=""))
    assert bench.places(job_id) == [node.node_id]


def test_a_job_stays_on_its_own_projects_nodes_and_off_those_of_an_allocation(bench) -> None:
    bench.worker(org="rival", project="lab")
    bench.worker(allocation_id="alc_1")
    bench.worker(state="revoked")
    bench.node()
    job_id = bench.submit()
    assert bench.places(job_id) == [""]


def test_a_freed_node_of_another_hand_is_not_looked_at(bench) -> None:
    """A wake names a node; by the time it is looked at, the node may be somebody else's."""
    from hostler.control.kernel import job_pass
    from hostler.control.kernel.model import Draft

    foreign = bench.worker(org="rival", project="lab")
    job_id = bench.submit()
    draft = Draft(bench.view, bench.settings, bench.ids, bench.now)
    job_pass.run(draft, ("acme", "train", ""), {foreign.node_id})
    assert draft.events == []
    assert bench.places(job_id) == [""]


def test_I7_a_node_speaks_of_its_own_attempts_only(bench) -> None:
    """The node that has the task now says nothing of the attempt before, which ran elsewhere."""
    node, other = bench.worker(), bench.worker()
    job_id = bench.submit(spec(relocatable=True))
    (old,) = bench.tasks(job_id)
    bench.start(job_id)
    lose(bench, node)
    bench.now += 60_000
    bench.run(ExpireTasks())
    (task,) = bench.tasks(job_id)
    assert task.node_id == other.node_id
    bench.say(task, TaskStatus.SUCCEEDED, attempt=old.attempt_uid)
    assert bench.attempts(old.task_id)[0].state == "lost"
    assert [event.type for event in bench.events][-1] == "node.report_dropped"


def test_AZ_06_the_policy_counts_for_jobs_and_its_change_wakes_them(bench) -> None:
    bench.worker(cpu=8000)
    limit = PutPolicy(
        actor=ADMIN, scope="project", scope_id="train", org_id="acme", operation_type="*",
        overlay=PolicyOverlay(max_concurrency=2),
    )  # fmt: skip
    bench.run(limit)
    job_id, other = bench.submit(spec(replicas=2)), bench.submit(spec("other"))
    assert bench.booked(other)[0].reason == "quota"
    bench.end(job_id, 0)
    assert bench.places(other) != [""]
    third = bench.submit(spec("third"))
    assert bench.places(third) == [""]
    bench.run(msgspec.structs.replace(limit, overlay=PolicyOverlay(max_concurrency=9)))
    assert bench.places(third) != [""]
    none = msgspec.structs.replace(limit, operation_type="job.container.run", overlay=PolicyOverlay(enabled=False))
    bench.run(none)
    assert bench.refusal(submit_job(spec("fourth"))).code == "policy_denied"
    kinds = msgspec.structs.replace(none, overlay=PolicyOverlay(allowed_target_kinds=("allocation",)))
    bench.run(kinds)
    assert bench.refusal(submit_job(spec("fifth"))).code == "policy_denied"


def test_JB_07_of_two_gangs_of_four_on_six_slots_one_runs_and_the_other_waits_whole(bench) -> None:
    for _ in range(3):
        bench.worker(cpu=2000)
    one, two = (bench.submit(spec(name, replicas=4, gang={})) for name in ("one", "two"))
    assert all(bench.places(one))
    assert bench.places(two) == [""] * 4
    assert {row.reason for row in bench.booked(two)} == {"gang_waits"}
    for index in range(3):
        bench.end(one, index)
    assert all(bench.places(two))  # 5 of 6 slots are free
    bench.check_books()


def test_shares_decide_whose_turn_it_is(bench) -> None:
    bench.worker(cpu=2000)
    bob = msgspec.structs.replace(USER, name="bob")
    bench.submit(spec("a", replicas=4))
    later = bench.submit(spec("b"), actor=bob)
    bench.end(bench.view.job_named("acme", "train", "/ann/a").job_id, 0)
    assert bench.places(later) != [""]  # ann holds one slot, bob none
    shares = {row.owner: row.tasks for row in bench.view.rows[JobShareRow].values()}
    assert shares == {"ann": 1, "bob": 1}


# -- budgets and time --------------------------------------------------------------------------------------


def test_a_tree_that_has_used_up_its_seconds_ends_and_gets_no_children(bench) -> None:
    bench.worker()
    root = bench.submit(spec("root", max_task_seconds=10))
    below = bench.submit(spec("below", replicas=9), parent=root)
    bench.start(root)
    bench.start(below)
    bench.now += 6_000
    bench.end(below, 0)
    assert bench.job(root).task_ms == 6000
    bench.now += 1_000
    bench.end(below, 1)
    assert bench.operation(root).cancel_requested_ms
    assert bench.operation(below).cancel_requested_ms
    assert bench.refusal(submit_job(spec("late"), parent=root)).code == "operation_final"
    assert bench.operation(below).error_code == ""


def test_a_job_that_found_no_place_in_time_fails_and_says_what_it_waited_for(bench) -> None:
    bench.worker(cpu=1000)
    job_id = bench.submit(spec(cpu=2000, scheduling_timeout_seconds=60))
    bench.now += 59_000
    bench.run(ExpireTasks())
    assert bench.operation(job_id).status == "queued"
    bench.now += 1_000
    bench.run(ExpireTasks())
    operation = bench.operation(job_id)
    assert (operation.status, operation.error_code) == ("failed", "scheduling_timeout")
    assert "no_capacity cpu_millis: 2000 asked for" in operation.error_message


def test_a_job_that_waited_longer_than_an_operation_may_still_runs(bench) -> None:
    job_id = bench.submit()
    bench.now += 10 * 86_400_000
    bench.run(ExpireTasks())
    bench.worker(connected=False)
    hello(bench, bench.node_row("nod_1"))
    bench.run(ExpireTasks())
    assert bench.tasks(job_id)[0].state == "assigned"


def test_the_limit_of_a_jobs_own_policy_is_kept(bench) -> None:
    limited = JobBench(Policy(max_concurrency=2))
    limited.worker()
    job_id = limited.submit(spec(replicas=3))
    assert limited.places(job_id).count("") == 1
    assert limited.booked(job_id)[2].reason == "quota"
    limited.end(job_id, 0)
    assert limited.places(job_id)[2]
