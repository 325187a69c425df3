"""A control plane without its edges: the engine on a real store, real keys, a clock that stands still.

`Fleet` plays the agents: it says what honest agents say, and keeps what was sent to them.
"""

import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostler.base.digest import sha256_hex
from hostler.base.envelope import TASK_TYPE
from hostler.base.ids import new_id
from hostler.catalog.definition import Definition
from hostler.control.engine import Engine
from hostler.control.kernel.commands import (
    Actor,
    CreateEnrolmentToken,
    EnrollNode,
    FoldReports,
    NodeGone,
    NodeHello,
    RegisterCatalog,
    SubmitOperation,
    TargetSelector,
    TasksAccepted,
)
from hostler.control.kernel.model import Settings
from hostler.pki import dsse
from hostler.wire.codec_node import decode_envelope
from hostler.wire.codec_task import decode_cancel, decode_task
from hostler.wire.node import Hello
from hostler.wire.report import Body, Report, StepReport, StepStatus, TaskReport, TaskStatus
from hostler.wire.task import CancelSpec, TaskSpec
from support.builders import catalog_bundle, definition
from support.keys import NOW, Keys

ADMIN = Actor(kind="user", name="root", role="platform_admin")
USER = Actor(kind="user", name="ann", role="project_admin", org_id="acme", project_id="train")


class FrozenClock:
    """Stands still until it is moved."""

    def __init__(self, now_ms: int = NOW) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000

    def move(self, ms: int) -> None:
        self.now += ms


class CountingIds:
    """The same ids on every run."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def new(self, prefix: str, now_ms: int) -> str:
        return new_id(prefix, now_ms, next(self._numbers))

    def nonce(self) -> bytes:
        return next(self._numbers).to_bytes(16, "big")


@dataclass
class FakeNode:
    """One agent's side of the story."""

    node_id: str
    name: str
    key: bytes
    outbox: int = 0
    chain: int = -1
    high_sequence: int = 0
    open: dict[str, TaskSpec] = field(default_factory=dict)
    cancels: list[CancelSpec] = field(default_factory=list)


class Fleet:
    """A control plane and the nodes that talk to it."""

    def __init__(self, engine: Engine, keys: Keys, clock: FrozenClock) -> None:
        self.engine, self.keys, self.clock = engine, keys, clock
        self.nodes: dict[str, FakeNode] = {}
        self._numbers = itertools.count(1)

    async def execute(self, command: Any) -> Any:
        return await self.engine.execute(command)

    async def publish(self, *definitions: Definition, commands: Iterable[Any] = (), version: int = 1) -> list[str]:
        manifest, documents = catalog_bundle(
            self.keys, definitions or (definition(),), tuple(commands), version=version
        )
        command = RegisterCatalog(actor=ADMIN, manifest=manifest, documents=documents)
        registered: list[str] = await self.execute(command)
        return registered

    async def enroll(
        self, name: str, *, org: str = "acme", project: str = "train", labels: dict[str, str] | None = None
    ) -> FakeNode:
        token_id = f"tok{next(self._numbers)}"
        await self.execute(token(token_id, name, org=org, project=project, labels=labels or {}))
        key = f"spki of {name}".encode()
        made = await self.execute(enrolment(token_id, key))
        self.nodes[made.node_id] = node = FakeNode(made.node_id, name, key)
        return node

    async def connect(self, node: FakeNode, session: str = "s1", serial: str = "") -> None:
        hello = Hello(agent_version="1.0.0", high_sequence=node.high_sequence, open_tasks=tuple(node.open))
        command = NodeHello(node_id=node.node_id, session_id=session, hello=hello, serial=serial)
        await self.execute(command)

    async def lose(self, node: FakeNode, session: str = "s1") -> None:
        await self.execute(NodeGone(node_id=node.node_id, session_id=session))

    async def node(self, name: str = "gpu-1", **more: Any) -> FakeNode:
        """An enrolled node with an open session."""
        node = await self.enroll(name, **more)
        await self.connect(node)
        return node

    async def submit(self, *targets: FakeNode, **changes: Any) -> str:
        made = await self.execute(submit(*targets, **changes))
        operation_id: str = made.operation_id
        return operation_id

    async def delivered(self, node: FakeNode) -> list[TaskSpec | CancelSpec]:
        """What is due, verified and decoded as an agent does."""
        specs: list[TaskSpec | CancelSpec] = []
        for _, data in await self.engine.reader.undelivered(node.node_id, 1000):
            envelope = decode_envelope(data)
            payload = dsse.verify(envelope, envelope.payload_type, [self.keys.dispatch.public])
            is_task = envelope.payload_type == TASK_TYPE
            specs.append(decode_task(payload) if is_task else decode_cancel(payload))
        return specs

    async def take(self, node: FakeNode) -> list[TaskSpec]:
        """The agent journals what is due."""
        taken = []
        for spec in await self.delivered(node):
            node.high_sequence = max(node.high_sequence, spec.sequence)
            if isinstance(spec, TaskSpec):
                node.open[spec.task_id] = spec
                taken.append(spec)
            else:
                node.cancels.append(spec)
        ids = tuple(spec.task_id for spec in taken)
        await self.execute(TasksAccepted(node_id=node.node_id, task_ids=ids))
        return taken

    async def report(self, node: FakeNode, *bodies: Body) -> int:
        reports = []
        for body in bodies:
            node.outbox += 1
            reports.append(Report(node.outbox, body))
        up_to: int = await self.execute(FoldReports(node_id=node.node_id, reports=tuple(reports)))
        return up_to

    async def run(self, node: FakeNode, spec: TaskSpec, fail_at: int = -1, code: str = "exit_status") -> None:
        """The agent runs a task to its end, or to the failure of one step."""
        await self.report(node, *self.story(node, spec, fail_at=fail_at, code=code))
        node.open.pop(spec.task_id, None)

    def story(self, node: FakeNode, spec: TaskSpec, *, fail_at: int = -1, code: str = "exit_status") -> list[Body]:
        """Everything an agent tells about one task."""
        bodies: list[Body] = [task_report(spec, TaskStatus.RUNNING, at_ms=self.clock.now)]
        reused = {step.step_id: step for step in spec.reused}
        for index, step in enumerate(spec.steps):
            failed = index == fail_at
            if step.step_id in reused:
                bodies.append(self.step_end(node, spec, index, StepStatus.REUSED))
                continue
            bodies.append(step_report(spec, index, StepStatus.RUNNING, started_at_ms=self.clock.now))
            status = StepStatus.FAILED if failed else StepStatus.SUCCEEDED
            bodies.append(self.step_end(node, spec, index, status, error_code=code if failed else ""))
            if failed:
                end = {"error_code": code, "error_message": "it broke", "failed_step_id": step.step_id}
                return [*bodies, task_report(spec, TaskStatus.FAILED, at_ms=self.clock.now, **end)]
        return [*bodies, task_report(spec, TaskStatus.SUCCEEDED, at_ms=self.clock.now)]

    def step_end(self, node: FakeNode, spec: TaskSpec, index: int, status: StepStatus, **more: Any) -> StepReport:
        """A step's end with a receipt of the length a real one has; nobody here looks into it."""
        node.chain += 1
        receipt = f"receipt {node.node_id} {node.chain} {spec.attempt_uid} {index} ".encode().ljust(1700, b".")
        return step_report(
            spec,
            index,
            status,
            started_at_ms=self.clock.now,
            finished_at_ms=self.clock.now + 5,
            outputs_json=b'{"n":1}',
            receipt=receipt,
            receipt_digest=sha256_hex(receipt),
            chain_index=node.chain,
            **more,
        )

    async def operation(self, operation_id: str, project: str = "train") -> Any:
        found = await self.engine.reader.operation(project, operation_id)
        assert found is not None
        return found

    async def events(self, operation_id: str = "", type_: str = "") -> list[Any]:
        found = await self.engine.reader.events(0, 100_000, operation_id=operation_id)
        return [event for event in found if not type_ or event.type == type_]


