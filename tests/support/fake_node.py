"""A light real agent: real enrolment, real mutual TLS, real sessions; it runs nothing and answers as it is told.

Hundreds fit into a process. What it says is in the test's hands, so it can also be a hostile one.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc.aio

from hostler.base.envelope import TASK_TYPE, Envelope
from hostler.pki import tls
from hostler.pki.chain import receipt_digest
from hostler.pki.keys import FileSigner, new_ed25519, new_p256
from hostler.pki.statements import chain_link, sign_statement, step_statement
from hostler.pki.x509 import make_csr
from hostler.v1 import node_pb2, node_pb2_grpc
from hostler.wire.codec_node import agent_message, control_value
from hostler.wire.codec_task import decode_task
from hostler.wire.node import FromAgent, FromControl, Hello, ReportAck, Reports, TaskAccepted, Tasks, Welcome
from hostler.wire.report import Body, Report, StepReport, StepStatus, TaskReport, TaskStatus
from hostler.wire.task import TaskSpec

PATIENCE_S = 10.0


@dataclass
class FakeNode:
    """One enrolled node. `certificate` may be replaced, as by a renewal."""

    node_id: str
    signer: FileSigner
    certificate: bytes
    ca_pems: tuple[str, ...]
    address: str
    trust_domain: str
    outbox: int = 0
    chain_index: int = 0
    chain_head: str = ""
    receipts: list[bytes] = field(default_factory=list)
    runner: FileSigner = field(default_factory=new_ed25519)  # recorded where `enroll` was told of it

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[grpc.aio.Channel]:
        options: list[Any] = [*tls.channel_options(self.trust_domain), ("grpc.use_local_subchannel_pool", 1)]
        credentials = tls.channel_credentials(self.ca_pems, self.signer.to_pem(), self.certificate)
        async with grpc.aio.secure_channel(self.address, credentials, options) as channel:
            yield channel

    @asynccontextmanager
    async def session(self, **hello: Any) -> "AsyncIterator[Session]":
        """An open session, past its Welcome."""
        async with self.channel() as channel:
            call = node_pb2_grpc.NodeServiceStub(channel).Session(wait_for_ready=True)
            session = Session(self, call)
            await session.say(self.hello(**hello))
            session.welcome = await session.next(Welcome)
            yield session
            call.cancel()

    def hello(self, **changes: Any) -> Hello:
        known = {"agent_version": "fake", "parallel_tasks": 8, "catalog_version": 1 << 40, "keyset_version": 1 << 40}
        return Hello(**(known | changes))

    def finished(self, spec: TaskSpec, *, failed: str = "") -> list[Report]:
        """Everything a genuine agent reports of a task whose steps all succeed, or whose first one fails."""
        common = {"task_id": spec.task_id, "attempt_uid": spec.attempt_uid}
        bodies: list[Body] = [TaskReport(**common, status=TaskStatus.RUNNING, at_ms=spec.not_before_ms)]
        for index, step in enumerate(spec.steps):
            receipt = self._receipt(spec, step.step_id, "failed" if failed else "succeeded")
            bodies.append(
                StepReport(
                    **common,
                    step_id=step.step_id,
                    step_index=index,
                    step_kind=step.kind,
                    status=StepStatus.FAILED if failed else StepStatus.SUCCEEDED,
                    error_code=failed,
                    error_message="it broke" if failed else "",
                    started_at_ms=spec.not_before_ms,
                    finished_at_ms=spec.not_before_ms + 1,
                    receipt=receipt,
                    receipt_digest=self.chain_head,
                    chain_index=self.chain_index - 1,
                )
            )
            if failed:
                break
        status = TaskStatus.FAILED if failed else TaskStatus.SUCCEEDED
        bodies.append(TaskReport(**common, status=status, error_code=failed, at_ms=spec.not_before_ms + 1))
        return self.reports(*bodies)

    def reports(self, *bodies: Body) -> list[Report]:
        """Rows of the outbox, numbered on."""
        first = self.outbox + 1
        self.outbox += len(bodies)
        return [Report(number, body) for number, body in enumerate(bodies, first)]

    def _receipt(self, spec: TaskSpec, step_id: str, status: str) -> bytes:
        predicate = {"task_id": spec.task_id, "step_id": step_id, "status": status}
        link = chain_link(self.node_id, self.chain_index, self.chain_head)
        receipt = sign_statement(step_statement(predicate, link), self.signer)
        self.chain_index, self.chain_head = self.chain_index + 1, receipt_digest(receipt)
        self.receipts.append(receipt)
        return receipt


@dataclass
class Session:
    """One stream, seen from the node."""

    node: FakeNode
    call: Any
    welcome: Welcome = None  # type: ignore[assignment]  # set before anybody sees the session

    async def say(self, value: FromAgent) -> None:
        await self.call.write(agent_message(value))

    async def hear(self, timeout_s: float = PATIENCE_S) -> FromControl | None:
        """The next message, None once the stream has ended."""
        async with asyncio.timeout(timeout_s):
            message = await self.call.read()
        return None if message is grpc.aio.EOF else control_value(message)

    async def next(self, type_: type[Any], timeout_s: float = PATIENCE_S) -> Any:
        """The next message of that type; others are passed over."""
        async with asyncio.timeout(timeout_s):
            while True:
                value = await self.hear()
                assert value is not None, f"the stream ended before a {type_.__name__}"
                if isinstance(value, type_):
                    return value

    async def envelopes(self) -> tuple[Envelope, ...]:
        tasks: Tasks = await self.next(Tasks)
        return tasks.envelopes

    async def take(self) -> list[TaskSpec]:
        """The next delivered tasks, accepted."""
        envelopes = await self.envelopes()
        specs = [decode_task(each.payload) for each in envelopes if each.payload_type == TASK_TYPE]
        await self.say(TaskAccepted(tuple(spec.task_id for spec in specs)))
        return specs

    async def report(self, reports: Iterable[Report]) -> int:
        """Sends and waits for the acknowledgement."""
        rows = tuple(reports)
        await self.say(Reports(rows))
        while True:
            ack: ReportAck = await self.next(ReportAck)
            if ack.up_to >= rows[-1].outbox_seq:
                return ack.up_to

    async def serve(self, *, failed: str = "") -> None:
        """Answers every task at once, until it is cancelled."""
        while True:
            for spec in await self.take():
                await self.say(Reports(tuple(self.node.finished(spec, failed=failed))))


async def enroll(
    token: str,
    address: str,
    ca_pems: tuple[str, ...],
    trust_domain: str,
    *,
    signer: FileSigner | None = None,
    runner: FileSigner | None = None,
) -> tuple[FileSigner, node_pb2.EnrollResponse]:
    """Redeems a token with a fresh key, or with `signer`. Raises `grpc.aio.AioRpcError`."""
    signer = signer or new_p256()
    request = node_pb2.EnrollRequest(token=token, csr_der=make_csr(signer, "node"), agent_version="fake")
    if runner is not None:
        request.runner_key = runner.public.spki_der
    credentials, options = tls.channel_credentials(ca_pems), tls.channel_options(trust_domain)
    async with grpc.aio.secure_channel(address, credentials, options) as channel:
        answer = await node_pb2_grpc.EnrollmentServiceStub(channel).Enroll(request, timeout=PATIENCE_S)
    return signer, answer
