"""NodeService: the session, its long-poll twin, and renewal."""

import asyncio
import contextlib
from typing import Any

from hostler.base.clock import Clock
from hostler.base.errors import HostlerError, error
from hostler.base.ids import new_id
from hostler.base.logs import get_logger
from hostler.control.bundles.files import BundleFiles
from hostler.control.credentials.service import Mints
from hostler.control.engine import Engine
from hostler.control.kernel.commands import Actor, NodeGone, RecordCertificate
from hostler.control.lifecycle_metrics import RENEW
from hostler.control.metrics import Metrics
from hostler.control.rpc import relays as joined
from hostler.control.rpc.bundle_feed import BundleFeed
from hostler.control.rpc.catalog_feed import CatalogFeed
from hostler.control.rpc.errors import abort, guarded
from hostler.control.rpc.identity import Identities
from hostler.control.rpc.ingest import Ingest
from hostler.control.rpc.link import Link, Links, pump, speak
from hostler.control.rpc.progress import ProgressBoard
from hostler.control.rpc.relays import Relays
from hostler.control.rpc.task_calls import TaskCalls
from hostler.control.samples import SampleBoard
from hostler.pki.authority import Authority
from hostler.pki.x509 import PeerIdentity, read_csr, read_identity
from hostler.v1 import node_pb2, node_pb2_grpc
from hostler.wire.codec_relay import relay_message, relay_value
from hostler.wire.race import first_of
from hostler.wire.relay import RelayOpen

_log = get_logger("hostler.control.rpc.node_service")
MAX_POLL_S = 30
_LAST_WORD_S = 2.0
_FIRST_WORD_S = 5.0


