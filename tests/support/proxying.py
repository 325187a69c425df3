"""A request through the endpoint proxy where the test is the node and the task (TE-22)."""

import asyncio

import httpx

from hostler.control.kernel.endpoint_commands import RegisterEndpoint
from hostler.wire.relay import STDOUT, WINDOW, RelayData, RelayWindow
from support.http_api import Api


async def asked_through(api: Api, client: httpx.AsyncClient, method: str, job_id: str) -> httpx.Response:
    """The answer of task 0 of a running job, which registers its endpoint first."""
    job = await api.fleet.engine.reader.operation("train", job_id)
    assert job is not None
    (task,) = job.tasks
    await api.fleet.engine.execute(
        RegisterEndpoint(
            node_id=task.node_id,
            task_id=task.task_id,
            attempt_uid=task.attempt_uid,
            endpoint_id="web-id",
            name="web",
            metadata={},
            lease_ms=0,
            address="10.0.0.7:30001",
            node_address="10.0.0.7",
            ports=(30_001,),
        )
    )
    path = f"/api/v1/projects/train/endpoints/{task.task_id}/web-id/proxy/x"
    relays = api.parts.relays
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(client.request(method, path))
        while not (made := list(relays._relays.values())):
            await asyncio.sleep(0.01)
        made[0].from_agent(RelayWindow(WINDOW))
        made[0].from_agent(RelayData(STDOUT, b"HTTP/1.1 200 fine\r\ncontent-length: 2\r\n\r\n{}"))
        return await asking
