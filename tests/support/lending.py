"""Lending over the HTTP API on a real store: a pool, its administrator and two tenants."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from hostler.control.kernel.allocation_states import POOL
from support.allocations import profiles
from support.builders import definition
from support.control import FakeNode
from support.http_api import Api, api_in
from support.rolling import AGENTS

BASE = "/api/v1/projects/train/allocations"
NODES = "/api/v1/admin/nodes"


class Place:
    """A control plane with a pool, its administrator, and two tenants."""

    def __init__(self, api: Api) -> None:
        self.api, self.fleet = api, api.fleet
        self.nodes: list[FakeNode] = []

    async def prepare(self, nodes: int) -> None:
        await self.fleet.publish(*profiles(), definition())
        for number in range(nodes):
            self.nodes.append(await self.fleet.node(f"pool-{number}", org=POOL, project=POOL))
        self.admin = await self.api.client("platform_admin")
        self.tenant = await self.api.client("project_admin", name="ann")
        self.other = await self.api.client("project_admin", "rival", "lab", name="bob")

    async def asked(self, status: int = 202, who: httpx.AsyncClient | None = None, **body: Any) -> Any:
        answer = await (who or self.tenant).post(BASE, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def post(self, path: str, status: int, who: httpx.AsyncClient, **body: Any) -> Any:
        answer = await who.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def show(self, allocation_id: str) -> Any:
        return (await self.tenant.get(f"{BASE}/{allocation_id}")).json()

    async def work(self, *, fail: str = "") -> list[Any]:
        """Every node does what it has been sent, until there is nothing more; one type of operation fails."""
        done = []
        while specs := [(node, spec) for node in self.nodes for spec in await self.fleet.take(node)]:
            for node, spec in specs:
                if spec.operation_type == fail:
                    await self.fleet.run(node, spec, fail_at=0, code="exit_status")
                else:
                    await self.fleet.run(node, spec)
                done.append(spec)
        return done

    async def active(self, **body: Any) -> str:
        made = await self.asked(**body)
        await self.work()
        allocation_id: str = made["allocation_id"]
        assert (await self.show(allocation_id))["state"] == "active"
        return allocation_id

    async def audit(self, action: str) -> list[Any]:
        return [line for line in await self.fleet.engine.reader.audit(0, 10_000) if line.action == action]


@asynccontextmanager
async def place(directory: Path, nodes: int = 1) -> AsyncIterator[Place]:
    async with api_in(directory, settings=AGENTS) as api:
        made = Place(api)
        await made.prepare(nodes)
        yield made