class NodeService(node_pb2_grpc.NodeServiceServicer):
    """Every method begins with the certificate."""

    def __init__(
        self,
        *,
        engine: Engine,
        identities: Identities,
        authority: Authority,
        links: Links,
        board: ProgressBoard,
        clock: Clock,
        heartbeat_s: int,
        certificate_s: int,
        metrics: Metrics,
        mints: Mints,
        bundles: BundleFiles,
        task_calls: TaskCalls,
        ingest: Ingest,
        relays: Relays,
        samples: SampleBoard | None = None,
    ) -> None:
        self._engine = engine
        self._identities = identities
        self._authority = authority
        self._links = links
        self._board = board
        self._clock = clock
        self._heartbeat_s = heartbeat_s
        self._certificate_s = certificate_s
        self._metrics = metrics
        self._mints = mints
        self._task_calls = task_calls
        self._ingest = ingest
        self._relays = relays
        self._samples = samples
        self._feed = CatalogFeed(engine)
        self._bundles = BundleFeed(engine, identities, bundles)
        self._polling: dict[str, Link] = {}

    async def Session(self, request_iterator: Any, context: Any) -> None:
        """One stream a node; see `link`."""
        try:
            peer = await self._identities.of(context)
        except HostlerError as err:
            await abort(context, err)
            return
        link = self._open(peer)
        try:
            async with asyncio.TaskGroup() as group:
                feeding = group.create_task(pump(link, request_iterator))
                sending = group.create_task(speak(link, context.write))
                await link.closed.wait()
                # the last word is tried, not waited for: a peer that reads nothing must not hold its session open
                await asyncio.wait([sending], timeout=_LAST_WORD_S)
                feeding.cancel()
                sending.cancel()
        except* Exception:  # noqa: BLE001 - the edge of a session: logged, and this session alone ends
            _log.exception("session.failed", node_id=link.node_id)
        finally:
            await self._end(link)

    @guarded
    async def Exchange(self, request: node_pb2.ExchangeRequest, context: Any) -> node_pb2.ExchangeResponse:
        """The same by long poll (OP-15): takes the messages, answers with what is due, or waits for it."""
        peer = await self._identities.of(context)
        link = self._polled(peer, request.session_id)
        link.heard()
        try:
            for message in request.messages:
                await link.take(message)
        except HostlerError:
            await self._end(link)
            raise
        wait_s = min(request.wait_seconds, MAX_POLL_S)
        due = [message async for message in link.messages(wait_s=wait_s)]
        if link.closing:
            await self._end(link)
        return node_pb2.ExchangeResponse(session_id=link.session_id, messages=due)

    @guarded
    async def Renew(self, request: node_pb2.RenewRequest, context: Any) -> node_pb2.RenewResponse:
        """A fresh certificate for the same key; the old one stays valid until its own end (PK-04)."""
        with self._metrics.lifecycle.timed(RENEW):
            peer = await self._identities.of(context)
            chain = await self._renew(peer, request.csr_der)
        _log.info("certificate.renewed", node_id=peer.name)
        return node_pb2.RenewResponse(certificate_pem=chain)

    @guarded
    async def Check(self, request: node_pb2.CheckRequest, context: Any) -> node_pb2.CheckResponse:
        """Whether this node would be served: behind the same door as everything else, and changes nothing (U2)."""
        await self._identities.of(context)
        return node_pb2.CheckResponse(server_time_ms=self._clock.now_ms())

    async def Relay(self, request_iterator: Any, context: Any) -> None:
        """One interactive session, answered by the node that a signed task told to (OD-08); see `relays`."""
        try:
            peer = await self._identities.of(context)
            frames = (relay_value(message) async for message in request_iterator)
            async with asyncio.timeout(_FIRST_WORD_S):
                first = await anext(frames, None)
            if not isinstance(first, RelayOpen):
                raise error("invalid_request", "a relay begins with its name")
            with self._relays.of_node(first.relay_id, peer.name) as relay:
                await self._carry(relay, peer, frames, context)
        except TimeoutError:
            await abort(context, error("invalid_request", "a relay begins with its name, at once"))
        except HostlerError as err:
            await abort(context, err)

    async def _carry(self, relay: joined.Relay, peer: PeerIdentity, frames: Any, context: Any) -> None:
        """Until it ends. A certificate that runs out ends it too, as it ends the session."""
        left_s = (peer.not_after_ms - self._clock.now_ms()) / 1000
        try:
            async with asyncio.timeout(left_s):
                await first_of(joined.hear(relay, frames), _send_relayed(relay, context))
        except TimeoutError:
            relay.close("certificate_invalid", "the certificate of this relay's node has expired")
        raise relay.why or error("relay_closed", "the relay has ended")

    async def _renew(self, peer: PeerIdentity, csr_der: bytes) -> bytes:
        key = read_csr(csr_der)
        if key.key_id != peer.thumbprint:
            raise error("certificate_invalid", "a renewal keeps the node's key; enrol again for a new one")
        return await issue(self._engine, self._authority, peer.name, csr_der, self._clock, self._certificate_s)

    @guarded
    async def Mint(self, request: node_pb2.MintRequest, context: Any) -> node_pb2.MintResponse:
        """A credential for a step that runs now (CR-01..CR-03)."""
        try:
            peer = await self._identities.of(context)
        except HostlerError as err:
            await self._mints.denied_at_edge(Actor(kind="node", name="unknown"), err)
            raise
        return node_pb2.MintResponse(minted=await self._mints.mint(peer.name, request.request))

    async def FetchBundle(self, request: node_pb2.FetchBundleRequest, context: Any) -> None:
        """A job's code bundle, for a task that runs on the calling node (JB-08)."""
        try:
            peer = await self._identities.of(context)
            async with contextlib.aclosing(self._bundles.chunks(peer, request)) as chunks:
                async for chunk in chunks:
                    await context.write(chunk)
        except HostlerError as err:
            await abort(context, err)

    @guarded
    async def TaskCall(self, request: node_pb2.TaskCallRequest, context: Any) -> node_pb2.TaskCallResponse:
        """What a running task asks (API-27)."""
        peer = await self._identities.of(context)
        asked = request.task_id, request.attempt_uid, request.method, request.body
        status, body = await self._task_calls.answer(peer.name, *asked)
        return node_pb2.TaskCallResponse(status=status, body=body)

    async def sweep(self) -> None:
        """Ends the sessions of nodes that have gone without a word, and those whose certificate has run out."""
        now_ms, monotonic = self._clock.now_ms(), self._clock.monotonic()
        for link in self._links.all():
            link.close_if_over(now_ms, monotonic)
        for link in [link for link in self._polling.values() if link.closing]:
            await self._end(link)

    def _open(self, peer: PeerIdentity) -> Link:
        session_id = new_id("ses", self._clock.now_ms())
        link = Link(
            self._engine,
            self._board,
            self._feed,
            peer,
            session_id,
            self._heartbeat_s,
            self._authority.ca_key,
            self._metrics,
            self._ingest.share(),
            self._samples,
        )
        self._links.add(link)
        return link

    async def _end(self, link: Link) -> None:
        self._polling.pop(link.session_id, None)
        if self._links.remove(link):
            self._engine.wakes.forget(link.node_id)
            await self._engine.execute(NodeGone(node_id=link.node_id, session_id=link.session_id))

    def _polled(self, peer: PeerIdentity, session_id: str) -> Link:
        """The polling session named, or a new one. Raises `not_found` for one that has ended."""
        if not session_id:
            link = self._open(peer)
            self._polling[link.session_id] = link
            return link
        known = self._polling.get(session_id)
        if known is None or known.node_id != peer.name:
            raise error("not_found", "that polling session has ended", hint="begin a new one with a hello")
        return known


async def _send_relayed(relay: joined.Relay, context: Any) -> None:
    async for frame in relay.to_agent():
        await context.write(relay_message(frame))


async def issue(
    engine: Engine, authority: Authority, node_id: str, csr_der: bytes, clock: Clock, lifetime_s: int
) -> bytes:
    """Signs a certificate and records it; the chain as PEM."""
    chain = authority.issue_node(node_id, read_csr(csr_der), clock.now_ms(), lifetime_s)
    issued = read_identity(chain)
    await engine.execute(
        RecordCertificate(
            node_id=node_id,
            serial=issued.serial,
            thumbprint=issued.thumbprint,
            not_before_ms=issued.not_before_ms,
            not_after_ms=issued.not_after_ms,
            certificate_pem=chain.decode(),
        )
    )
    return chain
