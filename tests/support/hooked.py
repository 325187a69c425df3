"""A control plane that tells a real receiver of events over TLS, with a clock and a name server of the test's."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hostler.base.clock import SystemClock
from hostler.control.kernel.webhook_commands import CreateWebhook, DeleteWebhook
from hostler.control.loops.webhooks import Pace, Webhooks
from hostler.control.metrics import Metrics
from hostler.control.webhooks.destination import Destinations, networks
from hostler.control.webhooks.send import Sender
from hostler.control.webhooks.signing import WebhookKey, shown
from support.control import ADMIN, USER, Fleet, FrozenClock, fleet_in
from support.keys import NOW
from support.receiving import NAME, Receiver

LOOPBACK = networks(["127.0.0.0/8"])
QUICK = Pace(first_s=0.02, cap_s=0.05, refusals=3)


class RunningClock(FrozenClock):
    """Goes on by itself, as pauses do, and can be moved."""

    def __init__(self) -> None:
        self._begun, self._moved = time.monotonic(), 0

    @property
    def now(self) -> int:  # type: ignore[override]  # read as the frozen one's
        return NOW + self._moved + int((time.monotonic() - self._begun) * 1000)

    def now_ms(self) -> int:
        return self.now

    def move(self, ms: int) -> None:
        self._moved += ms


class Names:
    """A name server whose answers the test decides."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers) or [["127.0.0.1"]]
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Hooked:
    def __init__(self, fleet: Fleet, hook: Receiver, sender: Sender, metrics: Metrics) -> None:
        self.fleet, self.hook, self.sender, self.metrics = fleet, hook, sender, metrics

    async def add(
        self, *, project: str = "train", org: str = "acme", types: tuple[str, ...] = (), url: str = ""
    ) -> str:
        command = CreateWebhook(
            actor=USER,
            org_id=org,
            project_id=project,
            url=url or f"https://{NAME}:{self.hook.port}/hook?token=s3cret-in-url",
            types=types,
            after=await self.fleet.engine.reader.newest_event(),
        )
        webhook_id: str = await self.fleet.execute(command)
        self.hook.knows(shown(self.sender.key.secret(webhook_id)))
        return webhook_id

    async def view(self, webhook_id: str) -> Any:
        page = await self.fleet.engine.reader.webhooks(None, None, "", 100)
        return next(view for view in page.items if view.webhook_id == webhook_id)

    async def until(self, ready: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while True:
                found = ready()
                if await found if asyncio.iscoroutine(found) else found:
                    return
                await asyncio.sleep(0.02)

    async def scoped_ids(self, org: str | None, project: str | None, after: int = 0) -> list[int]:
        found = await self.fleet.engine.reader.events_of_scope(after, 10_000, org, project, "")
        return [event.id for event in found.events]


@asynccontextmanager
async def hooked(
    directory: Path,
    hook: Receiver,
    names: Names | None = None,
    allowed: Any = LOOPBACK,
    pace: Pace = QUICK,
    end: bool = True,
) -> AsyncIterator[Hooked]:
    async with fleet_in(directory, clock=RunningClock()) as fleet:
        destinations = Destinations(allowed, names or Names())
        sender = Sender(WebhookKey(directory / "webhook.key"), destinations, SystemClock(), str(hook.certs.ca))
        metrics = Metrics()
        webhooks = Webhooks(fleet.engine, sender, metrics, pace)
        loop = asyncio.create_task(webhooks.run())
        try:
            yield Hooked(fleet, hook, sender, metrics)
            if end:  # else a connection is torn in the middle of its handshake
                for webhook_id in await fleet.engine.reader.active_webhooks():
                    await fleet.execute(DeleteWebhook(actor=ADMIN, webhook_id=webhook_id))
                await asyncio.wait([asyncio.create_task(asyncio.sleep(0)), *webhooks.following.values()], timeout=5)
        finally:
            loop.cancel()
            await asyncio.gather(loop, return_exceptions=True)
            assert loop.cancelled(), "the loop ended by itself"
