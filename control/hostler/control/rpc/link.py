"""One node's open session: what goes down, and what comes up.

Delivery is at least once and in sequence order: the same stored bytes, until the agent says that it has them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc.aio

from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.catalog.capabilities import bounded
from hostler.control.engine import Engine
from hostler.control.kernel.allocation_states import SCHEDULABLE
from hostler.control.kernel.commands import FoldReports, NodeHello, NodeStatus, TasksAccepted
from hostler.control.metrics import Metrics
from hostler.control.rpc.agent_feed import SaidOfItself, changed_by, known_to, wanted_of
from hostler.control.rpc.catalog_feed import CatalogFeed
from hostler.control.rpc.ingest import Share, parts
from hostler.control.rpc.keyset_feed import missed_messages
from hostler.control.rpc.progress import ProgressBoard
from hostler.control.samples import SampleBoard
from hostler.pki.x509 import PeerIdentity
from hostler.v1 import node_pb2
from hostler.wire.codec_node import agent_value, control_message, decode_envelope
from hostler.wire.node import (
    Close,
    FromAgent,
    Heartbeat,
    Hello,
    Progress,
    ReportAck,
    Reports,
    TaskAccepted,
    Tasks,
    Welcome,
    WorkerPolicy,
)
from hostler.wire.report import Report
from hostler.wire.versions import check_envelopes, negotiate

_log = get_logger("hostler.control.rpc.link")
_BATCH = 256
_WORD = 64  # of what a node says of itself
_RESEND_S = 30.0  # an envelope that was sent and not acknowledged for so long is sent again
_SILENT_BEATS = 3


class Link:
    """Lives as long as the stream (or the polling session) does."""

    def __init__(
        self,
        engine: Engine,
        board: ProgressBoard,
        feed: CatalogFeed,
        peer: PeerIdentity,
        session_id: str,
        heartbeat_s: int,
        ca_key: str,
        metrics: Metrics,
        share: Share,
        samples: SampleBoard | None = None,
    ) -> None:
        self._engine = engine
        self._samples = samples
        self._metrics = metrics
        self._share = share
        self._board = board
        self._feed = feed
        self.node_id = node_id = peer.name
        self._peer = peer
        self.session_id = session_id
        self._heartbeat_s = heartbeat_s
        self._ca_key = ca_key
        self._keyset_version = 0
        self._status: NodeStatus | None = None
        self._wake = engine.wakes.node(node_id)
        self._acks = 0
        self._acked = 0
        self._sent_sequence = 0
        self._news_read = -1
        self._catalog_version = 0
        self._told = self._wanted = WorkerPolicy(SCHEDULABLE)  # what the agent knows, and what holds as of its hello
        self._said = SaidOfItself(engine, node_id)
        self._hello_seen = False
        self._first: list[node_pb2.ControlMessage] = []
        self._closing: Close | None = None
        self.closed = asyncio.Event()
        self.heard()

    def heard(self) -> None:
        """The agent is there."""
        self.last_seen_ms = self._engine.clock.now_ms()
        self._heard_at = self._engine.clock.monotonic()

    def close(self, code: str, message: str, retry_after_ms: int = 0) -> None:
        """Ends the session at the next turn, for the first reason given (I1)."""
        if self._closing is None:
            self._closing = Close(error_code=code, message=message, retry_after_ms=retry_after_ms)
        self.closed.set()
        self._wake.set()

    @property
    def closing(self) -> bool:
        return self._closing is not None

    def close_if_over(self, now_ms: int, monotonic: float) -> None:
        """A node that has fallen silent is gone; a stream does not outlive the certificate it was opened with."""
        if now_ms >= self._peer.not_after_ms:
            self.close("certificate_invalid", "the certificate of this session has expired; renew and dial again")
        elif monotonic - self._heard_at > _SILENT_BEATS * self._heartbeat_s:
            self.close("controller_unreachable", f"no heartbeat for {_SILENT_BEATS * self._heartbeat_s} s")

    async def take(self, message: node_pb2.AgentMessage) -> None:
        """Handles one message from the agent. Raises `invalid_request` for anything before the hello."""
        self.heard()
        value = agent_value(message)
        if not self._hello_seen and not isinstance(value, Hello):
            raise error("invalid_request", "a session begins with a hello")
        await self._handle(value)

    async def _handle(self, value: FromAgent) -> None:
        if isinstance(value, Reports):
            for reports in parts(value.reports):
                await self._share.admit(reports)
                await self._fold(reports)
        elif isinstance(value, TaskAccepted):
            await self._engine.execute(TasksAccepted(node_id=self.node_id, task_ids=value.task_ids))
        elif isinstance(value, Progress):
            self._board.put(self.node_id, value.steps)
        elif isinstance(value, Hello):
            await self._hello(value)
        elif isinstance(value, Heartbeat):
            await self._heartbeat(value)

    async def _fold(self, reports: tuple[Report, ...]) -> None:
        self.heard()
        up_to = await self._engine.execute(FoldReports(node_id=self.node_id, reports=reports))
        self._metrics.reports.inc(len(reports))
        self._acks = max(self._acks, up_to)
        self._wake.set()

    async def _heartbeat(self, beat: Heartbeat) -> None:
        """Costs a commit only when it says something new; a node that lost its catalog is sent it again."""
        if beat.sample is not None and self._samples is not None:
            self._samples.put(self.node_id, beat.sample)
        await self._said.take(beat.agent_report)
        behind = beat.keyset_version < self._engine.trust.keyset.version  # what it holds for may be over
        said = self._status_of(beat, hold="" if behind else beat.hold[:_WORD], drift=beat.drift[:_WORD])
        if said == self._status:
            return
        self._status = said
        await self._engine.execute(said)
        if self._catalog_version and not beat.catalog_version:
            self._catalog_version = 0
            self._wake.set()

    def _status_of(self, said: Heartbeat | Hello, *, hold: str = "", drift: str) -> NodeStatus:
        return NodeStatus(
            node_id=self.node_id,
            keyset_version=said.keyset_version,
            catalog_version=said.catalog_version,
            storage=said.storage[:_WORD],
            hold=hold,
            drift=drift,
            capabilities=bounded(said.capabilities),
        )

    async def _hello(self, hello: Hello) -> None:
        """Raises `protocol_mismatch` before the node counts as connected, and what the kernel refuses."""
        try:
            agreed = negotiate(hello.protocol, hello.protocol_oldest)
            check_envelopes(hello.envelope_types)
        except HostlerError as err:
            await self._engine.execute(self._status_of(hello, drift=err.code))  # for people who look at the node
            raise
        command = NodeHello(node_id=self.node_id, session_id=self.session_id, hello=hello, serial=self._peer.serial)
        asked_to_renew = await self._engine.execute(command)
        await self._said.take(hello.agent_report)
        self._catalog_version = hello.catalog_version
        welcome = Welcome(
            session_id=self.session_id,
            server_time_ms=self._engine.clock.now_ms(),
            control_epoch=self._engine.control_epoch,
            heartbeat_seconds=self._heartbeat_s,
            sequence=await self._engine.reader.sequence(self.node_id),
            protocol=agreed,
            renew_certificate=asked_to_renew or (bool(self._ca_key) and self._peer.issuer_key != self._ca_key),
        )
        self._first.append(control_message(welcome))
        self._wanted = await wanted_of(self._engine, self.node_id)
        self._told = known_to(hello, self._wanted)
        self._keyset_version = hello.keyset_version
        self._hello_seen = True
        self._wake.set()

    async def messages(self, wait_s: float | None = None) -> AsyncIterator[node_pb2.ControlMessage]:
        """What goes down, as it becomes due; ends after a close, or after `wait_s` with nothing to say."""
        while True:
            self._wake.clear()
            batch = await self._due()
            for message in batch:
                yield message
            if self._closing is not None:
                yield control_message(self._closing)
                return
            if batch:
                if wait_s is not None:
                    return
                continue
            try:
                async with asyncio.timeout(_RESEND_S if wait_s is None else wait_s):
                    await self._wake.wait()
            except TimeoutError:
                if wait_s is not None:
                    return
                self._sent_sequence, self._news_read = 0, -1

    async def _due(self) -> list[node_pb2.ControlMessage]:
        if not self._hello_seen:
            return []
        due, self._first = self._first, []
        # before anything it vouches for
        due += missed_messages(self._engine, self._keyset_version)
        self._keyset_version = max(self._keyset_version, self._engine.trust.keyset.version)
        wanted = changed_by(self._engine.wakes, self.node_id, self._wanted)
        if wanted != self._told:  # before any task that came after it
            self._told = wanted
            due.append(control_message(wanted))
        if self._acks > self._acked:
            self._acked = self._acks
            due.append(control_message(ReportAck(self._acked)))
        catalog = await self._catalog()
        if catalog is not None:
            due.append(catalog)
        tasks = await self._tasks()
        if tasks is not None:
            due.append(tasks)
        return due

    async def _catalog(self) -> node_pb2.ControlMessage | None:
        update = await self._feed.newer_than(self._catalog_version)
        if update is None:
            return None
        self._catalog_version = update.version
        return update.message

    async def _tasks(self) -> node_pb2.ControlMessage | None:
        news = self._engine.wakes.news(self.node_id)
        if news == self._news_read:
            return None
        rows = await self._engine.reader.undelivered(self.node_id, _BATCH, after=self._sent_sequence)
        if len(rows) < _BATCH:
            self._news_read = news
        if not rows:
            return None
        self._sent_sequence = rows[-1][0]
        self._metrics.envelopes.inc(len(rows))
        return control_message(Tasks(tuple(decode_envelope(data) for _, data in rows)))


class Links:
    """The open sessions; a node has one, and the newest wins."""

    def __init__(self) -> None:
        self._by_node: dict[str, Link] = {}

    def add(self, link: Link) -> None:
        older = self._by_node.get(link.node_id)
        if older is not None:
            older.close("controller_unreachable", "a newer session of this node is open")
        self._by_node[link.node_id] = link

    def remove(self, link: Link) -> bool:
        """Whether it was the node's present one."""
        if self._by_node.get(link.node_id) is link:
            del self._by_node[link.node_id]
            return True
        return False

    def __len__(self) -> int:
        return len(self._by_node)

    def all(self) -> list[Link]:
        return list(self._by_node.values())

    def get(self, node_id: str) -> Link | None:
        return self._by_node.get(node_id)

    def close_node(self, node_id: str, code: str, message: str) -> None:
        link = self._by_node.get(node_id)
        if link is not None:
            link.close(code, message)

    def close_all(self) -> None:
        for link in self._by_node.values():
            link.close("controller_unreachable", "the control plane is going down", retry_after_ms=500)


async def pump(link: Link, incoming: AsyncIterator[node_pb2.AgentMessage]) -> None:
    """Feeds what the agent sends into the link, in order; ends it when the agent has gone."""
    try:
        async for message in incoming:
            await link.take(message)
        link.close("controller_unreachable", "the agent has closed its side")
    except HostlerError as err:
        _log.warning("session.refused", error=err, node_id=link.node_id)
        link.close(err.code, err.message, retry_after_ms=1000)


async def speak(link: Link, write: Callable[[node_pb2.ControlMessage], Awaitable[object]]) -> None:
    """Writes what goes down; an agent that is killed meanwhile is no failure of ours."""
    try:
        async for message in link.messages():
            await write(message)
    except grpc.aio.InternalError as err:
        _log.info("session.broken", node_id=link.node_id, reason=str(err)[:200])
        link.close("controller_unreachable", "the agent went while it was spoken to")
