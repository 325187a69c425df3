"""A whole control plane inside the test: the real service on loopback ports, its keys made by the ceremony."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec

from hostler.base.clock import SystemClock
from hostler.catalog.definition import Definition
from hostler.catalog.manifest import make_manifest, sign_manifest, write_bundle
from hostler.cli.demo_files import Ports
from hostler.control.config import ControlConfig
from hostler.control.kernel.commands import Actor, CreatePrincipal
from hostler.control.service import open_engine, serve
from hostler.pki import ceremony
from hostler.pki.keys import new_ed25519
from hostler.pki.tokens import new_bearer_token
from hostler.pki.trust_files import load_trust
from support import fake_node
from support.builders import definition
from support.fake_node import FakeNode
from support.ports import control_ports

DOMAIN = "plane.hostler"
ORG, PROJECT = "acme", "train"
DAY_MS = 86_400_000
SYSTEM = Actor(kind="system", name="test", role="platform_admin")


@dataclass
class Plane:
    """`http` speaks as a platform_admin."""

    home: Path
    config: ControlConfig
    ports: Ports
    http: httpx.AsyncClient
    members: dict[tuple[str, str], httpx.AsyncClient] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return self.config.node_listen

    @property
    def ca_pems(self) -> tuple[str, ...]:
        return ((self.home / "pki/control/ca.pem").read_text(),)

    async def call(self, method: str, path: str, status: int = 200, **more: Any) -> Any:
        """The decoded answer, whose status must be `status`."""
        answer = await self.http.request(method, path, **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    def bundle(self, *definitions: Definition, version: int = 1, signer: Any = None) -> bytes:
        """A signed catalog bundle, by the ceremony's catalog key unless told otherwise."""
        key = signer or ceremony.load_signer(self.home / "pki/catalog/catalog.key")
        kept = definitions or (definition(),)
        manifest = make_manifest(version, kept, (), now_ms=SystemClock().now_ms(), lifetime_ms=DAY_MS)
        return write_bundle(sign_manifest(manifest, [key]), tuple(each.canonical() for each in kept))

    async def publish(self, *definitions: Definition, version: int = 1) -> list[str]:
        body = self.bundle(*definitions, version=version)
        made = await self.call("POST", "/api/v1/admin/operation-definitions", 201, content=body)
        registered: list[str] = made["registered"]
        return registered

    async def token(self, name: str, org: str = ORG, project: str = PROJECT, **more: Any) -> str:
        body = {"node_name": name, "org_id": org, "project_id": project, **more}
        made = await self.call("POST", "/api/v1/admin/enrolment-tokens", 201, json=body)
        text: str = made["token"]
        return text

    async def enroll(self, name: str = "gpu-1", **more: Any) -> FakeNode:
        token = await self.token(name, **more)
        runner = new_ed25519()
        signer, answer = await fake_node.enroll(token, self.config.enroll_listen, self.ca_pems, DOMAIN, runner=runner)
        chain, address = answer.certificate_pem, self.address
        return FakeNode(answer.node_id, signer, chain, self.ca_pems, address, DOMAIN, runner=runner)

    async def principal(self, name: str, role: str, org: str = "", project: str = "") -> httpx.AsyncClient:
        """A client that speaks as a new principal; closed with the plane's own."""
        body = {"name": name, "role": role, "org_id": org, "project_id": project}
        made = await self.call("POST", "/api/v1/admin/principals", 201, json=body)
        return self.client(made["token"])

    async def member(self, name: str, org: str = ORG, project: str = PROJECT) -> httpx.AsyncClient:
        """One that speaks as that member of the project, made the first time."""
        if (name, project) not in self.members:
            self.members[name, project] = await self.principal(name, "project_member", org, project)
        return self.members[name, project]

    def client(self, token: str) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(base_url=self.ports.server, headers=headers, trust_env=False, timeout=20)

    async def submit(self, *nodes: FakeNode, project: str = PROJECT, **changes: Any) -> str:
        made = await self.call("POST", operations(project), 202, json=submission(*nodes, **changes))
        operation_id: str = made["operation_id"]
        return operation_id

    async def operation(self, operation_id: str, project: str = PROJECT) -> Any:
        return await self.call("GET", f"{operations(project)}/{operation_id}")

    def rows(self, sql: str, *parameters: Any) -> list[Any]:
        """What the store holds, read beside the control plane."""
        db = sqlite3.connect(f"file:{self.config.store_path}?mode=ro", uri=True)
        try:
            return db.execute(sql, parameters).fetchall()
        finally:
            db.close()


