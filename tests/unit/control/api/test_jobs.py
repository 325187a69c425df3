"""The routes of jobs over a real engine and store (API-26, JB-01..07)."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from hostler.control.kernel.commands import NodeHello
from hostler.control.store.pages import encode_cursor
from hostler.wire.node import Hello
from hostler.wire.report import StepStatus, TaskStatus
from support.control import step_report, task_report
from support.http_api import api_in
from support.jobs import GIB, IMAGE, can, job_definitions

JOBS = "/api/v1/projects/train/jobs"
SHAPE = {
    "job_id", "name", "parent", "root", "user", "state", "reason", "priority", "replicas", "tasks", "failures",
    "preemptions", "created_at_ms", "started_at_ms", "finished_at_ms", "spec",
}  # fmt: skip
TASK = {
    "task_index", "task_id", "state", "node_id", "node", "attempt_number", "attempt_uid", "exit_code", "error_code",
    "error_message", "reason", "failures", "preemptions", "attempts",
}  # fmt: skip


def body(name: str = "train", **more):
    resources = {"cpu_millis": 1000, "memory_bytes": GIB} | more.pop("resources", {})
    return {"name": name, "image": IMAGE, "command": ["true"], "resources": resources} | more


@asynccontextmanager
async def jobs_api(directory):
    async with api_in(directory) as api:
        await api.fleet.publish(*job_definitions())
        async with await api.client("project_member", name="ann") as client:
            yield api, client


async def worker(api, name="gpu-1", **caps):
    node = await api.fleet.enroll(name)
    await connect(api, node, **caps)
    return node


async def connect(api, node, session="s1", **caps):
    hello = Hello(
        agent_version="1", high_sequence=node.high_sequence, open_tasks=tuple(node.open), capabilities=can(**caps)
    )
    await api.fleet.execute(NodeHello(node_id=node.node_id, session_id=session, hello=hello))


async def said(client, method, path, status=200, **more):
    answer = await client.request(method, path, **more)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_JB_02_a_job_from_submit_to_its_exit_code(tmp_path) -> None:
    async with jobs_api(tmp_path) as (api, ann):
        node = await worker(api)
        made = await said(ann, "POST", JOBS, 202, json=body(replicas=2))
        job = await said(ann, "GET", f"{JOBS}/{made['job_id']}")
        assert set(job) >= SHAPE
        assert (job["name"], job["parent"], job["user"], job["state"]) == ("/ann/train", "", "ann", "pending")
        assert (job["priority"], job["tasks"]["running"], job["spec"]["name"]) == ("normal", 2, "train")
        specs = await api.fleet.take(node)
        assert [spec.replica_index for spec in specs] == [0, 1]
        await api.fleet.report(node, task_report(specs[1], TaskStatus.RUNNING, at_ms=api.fleet.clock.now))
        assert (await said(ann, "GET", f"{JOBS}/ann/train"))["state"] == "running"
        waiting = asyncio.create_task(said(ann, "GET", f"{JOBS}/{made['job_id']}/wait?timeout_seconds=20"))
        await asyncio.sleep(0)
        await api.fleet.run(node, specs[0])
        ended = step_report(
            specs[1], 0, StepStatus.FAILED, outputs_json=b'{"exit_code":7}', error_code="exit_status", finished_at_ms=5
        )
        ended = msgspec.structs.replace(ended, step_kind="container.run")
        why = {"error_code": "exit_status", "error_message": "it exited with 7", "failed_step_id": ended.step_id}
        await api.fleet.report(node, ended, task_report(specs[1], TaskStatus.FAILED, **why))
        async with asyncio.timeout(5):
            done = await waiting
        assert (done["state"], done["reason"], done["tasks"]["failed"]) == ("failed", "it exited with 7", 1)
        tasks = await said(ann, "GET", f"{JOBS}/{made['job_id']}/tasks")
        assert [set(task) >= TASK for task in tasks["items"]] == [True, True]
        one, two = tasks["items"]
        assert (one["state"], one["exit_code"], one["node"]) == ("succeeded", None, "gpu-1")
        assert (two["state"], two["exit_code"], two["error_code"]) == ("failed", 7, "exit_status")
        assert [each["exit_code"] for each in two["attempts"]] == [7]
        events = [event.type for event in await api.fleet.events(made["job_id"]) if event.type.startswith("job.")]
        assert events == ["job.submitted", "job.task_placed", "job.task_placed", "job.finished"]


async def test_JB_05_both_attempts_of_a_retried_task_are_shown(tmp_path) -> None:
    async with jobs_api(tmp_path) as (api, ann):
        node = await worker(api)
        made = await said(ann, "POST", JOBS, 202, json=body(retries={"failure": 1}))
        for code in ("exit_status", ""):
            (spec,) = await api.fleet.take(node)
            await api.fleet.run(node, spec, fail_at=0 if code else -1)
        (task,) = (await said(ann, "GET", f"{JOBS}/{made['job_id']}/tasks"))["items"]
        assert [(a["attempt_number"], a["state"]) for a in task["attempts"]] == [(1, "failed"), (2, "succeeded")]
        assert len({a["attempt_uid"] for a in task["attempts"]}) == 2
        assert (task["failures"], task["preemptions"]) == (1, 0)


async def test_explain_says_of_each_task_and_each_node_why(tmp_path) -> None:
    async with jobs_api(tmp_path) as (api, ann):
        await worker(api, "small", cpu=1000)
        await worker(api, "large", cpu=8000, gpu_vendor="amd")
        asked = body(
            replicas=2, resources={"cpu_millis": 6000},
            constraints=[{"key": "gpu.vendor", "op": "in", "values": ["amd", "nvidia"]}],
        )  # fmt: skip
        made = await said(ann, "POST", JOBS, 202, json=asked)
        why = await said(ann, "GET", f"{JOBS}/{made['job_id']}/explain")
        assert set(why) == {"job_id", "state", "reason", "tasks", "nodes"}
        (task,) = why["tasks"]
        assert (task["task_index"], task["reason"]) == (1, "no_capacity")
        assert task["detail"] == "cpu_millis: 6000 asked for, at most 2000 free, on large"
        found = {node["node"]: (node["fits"], node["why"]) for node in why["nodes"]}
        assert found["small"] == (False, "does not meet: gpu.vendor is one of amd, nvidia")
        assert found["large"] == (False, "cpu_millis: 6000 asked for, 2000 free")
        assert why["reason"].startswith("no_capacity: cpu_millis")


async def test_JB_03_04_keep_cancel_and_cancel_again(tmp_path) -> None:
    async with jobs_api(tmp_path) as (api, ann):
        await worker(api)
        first = await said(ann, "POST", JOBS, 202, json=body(existing="keep"))
        assert (await said(ann, "POST", JOBS, 200, json=body(existing="keep")))["job_id"] == first["job_id"]
        refused = await said(ann, "POST", JOBS, 409, json=body())
        assert refused["error_code"] == "job_exists"
        child = await said(ann, "POST", JOBS, 202, json=body("child", parent=first["job_id"]))
        told = await said(ann, "POST", f"{JOBS}/{first['job_id']}/cancel", 202)
        assert told["canceled"] == [first["job_id"], child["job_id"]]
        assert (await said(ann, "POST", f"{JOBS}/{first['job_id']}/cancel", 200))["canceled"] == []
        async with await api.client("project_member", name="bob") as bob:
            assert (await said(bob, "POST", f"{JOBS}/{first['job_id']}/cancel", 403))["error_code"] == "scope_denied"


async def test_JB_06_a_cluster_and_a_backend_at_once_are_unprocessable(tmp_path) -> None:
    async with jobs_api(tmp_path) as (_, ann):
        both = await said(ann, "POST", JOBS, 422, json=body(cluster="east", backend="node_agent"))
        assert (both["error_code"], both["pointer"]) == ("invalid_request", "/cluster")
        assert (await said(ann, "POST", JOBS, 422, json=body(title="x")))["error_code"] == "unknown_field"
        assert (await said(ann, "POST", JOBS, 404, json=body(parent="/ann/none")))["error_code"] == "not_found"


async def test_lists_are_paged_and_narrowed(tmp_path) -> None:
    async with jobs_api(tmp_path) as (api, ann):
        node = await worker(api)
        ids = []
        for n in range(3):
            ids.append((await said(ann, "POST", JOBS, 202, json=body(f"j{n}", replicas=3)))["job_id"])
            api.fleet.clock.move(1)  # ids of one moment are in no order
        below = (await said(ann, "POST", JOBS, 202, json=body("child", parent=ids[0])))["job_id"]
        page = await said(ann, "GET", f"{JOBS}?page_size=3")
        rest = await said(ann, "GET", f"{JOBS}?page_size=3&cursor={page['next_cursor']}")
        assert [job["job_id"] for job in (*page["items"], *rest["items"])] == [below, *reversed(ids)]
        tree = await said(ann, "GET", f"{JOBS}?prefix=/ann/j0")
        assert [job["job_id"] for job in tree["items"]] == [below, ids[0]]
        for spec in await api.fleet.take(node):
            await api.fleet.run(node, spec)
        done = await said(ann, "GET", f"{JOBS}?state=succeeded")
        assert [job["job_id"] for job in done["items"]] == [ids[0]]
        assert (await said(ann, "GET", f"{JOBS}?state=lost", 422))["error_code"] == "invalid_request"
        first = await said(ann, "GET", f"{JOBS}/{ids[0]}/tasks?page_size=2")
        last = await said(ann, "GET", f"{JOBS}/{ids[0]}/tasks?page_size=2&cursor={first['next_cursor']}")
        assert [task["task_index"] for task in (*first["items"], *last["items"])] == [0, 1, 2]


async def test_a_cursor_of_another_list_is_refused(tmp_path) -> None:
    async with jobs_api(tmp_path) as (_, ann):
        made = await said(ann, "POST", JOBS, 202, json=body())
        for cursor in (encode_cursor(made["job_id"]), encode_cursor("9" * 30), encode_cursor("-1"), "x"):
            refused = await said(ann, "GET", f"{JOBS}/{made['job_id']}/tasks?cursor={cursor}", 422)
            assert refused["error_code"] == "invalid_cursor"


@pytest.mark.parametrize(
    "more",
    [
        {"environment": {"DB_PASSWORD": "hunter2"}},
        {"environment": {"URL": "x -----BEGIN RSA PRIVATE KEY----- x"}},
        {"command": ["login", "-----BEGIN OPENSSH PRIVATE KEY-----"]},
    ],
    ids=str,
)
async def test_S1_what_looks_like_a_secret_is_in_no_job(tmp_path, more) -> None:
    """A job's environment and arguments are in the store, in signed tasks, and shown to every reader."""
    async with jobs_api(tmp_path) as (_, ann):
        assert (await said(ann, "POST", JOBS, 422, json=body(**more)))["error_code"] == "secret_in_payload"
        assert (await said(ann, "GET", JOBS))["items"] == []


