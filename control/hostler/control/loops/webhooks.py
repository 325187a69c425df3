"""Tells receivers of events: each webhook reads the log by a cursor of its own, in order, at least once.

    log ─▶ owed ─▶ send ─▶ 2xx ─▶ RecordDelivery moves the cursor
                     └▶ else: again with growing pauses; then the event is parked and the rest goes on

The cursor moves after the answer only, so what was in flight when the process died is sent again, under the same
`webhook-id`. One receiver that fails holds nobody else up.
"""

import asyncio
import random

import msgspec

from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger
from hostler.control.engine import Engine
from hostler.control.kernel.webhook_commands import RecordDelivery, RecordResend
from hostler.control.kernel.webhook_rows import WebhookRow
from hostler.control.kernel.webhooks import wants
from hostler.control.metrics import Metrics
from hostler.control.store.apply import EVERYTHING
from hostler.control.store.records import EventView
from hostler.control.store.webhooks import Owed
from hostler.control.webhooks.send import Outcome, Sender

_log = get_logger("hostler.control.loops.webhooks")
_BATCH = 100
_LOOK_S, _QUIET_S, _GATHER_S, _FAULT_S = 1.0, 15.0, 0.1, 5.0
_RECORD_EVERY_S = 1.0
_SKIP_AHEAD = 10_000  # events of others that are passed before that is written down


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    first_s, cap_s: the first pause and the longest, doubled in between and spread by a fifth.
    park_s: an event is tried for that long.
    refusals: how often an event is tried that the receiver refuses (4xx).
    """

    first_s: float = 1.0
    cap_s: float = 300.0
    park_s: float = 86_400.0
    refusals: int = 10

    def pause_s(self, attempts: int) -> float:
        """After that many attempts at an event."""
        doubled = self.first_s * 2 ** min(attempts - 1, 30)
        return float(min(self.cap_s, doubled) * random.uniform(0.8, 1.2))


class Webhooks:
    """Nobody else may deliver for this engine. `following` has the task of each active webhook."""

    def __init__(self, engine: Engine, sender: Sender, metrics: Metrics, pace: Pace) -> None:
        self._engine, self._sender, self._pace = engine, sender, pace
        self.following: dict[str, asyncio.Task[None]] = {}
        self._deliveries = metrics.webhook_deliveries
        for result in ("delivered", "failed", "parked"):
            self._deliveries.labels(result)

    async def run(self) -> None:
        """One task for each active webhook."""
        async with asyncio.TaskGroup() as group:
            while True:
                active = await self._engine.reader.active_webhooks()
                self.following = {key: task for key, task in self.following.items() if not task.done()}
                for webhook_id in active:
                    if webhook_id not in self.following:
                        self.following[webhook_id] = group.create_task(self._follow(webhook_id))
                await asyncio.sleep(_LOOK_S)

    async def _follow(self, webhook_id: str) -> None:
        """Until it is deleted or disabled; a fault of ours is logged and tried again, so that nobody else suffers."""
        seen = 0
        while True:
            try:
                mark = self._engine.wakes.newest(EVERYTHING)
                owed = await self._engine.reader.owed(webhook_id, seen, _BATCH)
                if owed is None:
                    return
                pause_s = (owed.cursor.next_attempt_ms - self._engine.clock.now_ms()) / 1000
                if pause_s > 0:
                    await asyncio.sleep(min(pause_s, _LOOK_S))
                    continue
                if owed.again:  # what is older goes first
                    await self._resend(owed)
                    continue
                clean = await self._deliver(owed)
            except HostlerError as err:
                _log.warning("webhook.fault", webhook_id=webhook_id, error_code=err.code)
                await asyncio.sleep(_FAULT_S)
                continue
            seen = owed.stretch.seen if clean else 0
            if clean and owed.stretch.is_last:
                await self._engine.wakes.changed(EVERYTHING, mark, _QUIET_S)
                await asyncio.sleep(_GATHER_S)

    async def _deliver(self, owed: Owed) -> bool:
        """Sends what lies there; False when an event could not be delivered."""
        hook, cursor = owed.hook, owed.cursor
        types = frozenset(msgspec.json.decode(hook.types, type=list[str]))
        position, delivered, loop = cursor.position, 0, asyncio.get_running_loop()
        recorded_at = loop.time()
        for event in owed.stretch.events:
            if wants(hook, types, event.type, event.resource_name):
                outcome = await self._sender.send(hook, event, self._engine.control_epoch)
                if not outcome.ok:
                    if delivered:
                        await self._record(hook, position, delivered)
                    attempts = cursor.attempts if position == cursor.position else 0
                    since_ms = cursor.failing_since_ms if attempts else 0
                    await self._failed(hook, position, event, outcome, attempts + 1, since_ms)
                    return False
                delivered += 1
                self._deliveries.labels("delivered").inc()
            position = event.id
            if delivered and loop.time() - recorded_at > _RECORD_EVERY_S:
                await self._record(hook, position, delivered)
                delivered, recorded_at = 0, loop.time()
        if delivered or owed.stretch.seen - cursor.position > _SKIP_AHEAD:
            await self._record(hook, max(position, owed.stretch.seen), delivered)
        return True

    async def _resend(self, owed: Owed) -> None:
        """Parked events once more, in their order; the first that is not taken ends it, and what is new goes on."""
        taken: list[int] = []
        outcome: Outcome | None = None
        for event in owed.again:
            outcome = await self._sender.send(owed.hook, event, self._engine.control_epoch)
            if not outcome.ok:
                break
            taken.append(event.id)
            self._deliveries.labels("delivered").inc()
        stopped = outcome is not None and not outcome.ok
        if stopped:
            self._deliveries.labels("failed").inc()
        await self._engine.execute(
            RecordResend(
                webhook_id=owed.hook.webhook_id,
                taken=tuple(taken),
                stopped=stopped,
                gone=stopped and outcome is not None and outcome.gone,
                reason=outcome.reason if stopped and outcome is not None else "",
            )
        )

    async def _record(self, hook: WebhookRow, position: int, delivered: int) -> None:
        await self._engine.execute(RecordDelivery(webhook_id=hook.webhook_id, position=position, delivered=delivered))

    async def _failed(
        self, hook: WebhookRow, position: int, event: EventView, outcome: Outcome, attempts: int, since_ms: int
    ) -> None:
        """Another pause, or the event is parked. `since_ms` is when it failed first, 0 for now."""
        now_ms = self._engine.clock.now_ms()
        overdue = since_ms > 0 and now_ms - since_ms >= self._pace.park_s * 1000
        parked = not outcome.gone and (overdue or (outcome.refused and attempts >= self._pace.refusals))
        self._deliveries.labels("parked" if parked else "failed").inc()
        _log.warning(
            "webhook.parked" if parked else "webhook.failed",
            webhook_id=hook.webhook_id,
            event_id=event.id,
            attempts=attempts,
            reason=outcome.reason,
        )
        await self._engine.execute(
            RecordDelivery(
                webhook_id=hook.webhook_id,
                position=event.id if parked else position,
                failed=not parked,
                parked=event.id if parked else 0,
                parked_type=event.type if parked else "",
                gone=outcome.gone,
                reason=outcome.reason,
                next_attempt_ms=0 if parked else now_ms + int(self._pace.pause_s(attempts) * 1000),
            )
        )
