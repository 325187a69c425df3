"""A task API on a socket, with a control plane behind it that says what the test wants."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from hostler.agent.containers.workload import TaskFacts
from hostler.agent.taskapi.calls import Reply
from hostler.agent.taskapi.server import SOCKET, TaskApi
from hostler.base.errors import error
from hostler.wire.task_calls import BODIES
from support.control import FrozenClock

FACTS = TaskFacts(
    job_id="op_1",
    job="/ann/train/child",
    parent="/ann/train",
    namespace="/ann/train",
    task_id="tsk_1",
    attempt_uid="att_1",
    attempt_number=1,
    task_index=0,
    num_tasks=1,
    org_id="acme",
    project_id="train",
    node_id="nod_1",
    node_address="10.0.0.7",
    ports={"actor": 30001},
)
ITEM = {
    "endpoint_id": "e1", "name": "a", "namespace": "/ann/train", "address": "10.0.0.7:30001", "metadata": {},
    "task_id": "tsk_1", "attempt_uid": "att_1", "operation_id": "op_1", "node_id": "nod_1", "node_name": "gpu-1",
    "registered_at_ms": 1, "renewed_at_ms": 1, "lease_deadline_ms": 2**50,
}  # fmt: skip
JOB = {
    "job_id": "op_2", "job": "/ann/train/child/x", "parent": "/ann/train/child", "status": "running", "tasks_total": 1,
    "error_code": "", "error_message": "",
}  # fmt: skip
LEASE = {
    "endpoint_id": "e1", "name": "a", "namespace": "/ann/train", "address": "10.0.0.7:30001", "lease_ms": 600_000,
    "lease_deadline_ms": 2**50,
}  # fmt: skip
ANSWERS: dict[str, Any] = {
    "keys": {"namespace": "/ann/train", "project_key": "aa" * 32, "namespace_key": "bb" * 32},
    "endpoints.register": LEASE,
    "endpoints.unregister": {"removed": True},
    "endpoints.list": {"namespace": "/ann/train", "items": [ITEM], "truncated": False},
    "jobs.submit": JOB,
    "jobs.show": JOB,
    "jobs.wait": JOB,
    "jobs.cancel": JOB,
    "progress": {},
}


class FakeCalls:
    """Every body must be what the control plane takes. `away` makes it unreachable."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.answers = dict(ANSWERS)
        self.status = 200
        self.away = False
        self.broken: Exception | None = None

    async def __call__(self, facts: TaskFacts, method: str, body: Any = None, wait_s: float = 0.0) -> Reply:
        said = msgspec.to_builtins({} if body is None else body)
        msgspec.convert(said, BODIES[method])
        self.asked.append((method, said))
        if self.broken:
            raise self.broken
        if self.away:
            raise error("controller_unreachable", "no answer from the control plane")
        return Reply(self.status, msgspec.json.encode(self.answers[method]))


class Api:
    """`http` asks as the task does."""

    def __init__(self, calls: FakeCalls, clock: FrozenClock, server: TaskApi, folder: Path) -> None:
        self.calls, self.clock, self.server, self.folder = calls, clock, server, folder
        self.path = folder / SOCKET
        transport = httpx.AsyncHTTPTransport(uds=str(self.path))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://task", timeout=20)


@asynccontextmanager
async def served(facts: TaskFacts = FACTS) -> AsyncIterator[Api]:
    calls, clock = FakeCalls(), FrozenClock()
    with tempfile.TemporaryDirectory(prefix="hostler-taskapi-") as folder:
        server = TaskApi(Path(folder) / "tasks", calls, clock)
        async with server.serve(facts) as directory:
            api = Api(calls, clock, server, directory)
            async with api.http:
                yield api
