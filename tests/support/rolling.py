"""Rollouts over the HTTP API on a real store: two releases, nodes that play their part, and an administrator."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from hostler.control.kernel.agent_commands import AdvanceAgents, RecordAgentReport
from hostler.control.kernel.agent_settings import AgentSettings
from hostler.control.kernel.commands import NodeGone, NodeHello, RecordCertificate
from hostler.control.kernel.model import Settings
from hostler.pki.agent_report import Slot, sign_report
from hostler.pki.keys import new_ed25519
from hostler.wire.node import Hello
from hostler.wire.report import TaskStatus
from hostler.wire.task import TaskSpec
from support.agents import NEW, OLD, URL, facts, profiles, publish, report
from support.control import FakeNode, Fleet, task_report
from support.http_api import Api, api_in

ROLLOUTS = "/api/v1/admin/agent-rollouts"
SWIFT: dict[str, Any] = {"soak_seconds": 0, "safety_policy": "force"}
AGENTS = Settings(agents=AgentSettings(public_url=URL, url_key=b"k" * 32))
_SIGNER = new_ed25519()  # nobody here looks at whose it is
_numbers = itertools.count(1)  # no process of a node is ever the same, over restarts of the control plane too


class Nodes:
    """What the nodes of a fleet do."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.nodes: list[FakeNode] = []
        self._sessions: dict[str, str] = {}

    async def prepare(self, *regions: str, catalog: int = 1) -> None:
        await self.fleet.publish(*profiles(), version=catalog)
        await self.fleet.execute(publish(facts(OLD), facts(NEW)))
        for number, region in enumerate(regions):
            node = await self.fleet.enroll(f"gpu-{number}", labels={"region": region})
            self.nodes.append(node)
            await self.hello(node, OLD)

    async def hello(self, node: FakeNode, version: str, *, renewed: bool = True) -> None:
        """Another process of it, with a certificate of its own."""
        serial = f"{self.fleet.clock.now}-{next(_numbers)}"
        if renewed:
            now = self.fleet.clock.now
            made = RecordCertificate(
                node_id=node.node_id,
                serial=serial,
                thumbprint="f" * 64,
                not_before_ms=now,
                not_after_ms=now + 86_400_000,
            )
            await self.fleet.execute(made)
        hello = Hello(
            agent_version=version,
            agent_commit="c" * 40,
            high_sequence=node.high_sequence,
            instance_id=serial,
            parallel_tasks=4,
            open_tasks=tuple(node.open),
        )
        session = self._sessions[node.node_id] = f"s {serial}"
        command = NodeHello(node_id=node.node_id, session_id=session, hello=hello, serial=serial if renewed else "")
        await self.fleet.execute(command)
        slots = (Slot(version=NEW, commit="c", state="running"), Slot(version=OLD, commit="c", state="previous"))
        said = report(node.node_id, version, at_ms=self.fleet.clock.now, slots=slots if version == NEW else ())
        await self.fleet.execute(
            RecordAgentReport(node_id=node.node_id, report=said, document=sign_report(said, _SIGNER))
        )

    async def gone(self, node: FakeNode) -> None:
        await self.fleet.execute(NodeGone(node_id=node.node_id, session_id=self._sessions[node.node_id]))

    async def work(self, *bad: FakeNode, most: int = 10_000) -> int:
        """Every node does what it is sent, until there is nothing more; the bad ones return to what they ran."""
        done = 0
        while done < most:
            due = [(node, spec) for node in self.nodes for spec in await self.fleet.take(node)]
            due += [(n, spec) for n in self.nodes for spec in n.open.values() if (n, spec) not in due]
            if not due:
                return done
            for node, spec in due:
                await self._do(node, spec, bad=node in bad)
                done += 1
        return done

    async def _do(self, node: FakeNode, spec: TaskSpec, *, bad: bool) -> None:
        if spec.operation_type == "node.self_update":
            await self.fleet.report(node, task_report(spec, TaskStatus.RUNNING, at_ms=self.fleet.clock.now))
            await self.gone(node)
            await self.hello(node, OLD if bad else NEW)
            if bad:
                node.open.pop(spec.task_id)
                why = {"error_code": "upgrade_rolled_back", "error_message": "no certificate in 90 s"}
                failed = task_report(spec, TaskStatus.FAILED, at_ms=self.fleet.clock.now, **why)
                await self.fleet.report(node, failed)
                return
        elif spec.operation_type == "agent.upgrade.rollback":
            await self.fleet.report(node, task_report(spec, TaskStatus.RUNNING, at_ms=self.fleet.clock.now))
            await self.gone(node)
            await self.hello(node, OLD)
        await self.fleet.run(node, spec)

    async def pass_time(self, ms: int) -> None:
        self.fleet.clock.move(ms)
        await self.fleet.execute(AdvanceAgents())


class Rolling(Nodes):
    """The same, with an administrator."""

    api: Api
    admin: httpx.AsyncClient

    async def create(self, status: int = 201, *, dry_run: bool = False, **asked: Any) -> Any:
        settings = SWIFT | asked.pop("settings", {})
        body = {"version": NEW, "settings": settings, "dry_run": dry_run} | asked
        return await self.post(ROLLOUTS, status, **body)

    async def post(self, path: str, status: int = 200, **body: Any) -> Any:
        answer = await self.admin.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def show(self, rollout_id: str, **query: Any) -> Any:
        answer = await self.admin.get(f"{ROLLOUTS}/{rollout_id}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def rolling(directory: Path, *regions: str) -> AsyncIterator[Rolling]:
    async with api_in(directory, settings=AGENTS) as api:
        made = Rolling(api.fleet)
        made.api = api
        await made.prepare(*regions)
        made.admin = await api.client("platform_admin")
        yield made


__all__ = ["AGENTS", "NEW", "OLD", "ROLLOUTS", "SWIFT", "Nodes", "Rolling", "rolling"]