def operations(project: str = PROJECT) -> str:
    return f"/api/v1/projects/{project}/operations"


def submission(*nodes: FakeNode, **changes: Any) -> dict[str, Any]:
    """`demo.write@v1` on these nodes, unless told otherwise."""
    selector = {"nodes": [node.node_id for node in nodes]}
    return {"operation_type": "demo.write", "version": "v1", "target_selector": selector, "inputs": {}} | changes


def prepare(home: Path, **settings: Any) -> ControlConfig:
    """Keys and a configuration on ports of its own."""
    ports = control_ports()
    now_ms = SystemClock().now_ms()
    ceremony.init(home / "pki", trust_domain=DOMAIN, cluster_id="main", hosts=("127.0.0.1",), now_ms=now_ms)
    values = {
        "state_dir": str(home / "state"),
        "keys_dir": str(home / "pki/control"),
        "http_listen": f"127.0.0.1:{ports.http}",
        "node_listen": f"127.0.0.1:{ports.node}",
        "enroll_listen": f"127.0.0.1:{ports.enroll}",
    }
    return ControlConfig(**(values | settings))


async def first_admin(config: ControlConfig) -> str:
    """The bearer token of a platform_admin made before the first start; made anew on every call."""
    token, now_ms = new_bearer_token(), SystemClock().now_ms()
    engine, _ = await open_engine(config)
    await engine.execute(
        CreatePrincipal(
            actor=SYSTEM,
            name=f"admin-{now_ms}",
            token_sha256=token.sha256,
            role="platform_admin",
            org_id="",
            project_id="",
            expires_at_ms=now_ms + DAY_MS,
        )
    )
    await engine.close()
    return token.text


@asynccontextmanager
async def plane(home: Path, config: ControlConfig | None = None, **settings: Any) -> AsyncIterator[Plane]:
    """Serves until the block ends. Pass the same `config` again for a restart."""
    config = config or prepare(home, **settings)
    token = await first_admin(config)
    ports = Ports(*(int(each.rpartition(":")[2]) for each in listens(config)))
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve(config, stop))
        made = Plane(home, config, ports, None)  # type: ignore[arg-type]  # set in the next line
        async with made.client(token) as made.http:
            try:
                await _up(made.http, serving)
                yield made
            finally:
                await asyncio.gather(*(member.aclose() for member in made.members.values()))
                stop.set()
                await asyncio.wait([serving])


def listens(config: ControlConfig) -> tuple[str, str, str]:
    return config.http_listen, config.node_listen, config.enroll_listen


async def _up(http: httpx.AsyncClient, serving: "asyncio.Task[None]") -> None:
    while not serving.done():
        try:
            if (await http.get("/health")).status_code == 200:
                return
        except httpx.TransportError:
            await asyncio.sleep(0.01)
    await serving


async def until(condition: Any, timeout_s: float = 10.0) -> Any:
    """Waits for a state, not for a change: asks again until the answer is true, and gives it."""
    async with asyncio.timeout(timeout_s):
        while not (found := await condition()):
            await asyncio.sleep(0.01)
        return found


def trust(home: Path) -> Any:
    return load_trust(home / "pki/trust.json")


def sse(text: str) -> list[tuple[str, str, Any]]:
    """(id, event, data) of every event in a recorded stream."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != ":")
        if "data" in fields:
            found.append((fields.get("id", ""), fields["event"], msgspec.json.decode(fields["data"])))
    return found
