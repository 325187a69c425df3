"""Jobs in the kernel: names and parents, placement, tries, preemption, subtrees, lost nodes (JB, TE, EF)."""

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.policy import PolicyOverlay
from hostler.control.kernel.allocation_commands import CordonNode
from hostler.control.kernel.commands import (
    CancelOperation,
    ExpireTasks,
    FoldReports,
    NodeGone,
    NodeHello,
    NodeStatus,
    PutPolicy,
    RetryOperation,
    RevokeNode,
)
from hostler.control.kernel.job_commands import CancelChildJob, CancelJob, SubmitChildJob
from hostler.control.kernel.job_rows import JobShareRow, StrayRow
from hostler.control.kernel.job_settings import JobSettings
from hostler.control.kernel.orders import CancelOrder, TaskOrder
from hostler.wire.node import Hello
from hostler.wire.report import LogLine, Report, TaskStatus
from hostler.wire.task import Policy
from support.control import ADMIN, USER
from support.jobs import GIB, JobBench, spec, submit_job

KERNEL_NODE = msgspec.structs.replace(USER, kind="task", name="ann", role="")


@pytest.fixture
def bench() -> JobBench:
    return JobBench()


def cancel(bench: JobBench, job_id: str, **more: str) -> list[str]:
    told: list[str] = bench.run(CancelJob(actor=USER, project_id="train", job_id=job_id, **more))
    return told


def hello(bench: JobBench, node, high: int = 0, **more) -> None:
    caps = msgspec.json.decode(bench.node_row(node.node_id).capabilities, type=dict[str, str])
    said = Hello(agent_version="1", high_sequence=high, capabilities=caps, **more)
    bench.run(NodeHello(node_id=node.node_id, session_id="s2", hello=said))


def lose(bench: JobBench, node) -> None:
    session = bench.node_row(node.node_id).session_id
    bench.run(NodeGone(node_id=node.node_id, session_id=session))


def child(bench: JobBench, parent: str, **more) -> str:
    task = bench.tasks(parent)[0]
    values = {
        "actor": KERNEL_NODE, "node_id": task.node_id, "task_id": task.task_id, "attempt_uid": task.attempt_uid,
        "spec": spec("child"), "idempotency_key": f"c{bench.ids.new('k', 1)}", "correlation_id": "",
    }  # fmt: skip
    made: str = bench.run(SubmitChildJob(**(values | more))).job_id
    return made


# -- bands ------------------------------------------------------------------------------------------

MEMBER = msgspec.structs.replace(USER, role="project_member")


def test_AZ_04_a_member_asks_for_no_band_above_its_own() -> None:
    """A band takes the place of others' jobs; who may is the operator's to say."""
    bench = JobBench()
    bench.worker()
    refused = bench.refusal(submit_job(spec(priority="critical"), actor=MEMBER))
    assert (refused.code, refused.pointer) == ("scope_denied", "/priority")
    assert "up to priority high" in refused.message
    for role in ("project_admin", "tenant_admin", "platform_admin"):
        actor = msgspec.structs.replace(USER, role=role)
        bench.submit(spec(role.replace("_", "-"), priority="critical"), actor=actor)
    bench.submit(spec("fine", priority="high"), actor=MEMBER)


def test_AZ_04_the_operator_says_which_band_is_a_members_highest() -> None:
    said = (("normal", "high", "scope_denied"), ("low", "normal", "scope_denied"), ("critical", "critical", ""))
    for highest, asked, code in said:
        bench = JobBench(jobs=JobSettings(member_priority=highest))
        bench.worker()
        command = submit_job(spec(priority=asked), actor=MEMBER)
        if code:
            assert bench.refusal(command).code == code
        else:
            bench.run(command)


def test_AZ_04_a_task_gets_no_more_for_its_children_than_its_job_or_a_member_has(bench) -> None:
    node = bench.worker(cpu=64_000, memory=64 * GIB)
    below = bench.submit(spec("below"), actor=MEMBER)
    above = bench.submit(spec("above", priority="critical"), actor=ADMIN)
    for each in (below, above):
        assert bench.places(each) == [node.node_id]
    with pytest.raises(HostlerError) as refused:
        child(bench, below, spec=spec("child", priority="critical"))
    assert (refused.value.code, refused.value.pointer) == ("scope_denied", "/priority")
    assert bench.job(child(bench, below, spec=spec("child", priority="high"))).priority == 300
    assert bench.job(child(bench, above, spec=spec("child", priority="critical"))).priority == 400


# -- names ------------------------------------------------------------------------------------------


