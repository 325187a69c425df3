"""Jobs through a whole control plane: HTTP in, mutual TLS to nodes that answer as they are told (JB-02, JB-07)."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from hostler.base.errors import HostlerError
from hostler.control.child_jobs import cancel_child, submit_child
from hostler.wire.node import Reports
from support.http_api import api_in
from support.job_fleet import jobs_in, submitted, worker
from support.jobs import GIB, IMAGE, can, job_definitions, spec
from support.plane import PROJECT, plane
from support.tasking import PRIVATE

JOBS = f"/api/v1/projects/{PROJECT}/jobs"


def body(name: str = "train", **more):
    return {"name": name, "image": IMAGE, "command": ["true"], "resources": {"memory_bytes": GIB}} | more


async def test_JB_02_submit_to_end_without_any_poll(tmp_path) -> None:
    """Nothing waits for a tick: from submit to the node, and from the node's word to whoever waits."""
    async with plane(tmp_path) as control:
        await control.publish(*job_definitions())
        node = await control.enroll("gpu-1")
        async with node.session(capabilities=can()) as session:
            took = []
            for number in range(10):
                began = time.perf_counter()
                made = await control.call("POST", JOBS, 202, json=body(f"j{number}"))
                wait = asyncio.create_task(control.call("GET", f"{JOBS}/{made['job_id']}/wait?timeout_seconds=10"))
                (task,) = await session.take()
                assert (task.operation_id, task.replica_index) == (made["job_id"], 0)
                await session.say(Reports(tuple(node.finished(task))))
                assert (await wait)["state"] == "succeeded"
                took.append(time.perf_counter() - began)
        assert min(took) < 0.5  # the loops that look at times do so every 5 s


async def test_RN_06_a_job_of_a_private_image_is_an_operation_that_mints_for_this_image_alone(tmp_path) -> None:
    async with plane(tmp_path) as control:
        await control.publish(PRIVATE)
        made = await control.call("POST", JOBS, 202, json=body(pull_credential=True))
        shown = await control.operation(made["job_id"])
        assert shown["operation_type"] == "job.container.private"
        registry, _, rest = IMAGE.partition("/")
        pulled = [shown["inputs"][f"pull_{name}"] for name in ("registry", "repository", "digest")]
        assert pulled == [f"https://{registry}", *rest.split("@")]
        unpinned = body("other", pull_credential=True, image="registry.example/app:latest")
        refused = await control.call("POST", JOBS, 422, json=unpinned)
        assert refused["error_code"] == "digest_required"


async def test_JB_07_two_gangs_on_six_slots_over_real_sessions(tmp_path) -> None:
    async with plane(tmp_path) as control:
        await control.publish(*job_definitions())
        nodes = [await control.enroll(f"gpu-{n}") for n in range(2)]
        async with (
            nodes[0].session(capabilities=can(cpu=3000)) as one,
            nodes[1].session(capabilities=can(cpu=3000)) as two,
        ):
            asked = [
                control.call("POST", JOBS, 202, json=body(name, replicas=4, gang={})) for name in ("left", "right")
            ]
            first, second = [job["job_id"] for job in await asyncio.gather(*asked)]
            shown = {job_id: await control.call("GET", f"{JOBS}/{job_id}") for job_id in (first, second)}
            runs, waits = sorted(shown, key=lambda job_id: -shown[job_id]["tasks"]["running"])
            assert (shown[runs]["tasks"]["running"], shown[waits]["tasks"]["running"]) == (4, 0)
            assert shown[waits]["reason"].startswith("gang_waits: 2 of 4 would fit")
            ended = 0
            async with asyncio.timeout(20):
                while ended < 8:
                    for node, session in zip(nodes, (one, two), strict=True):
                        try:
                            specs = await asyncio.wait_for(session.take(), 0.3)
                        except TimeoutError:
                            continue
                        for spec_ in specs:
                            await session.say(Reports(tuple(node.finished(spec_))))
                            ended += 1
            for job_id in (first, second):
                done = await control.call("GET", f"{JOBS}/{job_id}/wait?timeout_seconds=10")
                assert done["state"] == "succeeded"


async def test_TE_08_a_tasks_own_call_makes_and_ends_its_children(tmp_path) -> None:
    async with jobs_in(tmp_path) as fleet:
        node = await worker(fleet)
        parent = await submitted(fleet, spec("parent"))
        (task,) = await fleet.take(node)
        caller = SimpleNamespace(
            node_id=node.node_id, task_id=task.task_id, attempt_uid=task.attempt_uid, operation_id=parent,
            requested_by_user_id="ann",
        )  # fmt: skip
        made = await submit_child(fleet.engine, caller, spec("child", image=""), "one")
        again = await submit_child(fleet.engine, caller, spec("child", image=""), "one")
        assert (made.name, made.created, again.job_id, again.created) == ("/ann/parent/child", True, made.job_id, False)
        made_by = await fleet.engine.reader.operation("train", made.job_id)
        assert made_by is not None
        assert made_by.idempotency_key == f"/child/{task.attempt_uid}/one", "of this attempt, and nobody's to ask with"
        shown = await fleet.engine.reader.job("train", made.job_id)
        assert (shown.user, shown.parent, shown.root) == ("ann", "/ann/parent", "/ann/parent")
        (asked,) = [e for e in await fleet.events(made.job_id) if e.type == "operation.requested"]
        assert asked.body["operation_id"] == made.job_id
        stranger = SimpleNamespace(**{**vars(caller), "node_id": "nod_other"})
        for ask in (submit_child(fleet.engine, stranger, spec("x")), cancel_child(fleet.engine, stranger, parent)):
            with pytest.raises(HostlerError) as refused:
                await ask
            assert refused.value.code == "not_found"
        assert await cancel_child(fleet.engine, caller, made.job_id) == [made.job_id]


async def test_API_26_a_jobs_log_is_its_operations_and_can_be_cut_to_a_task(tmp_path) -> None:
    from hostler.wire.report import LogLine

    async with api_in(tmp_path) as api:
        await api.fleet.publish(*job_definitions())
        node = await worker(api.fleet)
        job_id = await submitted(api.fleet, spec(replicas=2))
        for task in await api.fleet.take(node):
            said = LogLine(
                task_id=task.task_id, attempt_uid=task.attempt_uid, step_id="write", step_index=0, stream="stdout",
                text=f"task {task.replica_index}", at_ms=1,
            )  # fmt: skip
            await api.fleet.report(node, said)
        async with await api.client("project_viewer") as client:
            path = f"/api/v1/projects/train/operations/{job_id}/logs"
            every = (await client.get(path)).json()["items"]
            one = (await client.get(path, params={"task_index": "1"})).json()["items"]
        assert [line["text"] for line in every] == ["task 0", "task 1"]
        assert [line["text"] for line in one] == ["task 1"]
