"""Jobs in the kernel: who may ask for what, under which name and below which parent (AZ, JB, RT)."""

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.control.kernel.job_settings import JobSettings
from support.control import ADMIN, USER
from support.jobs import GIB, JobBench, spec, submit_job
from support.kernel_jobs import child


@pytest.fixture
def bench() -> JobBench:
    return JobBench()


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