async def test_BK_06_capacity_is_what_nodes_have_and_what_jobs_hold_of_it(tmp_path) -> None:
    async with jobs_api(tmp_path) as (api, ann):
        node = await worker(api, cpu=4000, gpu_count="8")
        await said(ann, "POST", JOBS, 202, json=body(resources={"device": {"kind": "gpu", "count": 2}}))
        async with await api.client("platform_admin") as admin:
            (shown,) = (await said(admin, "GET", "/api/v1/admin/capacity"))["items"]
        assert (shown["node_id"], shown["runtimes"], shown["tasks"]) == (node.node_id, ["containerd"], 1)
        assert (shown["total"]["gpus"], shown["reserved"]["gpus"], shown["free"]["gpus"]) == (8, 2, 6)
        assert (shown["reserved"]["cpu_millis"], shown["free"]["cpu_millis"]) == (1000, 3000)


async def test_EF_06_a_lost_nodes_task_says_why_it_waits(tmp_path) -> None:
    async with jobs_api(tmp_path) as (api, ann):
        node = await worker(api)
        made = await said(ann, "POST", JOBS, 202, json=body())
        await api.fleet.take(node)
        await api.fleet.lose(node)
        (task,) = (await said(ann, "GET", f"{JOBS}/{made['job_id']}/tasks"))["items"]
        assert (task["state"], task["reason"].partition(":")[0]) == ("running", "node_lost")


@pytest.mark.parametrize("text", ["abc", "-1", "99999"])
async def test_wait_takes_whole_seconds(tmp_path, text) -> None:
    async with jobs_api(tmp_path) as (_, ann):
        made = await said(ann, "POST", JOBS, 202, json=body())
        await said(ann, "GET", f"{JOBS}/{made['job_id']}/wait?timeout_seconds={text}", 422)
        quick = await said(ann, "GET", f"{JOBS}/{made['job_id']}/wait?timeout_seconds=0")
        assert quick["state"] == "pending"
