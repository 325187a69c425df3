"""The loop that keeps a link up: open, speak, and on any end wait with full jitter and open again.

Loop `Session.run`: reads what the control plane sends into the inbox, sends what `Outgoing` gives. Nothing of
the node's work ends because the link does. The link itself is made by the network process (`outside`).
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from hostler.agent.journal.journal import Journal
from hostler.agent.outside.frames import Tls
from hostler.agent.outside.outside import Outside, RemoteLink
from hostler.agent.session.inbox import Inbox
from hostler.agent.session.outgoing import Outgoing
from hostler.base.clock import Clock, full_jitter
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.wire.codec_node import agent_message
from hostler.wire.node import (
    CatalogUpdate,
    Close,
    FromControl,
    Hello,
    KeysetUpdate,
    ReportAck,
    Tasks,
    Welcome,
    WorkerPolicy,
)
from hostler.wire.versions import check_agreed

_log = get_logger("hostler.agent.session")
_BASE_S, _CAP_S, _REVOKED_CAP_S = 0.2, 30.0, 300.0
_HELD_CODES = {"revoked", "certificate_invalid", "identity_cloned", "controller_rollback", "protocol_mismatch"}
_FAILURES_BEFORE_POLLING = 3
_LONG_ENOUGH_S = 5.0  # a link that lasted so long was a good one

Transport = Literal["auto", "stream", "poll"]


class Session:
    """One link at a time. `state` says how it stands, for `hostler-agent status`."""

    def __init__(
        self,
        *,
        outside: Outside,
        target: Callable[[], tuple[Tls, str]],
        hello: Callable[[], Hello],
        journal: Journal,
        inbox: Inbox,
        outgoing: Outgoing,
        transport: Transport,
        rng: random.Random,
        renew_within: Callable[[float], None],
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        self._outside = outside
        self._target = target
        self._hello = hello
        self._journal = journal
        self._inbox = inbox
        self._outgoing = outgoing
        self._transport = transport
        self._rng = rng
        self._renew_within = renew_within
        self._clock = clock
        self._changed = changed  # called with the link up, and with it gone
        self._redial = asyncio.Event()
        self._setup_failures = 0
        self._retry_after_s = 0.0
        self.state = "connecting"
        self.clock_skew_ms = 0  # this node's clock against the control plane's, at the last welcome
        self.hold = ""
        self._heard_at = self._since = float("-inf")  # monotonic: last word of the control plane; this link's welcome

    @property
    def silent_seconds(self) -> float:
        """Since the control plane was known to be there: 0 while a link is up, infinite before the first welcome.

        A link that broke without a word counts as up until keepalive has noticed, at most 40 s later.
        """
        return 0.0 if self.state == "connected" else self._clock.monotonic() - self._heard_at

    @property
    def heard_for_seconds(self) -> float:
        """How long the present link has been up, with a control plane that remembers this node; else 0."""
        good = self.state == "connected" and not self.hold and not self._journal.held
        return self._clock.monotonic() - self._since if good else 0.0

    def redial(self) -> None:
        """Ends the present link, so that the next one uses the newest identity."""
        self._redial.set()

    async def run(self) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            self._redial.clear()
            started = loop.time()
            try:
                await self._link()
            except HostlerError as err:
                self._note(err)
            self._lost()
            if loop.time() - started > _LONG_ENOUGH_S:
                failures = 0
            if self._redial.is_set():
                continue
            cap = _REVOKED_CAP_S if self.hold in _HELD_CODES else _CAP_S
            pause = full_jitter(failures, base_s=_BASE_S, cap_s=cap, rng=self._rng)
            failures += 1
            await asyncio.sleep(max(pause, self._retry_after_s))

    def _lost(self) -> None:
        if self.state == "connected":
            self._heard_at = self._clock.monotonic()
        self.state = "disconnected"
        self._changed()

    def _note(self, err: HostlerError) -> None:
        if err.code in _HELD_CODES:
            self.hold = err.code
        _log.warning("session.closed", error=err, hold=self.hold)

    def _polls(self) -> bool:
        if self._transport != "auto":
            return self._transport == "poll"
        return self._setup_failures >= _FAILURES_BEFORE_POLLING

    async def _link(self) -> None:
        self._retry_after_s = 0.0
        self._outgoing.link_down()
        tls, address = self._target()
        hello = agent_message(self._hello()).SerializeToString()
        try:
            async with self._outside.link(tls, address, hello, polls=self._polls()) as link:
                await self._both(self._receive(link), self._send(link))
        except HostlerError:
            if self._transport == "auto" and self.state != "connected":
                self._setup_failures = (self._setup_failures + 1) % (2 * _FAILURES_BEFORE_POLLING)
            raise

    async def _send(self, link: RemoteLink) -> None:
        while True:
            await link.send([message.SerializeToString() for message in await self._outgoing.next_batch()])

    async def _both(self, *halves: Coroutine[Any, Any, None]) -> None:
        """Runs both halves until one ends or a new identity asks for a new link."""
        try:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(half) for half in (*halves, self._redial_wanted())]
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for half in running:
                    half.cancel()
        except BaseExceptionGroup as failed:
            raise _first_cause(failed) from failed

    async def _redial_wanted(self) -> None:
        await self._redial.wait()

    async def _receive(self, link: RemoteLink) -> None:
        async for value in link.values():
            await self._take(value)

    async def _take(self, value: FromControl) -> None:
        if isinstance(value, ReportAck):
            self._journal.acknowledge(value.up_to)
        elif isinstance(value, Tasks | CatalogUpdate | KeysetUpdate | WorkerPolicy):
            await self._inbox.put(value)
        elif isinstance(value, Welcome):
            await self._welcomed(value)
        elif isinstance(value, Close):
            self._retry_after_s = value.retry_after_ms / 1000
            raise error(_known(value.error_code), value.message or "the control plane closed the session")

    async def _welcomed(self, welcome: Welcome) -> None:
        check_agreed(welcome.protocol)
        self.state, self.hold, self._setup_failures = "connected", "", 0
        self._since = self._clock.monotonic()
        self.clock_skew_ms = self._clock.now_ms() - welcome.server_time_ms
        await self._compare_memories(welcome)
        self._outgoing.link_up(welcome.heartbeat_seconds)
        if welcome.renew_certificate:
            self._renew_within(2.0 * welcome.heartbeat_seconds)
        self._changed()
        _log.info("session.opened", session_id=welcome.session_id, epoch=welcome.control_epoch)

    async def _compare_memories(self, welcome: Welcome) -> None:
        """Whoever speaks there must remember at least what this node has seen of it (P1)."""
        journal = self._journal
        if welcome.control_epoch < journal.control_epoch:
            self.hold = "controller_rollback"
        elif welcome.control_epoch == journal.control_epoch and welcome.sequence < journal.high_sequence:
            await journal.hold()
        if self.hold or journal.held:
            _log.error(
                "session.held", error_code="controller_rollback", epoch=welcome.control_epoch,
                sequence=welcome.sequence, seen_epoch=journal.control_epoch, seen_sequence=journal.high_sequence,
            )  # fmt: skip


def _first_cause(failed: BaseExceptionGroup[BaseException]) -> BaseException:
    cause: BaseException = failed
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause


def _known(code: str) -> str:
    from hostler.base.codes import CODES

    return code if code in CODES else "controller_unreachable"
