"""Jobs in the kernel: subtrees, their ends, and the children that a running task submits (JB, TE)."""

import msgspec
import pytest

from hostler.control.kernel.commands import CancelOperation
from hostler.control.kernel.job_commands import CancelChildJob, CancelJob, SubmitChildJob
from hostler.wire.report import TaskStatus
from support.control import USER
from support.jobs import JobBench, spec, submit_job
from support.kernel_jobs import TASK_OF_ANN, cancel, child


@pytest.fixture
def bench() -> JobBench:
    return JobBench()


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
        "actor": TASK_OF_ANN, "node_id": task.node_id, "task_id": task.task_id, "attempt_uid": task.attempt_uid,
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
        actor=TASK_OF_ANN, node_id=task.node_id, task_id=task.task_id, attempt_uid=task.attempt_uid, job=other
    )
    assert bench.refusal(ask).code == "not_found"
    assert bench.run(msgspec.structs.replace(ask, job="/ann/parent/child")) == [below]
