"""A control plane that mints, a node that may ask, and requests that are bent as a test wants them."""

import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import msgspec
import pytest

from hostler.base.envelope import MINTED_TYPE
from hostler.catalog.definition import Definition, definition_from
from hostler.control.config import ControlConfig
from hostler.control.credentials import config as configs
from hostler.pki import dsse
from hostler.pki.ceremony import load_signer
from hostler.pki.sealing import Recipient
from hostler.v1 import node_pb2, node_pb2_grpc
from hostler.wire.mint import Minted, MintRequest
from hostler.wire.report import StepReport, StepStatus, TaskReport, TaskStatus
from hostler.wire.task import TaskSpec
from support import plane as planes
from support.fake_node import FakeNode, Session
from support.plane import Plane
from support.ports import next_port

HUB = "https://hub.test"
INTENT = {"endpoint": HUB, "repository": "team/model"}
TOKEN = "hf_canary_of_the_hub_0123456789"
MINT, USE = "mint", "use"


def definition(**changes: Any) -> Definition:
    """Mints a hub token for a step that does nothing with it."""
    params = {"credential_type": "hf_token", "intent": INTENT, "for_steps": [USE]} | changes.pop("params", {})
    value = {
        "type": "demo.mint",
        "version": "v1",
        "inputs": {"type": "object", "additionalProperties": False, "properties": {"name": {"type": "string"}}},
        "capabilities": {"os.kernel": "linux"},
        "steps": [
            {"id": MINT, "kind": "credential.mint", "params": params, "reusable": False},
            {"id": USE, "kind": "health.check", "params": {"checks": []}},
        ],
    }
    return definition_from(value | changes)


def read_token(home: Path, sources: tuple[str, ...] = (f"{HUB}/",), **changes: Any) -> configs.ReadTokenConfig:
    path = home / "hub.token"
    path.touch(0o600)
    path.write_text(TOKEN)
    scope = configs.Scope(org=planes.ORG, project=planes.PROJECT, sources=sources)
    return configs.ReadTokenConfig(**({"name": "hub", "secret_file": str(path), "scopes": (scope,)} | changes))


@asynccontextmanager
async def minting_plane(home: Path, *minters: Any, **settings: Any) -> AsyncIterator[Plane]:
    wanted = minters or (read_token(home),)
    settings |= {"internal_listen": f"127.0.0.1:{next_port()}", "minters": wanted}
    async with planes.plane(home, **settings) as made:
        yield made


@dataclass
class Asker:
    """One node with a running task, and what it may say."""

    plane: Plane
    node: FakeNode
    session: Session
    spec: TaskSpec
    recipient: Recipient = field(default_factory=Recipient)

    def request(self, **changes: Any) -> MintRequest:
        """A good one, unless it is changed."""
        self.recipient = Recipient()
        values = {
            "node_id": self.node.node_id,
            "task_id": self.spec.task_id,
            "operation_id": self.spec.operation_id,
            "attempt_uid": self.spec.attempt_uid,
            "step_id": MINT,
            "credential_type": "hf_token",
            "intent": INTENT,
            "public_key": self.recipient.public,
            "nonce": secrets.token_bytes(16),
        }
        return MintRequest(**(values | changes))

    def body(self, request: MintRequest, signer: Any = None) -> dict[str, Any]:
        """As it travels, signed by the runner unless told otherwise."""
        signature = (signer or self.node.runner).sign(request.signed_bytes())
        built: dict[str, Any] = msgspec.to_builtins(request)
        return built | {"signature": msgspec.to_builtins(signature)}

    async def rpc(self, body: dict[str, Any]) -> bytes:
        """Raises `grpc.aio.AioRpcError`."""
        async with self.node.channel() as channel:
            message = node_pb2.MintRequest(request=msgspec.json.encode(body))
            answer = await node_pb2_grpc.NodeServiceStub(channel).Mint(message, timeout=20)
        minted: bytes = answer.minted
        return minted

    async def post(self, body: Any, what: str = "credentials/mint", **path: str) -> httpx.Response:
        named = {"node": self.node.node_id, "task": self.spec.task_id} | path
        async with internal_client(self.plane.config, self.node) as client:
            return await client.post(
                f"/internal/v1/nodes/{named['node']}/tasks/{named['task']}/{what}", content=msgspec.json.encode(body)
            )

    async def denied(self, body: dict[str, Any]) -> str:
        """The error code, which both ways of asking must agree on."""
        code = await self.refused(body)
        answer = await self.post(body)
        assert answer.status_code in (403, 422), answer.text
        assert answer.json()["error_code"] == code
        return code

    async def refused(self, body: dict[str, Any]) -> str:
        """The error code by RPC."""
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.rpc(body)
        return str(dict(caught.value.trailing_metadata() or ())["hostler-error-code"])

    def opened(self, minted: bytes, request: MintRequest) -> bytes:
        """What the runner finds in a good answer."""
        key = load_signer(self.plane.home / "pki/control/dispatch.key").public
        answer = msgspec.json.decode(dsse.verify(dsse.from_json(minted), MINTED_TYPE, [key]), type=Minted)
        assert answer.request_digest == request.digest()
        return bytes(self.recipient.open(answer.sealed, request.digest().encode()))

    async def begin(self, step: int = 0, status: StepStatus = StepStatus.RUNNING) -> None:
        """Reports where the task is."""
        common = {"task_id": self.spec.task_id, "attempt_uid": self.spec.attempt_uid}
        task = TaskReport(**common, status=TaskStatus.RUNNING, at_ms=self.spec.not_before_ms)
        at = {"step_id": self.spec.steps[step].step_id, "step_index": step, "step_kind": self.spec.steps[step].kind}
        ended = {} if status is StepStatus.RUNNING else {"finished_at_ms": self.spec.not_before_ms + 1}
        step_report = StepReport(**common, **at, status=status, started_at_ms=self.spec.not_before_ms, **ended)
        await self.session.report(self.node.reports(task, step_report))


@asynccontextmanager
async def asker(plane: Plane, node: FakeNode | None = None, **inputs: Any) -> AsyncIterator[Asker]:
    """A node whose mint step runs."""
    node = node or await plane.enroll(f"gpu-{secrets.token_hex(3)}")
    async with node.session() as session:
        await plane.submit(node, operation_type="demo.mint", inputs=inputs)
        (spec,) = await session.take()
        made = Asker(plane, node, session, spec)
        await made.begin()
        yield made


def tls_of(node: FakeNode | None, config: ControlConfig) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=(Path(config.keys_dir) / "ca.pem").read_text())
    if node is not None:
        pair = Path(config.state_dir) / f"{node.node_id}.pem"
        pair.write_bytes(node.signer.to_pem() + b"\n" + node.certificate)
        context.load_cert_chain(pair)
    return context


def internal_client(config: ControlConfig, node: FakeNode | None) -> httpx.AsyncClient:
    url = f"https://{config.internal_listen}"
    return httpx.AsyncClient(base_url=url, verify=tls_of(node, config), trust_env=False, timeout=20)


def metric(text: str, name: str, **labels: str) -> float:
    """The value of one sample, 0 where there is none."""
    wanted = "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}" if labels else ""
    for line in text.splitlines():
        if line.startswith(f"{name}{wanted} "):
            return float(line.rpartition(" ")[2])
    return 0.0
