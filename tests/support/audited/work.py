"""How operations, jobs and what runs inside them are changed, and their code."""

import httpx

from hostler.wire.report import TaskReport, TaskStatus
from support.audited.told import CHANGED, CODE, DEMO, GONE, JOBS, MADE, OPERATIONS, story
from support.builders import definition
from support.job_fleet import connect
from support.jobs import IMAGE, job_definitions
from support.lending import Place
from support.proxying import asked_through

# -- operations -----------------------------------------------------------------------------------


@story(MADE, "operations.submit")
async def submitted(at: Place) -> httpx.Response:
    node = await at.fleet.node("gpu-1")
    body = DEMO | {"target_selector": {"nodes": [node.node_id]}, "idempotency_key": "one"}
    return await at.admin.post(OPERATIONS, json=body)


@story(CHANGED, "operations.cancel")
async def cancelled(at: Place) -> httpx.Response:
    operation_id = await at.fleet.submit(await at.fleet.node("gpu-1"))
    return await at.admin.post(f"{OPERATIONS}/{operation_id}/cancel")


@story(CHANGED, "operations.retry")
async def retried(at: Place) -> httpx.Response:
    node = await at.fleet.node("gpu-1")
    operation_id = await at.fleet.submit(node)
    for spec in await at.fleet.take(node):
        await at.fleet.run(node, spec, fail_at=0)
    return await at.admin.post(f"{OPERATIONS}/{operation_id}/retry")


async def _given_up(at: Place) -> str:
    """An operation whose node was there and never said what became of its task."""
    node = await at.fleet.node("gpu-1")
    operation_id = await at.fleet.submit(node)
    for spec in await at.fleet.take(node):
        await at.fleet.run(node, spec, fail_at=0, code="interrupted_apply")
    return operation_id


@story(MADE, "operations.probe")
async def work_probed(at: Place) -> httpx.Response:
    operation_id = await at.fleet.submit(await at.fleet.node("gpu-1"))
    return await at.admin.post(f"{OPERATIONS}/{operation_id}/probe")


@story(CHANGED, "operations.recover")
async def work_recovered(at: Place) -> httpx.Response:
    return await at.admin.post(f"{OPERATIONS}/{await _given_up(at)}/recover")


# -- jobs, what runs inside them, and their code -------------------------------------------------


@story(MADE, "jobs.submit")
async def job_submitted(at: Place) -> httpx.Response:
    inside = [
        definition(type_=f"job.task.{name}", inputs={"type": "object"}) for name in ("exec", "forward", "profile")
    ]
    await at.fleet.publish(*job_definitions(), *inside, version=2)
    await connect(at.fleet, await at.fleet.enroll("gpu-1"))
    amounts = {"cpu_millis": 1000, "memory_bytes": 1 << 30}
    return await at.admin.post(JOBS, json={"name": "a", "image": IMAGE, "command": ["a"], "resources": amounts})


@story(CHANGED, "jobs.cancel")
async def job_canceled(at: Place) -> httpx.Response:
    job_id = (await job_submitted(at)).json()["job_id"]
    return await at.admin.post(f"{JOBS}/{job_id}/cancel")


async def _running_job(at: Place) -> str:
    job_id: str = (await job_submitted(at)).json()["job_id"]
    (node,) = [node for node in at.fleet.nodes.values() if node.name == "gpu-1"]
    (spec,) = await at.fleet.take(node)
    began = TaskReport(task_id=spec.task_id, attempt_uid=spec.attempt_uid, status=TaskStatus.RUNNING)
    await at.fleet.report(node, began)
    return job_id


@story(MADE, "exec.run")
async def entered(at: Place) -> httpx.Response:
    return await at.admin.post(f"{JOBS}/{await _running_job(at)}/exec", json={"command": ["ps"]})


@story(MADE, "exec.profile")
async def profiled(at: Place) -> httpx.Response:
    return await at.admin.post(f"{JOBS}/{await _running_job(at)}/profile", json={})


@story(MADE, "code_bundles.put")
async def code_sent(at: Place) -> httpx.Response:
    await at.fleet.node("gpu-1")  # whose project it becomes
    return await at.admin.put(CODE, content=b"code")


@story(GONE, "code_bundles.delete")
async def code_deleted(at: Place) -> httpx.Response:
    await code_sent(at)
    return await at.admin.delete(CODE)


def _proxy_story(method: str) -> None:
    async def asked(at: Place) -> httpx.Response:
        return await asked_through(at.api, at.admin, method, await _running_job(at))

    story(MADE, f"endpoint_proxy.{method.lower()}")(asked)


for _method in ("POST", "PUT", "PATCH", "DELETE"):
    _proxy_story(_method)