def test_JB_01_a_job_has_its_users_path_and_a_child_its_parents(bench) -> None:
    bench.worker()
    root = bench.submit(spec("train"))
    below = bench.submit(spec("eval"), parent="/ann/train")
    deeper = bench.submit(spec("one"), parent=below)
    names = [bench.job(job_id).name for job_id in (root, below, deeper)]
    assert names == ["/ann/train", "/ann/train/eval", "/ann/train/eval/one"]
    assert {bench.job(job_id).root for job_id in (root, below, deeper)} == {"/ann/train"}
    inputs = msgspec.json.decode(bench.operation(deeper).inputs)
    assert (inputs["job"], inputs["parent"], inputs["namespace"]) == (names[2], names[1], names[0])
    assert msgspec.json.decode(bench.operation(root).inputs)["parent"] == ""  # TE-08


def test_JB_01_a_child_of_a_missing_parent_is_refused(bench) -> None:
    bench.worker()
    assert bench.refusal(submit_job(parent="/ann/none")).code == "not_found"
    assert bench.refusal(submit_job(parent="op_none")).code == "not_found"
    parent = bench.submit(spec("over"))
    bench.end(parent)
    assert bench.refusal(submit_job(parent=parent)).code == "operation_final"
    open_ = bench.submit(spec("open"))
    for named in ("/ann/open", open_):
        foreign = submit_job(parent=named, org_id="rival", project_id="lab")
        assert bench.refusal(foreign).code == "not_found"


def test_a_path_has_at_most_sixteen_parts(bench) -> None:
    bench.worker(cpu=99_000, memory=99 * GIB)
    parent = bench.submit(spec("p"))
    for _ in range(14):
        parent = bench.submit(spec("p"), parent=parent)
    assert bench.refusal(submit_job(spec("p"), parent=parent)).code == "invalid_request"


def test_JB_03_keep_gives_the_job_that_is_there_and_error_says_so(bench) -> None:
    bench.worker()
    first = bench.submit(spec("train", existing="keep"))
    again = bench.run(submit_job(spec("train", existing="keep")))
    assert (again.job_id, again.created) == (first, False)
    assert bench.refusal(submit_job(spec("train"))).code == "job_exists"
    bench.end(first)
    assert bench.submit(spec("train", existing="keep")) == first  # it succeeded
    second = bench.submit(spec("train"))
    assert second != first
    bench.end(second, code="exit_status")
    assert bench.submit(spec("train", existing="keep")) not in (first, second)  # it had failed


def test_JB_03_replace_ends_the_one_that_runs_and_takes_its_name(bench) -> None:
    bench.worker()
    first = bench.submit(spec("train"))
    bench.start(first)
    second = bench.submit(spec("train", existing="replace"))
    assert bench.operation(first).cancel_requested_ms
    assert bench.view.job_named("acme", "train", "/ann/train").job_id == second
    assert (bench.job(first).current, bench.job(second).current) == (0, 1)


def test_RT_01_the_same_key_gives_the_same_job_and_another_spec_a_refusal(bench) -> None:
    bench.worker()
    first = bench.run(submit_job(idempotency_key="k"))
    again = bench.run(submit_job(idempotency_key="k"))
    assert (again.job_id, again.created) == (first.job_id, False)
    other = submit_job(spec(priority="high"), idempotency_key="k")
    assert bench.refusal(other).code == "idempotency_mismatch"


def test_JB_06_a_cluster_and_a_backend_exclude_each_other(bench) -> None:
    for said, code in (
        ({"cluster": "east", "backend": "node_agent"}, "invalid_request"),
        ({"cluster": "east"}, "unknown_target"),
        ({"backend": "slurm_adapter"}, "unknown_target"),
        ({"constraints": [{"key": "zone", "op": "eq"}]}, "invalid_request"),
        ({"image": "", "runtime": "docker"}, "invalid_request"),
        ({"allocation": "alc_none"}, "not_found"),
        ({"ports": ["a-b", "a_b"]}, "invalid_request"),
        ({"command": ["sh", "a\0b"]}, "invalid_request"),
        ({"setup": ["a\0b"]}, "invalid_request"),
        ({"environment": {"LIST": "a\0b"}}, "invalid_request"),
    ):
        assert bench.refusal(submit_job(spec(**said))).code == code, said


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


# -- subtrees -------------------------------------------------------------------------------------------