def token(token_id: str, name: str, **changes: Any) -> CreateEnrolmentToken:
    return CreateEnrolmentToken(
        actor=ADMIN,
        token_id=token_id,
        token_sha256=f"hash of {token_id}",
        node_name=name,
        org_id=changes.get("org", "acme"),
        project_id=changes.get("project", "train"),
        labels=changes.get("labels", {}),
        expires_at_ms=changes.get("expires_at_ms", NOW + 3_600_000),
    )


def enrolment(token_id: str, key: bytes) -> EnrollNode:
    return EnrollNode(
        token_id=token_id,
        token_sha256=f"hash of {token_id}",
        public_key_spki=key,
        thumbprint=sha256_hex(key),
        agent_version="1.0.0",
        labels={},
        peer="127.0.0.1",
    )


_keys = itertools.count(1)


def submit(*targets: FakeNode, **changes: Any) -> SubmitOperation:
    """Of `demo.write@v1` on these nodes, unless told otherwise."""
    values: dict[str, Any] = {
        "actor": USER,
        "org_id": "acme",
        "project_id": "train",
        "operation_type": "demo.write",
        "version": "v1",
        "inputs": {},
        "target_selector": TargetSelector(
            nodes=tuple(node.node_id for node in targets), replicas=changes.pop("replicas", 1)
        ),
        "idempotency_key": f"key-{next(_keys)}",
        "correlation_id": "cor_1",
    }
    return SubmitOperation(**(values | changes))


def task_report(spec: TaskSpec | CancelSpec, status: TaskStatus, **more: Any) -> TaskReport:
    return TaskReport(task_id=spec.task_id, attempt_uid=spec.attempt_uid, status=status, **more)


def step_report(spec: TaskSpec, index: int, status: StepStatus, **more: Any) -> StepReport:
    step = spec.steps[index]
    return StepReport(
        task_id=spec.task_id,
        attempt_uid=spec.attempt_uid,
        step_id=step.step_id,
        step_index=index,
        step_kind=step.kind,
        status=status,
        resolved_profile=step.command_profile,
        **more,
    )


@asynccontextmanager
async def fleet_in(
    directory: Path,
    *,
    keys: Keys | None = None,
    clock: FrozenClock | None = None,
    settings: Settings | None = None,
    ids: Any = None,
) -> AsyncIterator[Fleet]:
    """A fleet on the store in `directory`; open it again to restart the control plane."""
    keys, clock = keys or Keys(), clock or FrozenClock()
    trust = keys.trust()
    engine = await Engine.open(
        store_path=directory / "control.db",
        trust=trust,
        dispatch_signer=keys.dispatch,
        clock=clock,
        settings=settings,
        ids=ids,
    )
    try:
        yield Fleet(engine, keys, clock)
    finally:
        await engine.close()