def test_JB_04_a_cancel_ends_the_subtree_and_a_second_one_nothing(bench) -> None:
    bench.worker()
    root, side = bench.submit(spec("root")), bench.submit(spec("side"))
    below = bench.submit(spec("below"), parent=root)
    bench.start(root)
    bench.start(below)
    assert cancel(bench, root) == [root, below]
    assert cancel(bench, root) == []
    for job_id in (root, below):
        bench.end(job_id, status=TaskStatus.CANCELED, code="canceled")
        assert bench.operation(job_id).status == "canceled"
    assert cancel(bench, root) == []
    assert bench.operation(side).status == "queued"
    bench.check_books()


def test_JB_04_what_a_failed_parent_began_ends_with_it_and_what_a_done_one_began_goes_on(bench) -> None:
    bench.worker()
    for code, told in (("exit_status", True), ("", False)):
        parent = bench.submit(spec(f"p{told}"))
        below = bench.submit(spec("below"), parent=parent)
        bench.end(parent, code=code)
        assert bool(bench.operation(below).cancel_requested_ms) is told
        bench.start(below)


def test_a_waiting_job_is_cancelled_at_once_also_as_an_operation(bench) -> None:
    job_id = bench.submit()
    bench.run(CancelOperation(actor=USER, project_id="train", operation_id=job_id))
    assert bench.operation(job_id).status == "canceled"
    assert (bench.job(job_id).pending, bench.job(job_id).gone_ms > 0) == (0, True)


def test_S2_a_job_of_another_project_is_not_there(bench) -> None:
    job_id = bench.submit()
    rival = msgspec.structs.replace(USER, org_id="rival", project_id="train")
    for actor, project in ((USER, "lab"), (rival, "train")):
        assert bench.refusal(CancelJob(actor=actor, project_id=project, job_id=job_id)).code == "not_found"


def test_TE_16_a_member_puts_no_child_into_anothers_namespace(bench) -> None:
    """A child has the keys of its parent's namespace, its budget and its owner's share."""
    bench.worker()
    parent = bench.submit(spec("parent", max_task_seconds=100))
    bob = msgspec.structs.replace(USER, name="bob", role="project_member")
    for named in (parent, "/ann/parent"):
        assert bench.refusal(submit_job(spec("spy"), actor=bob, parent=named)).code == "scope_denied"
    ann = msgspec.structs.replace(bob, name="ann")
    assert bench.job(bench.submit(spec("own"), actor=ann, parent=parent)).name == "/ann/parent/own"
    boss = msgspec.structs.replace(bob, role="project_admin")
    assert bench.job(bench.submit(spec("help"), actor=boss, parent=parent)).owner == "ann"


def test_TE_08_a_running_task_submits_children_in_its_own_name_and_nobody_elses(bench) -> None:
    bench.worker()
    parent = bench.submit(spec("parent"))
    bench.start(parent)
    made = child(bench, parent, spec=spec("child", image=""))
    job = bench.job(made)
    assert (job.name, job.owner, job.root, job.parent_id) == ("/ann/parent/child", "ann", "/ann/parent", parent)
    assert msgspec.json.decode(job.spec)["image"] == spec().image  # it runs the same program
    task = bench.tasks(parent)[0]
    values = {
        "actor": KERNEL_NODE, "node_id": task.node_id, "task_id": task.task_id, "attempt_uid": task.attempt_uid,
        "spec": spec("x"), "idempotency_key": "x", "correlation_id": "",
    }  # fmt: skip
    for wrong in ({"node_id": "nod_other"}, {"attempt_uid": "att_old"}, {"task_id": "tsk_none"}):
        assert bench.refusal(SubmitChildJob(**(values | wrong))).code == "not_found"
    bench.end(parent)
    assert bench.refusal(SubmitChildJob(**values)).code == "not_found"


def test_JB_04_a_task_ends_what_is_below_its_own_job_and_no_other(bench) -> None:
    bench.worker()
    parent, other = bench.submit(spec("parent")), bench.submit(spec("other"))
    bench.start(parent)
    below = child(bench, parent)
    task = bench.tasks(parent)[0]
    ask = CancelChildJob(
        actor=KERNEL_NODE, node_id=task.node_id, task_id=task.task_id, attempt_uid=task.attempt_uid, job=other
    )
    assert bench.refusal(ask).code == "not_found"
    assert bench.run(msgspec.structs.replace(ask, job="/ann/parent/child")) == [below]


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


# -- nodes that are lost --------------------------------------------------------------------------------------


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


def test_the_limit_of_a_jobs_own_policy_is_kept(bench) -> None:
    limited = JobBench(Policy(max_concurrency=2))
    limited.worker()
    job_id = limited.submit(spec(replicas=3))
    assert limited.places(job_id).count("") == 1
    assert limited.booked(job_id)[2].reason == "quota"
    limited.end(job_id, 0)
    assert limited.places(job_id)[2]
