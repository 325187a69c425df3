"""Events to a real receiver over TLS, by the real engine, store and loop (EV-01..05, EV-10)."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.base.clock import SystemClock
from hostler.control.kernel.webhook_commands import (
    CreateWebhook,
    DeleteWebhook,
    EnableWebhook,
    ResendWebhook,
    TryWebhook,
)
from hostler.control.loops import webhooks as loop_module
from hostler.control.loops.webhooks import Pace, Webhooks
from hostler.control.metrics import Metrics
from hostler.control.webhooks import send
from hostler.control.webhooks.destination import Destinations, networks
from hostler.control.webhooks.send import Sender
from hostler.control.webhooks.signing import WebhookKey, shown
from support.control import ADMIN, USER, Fleet, FrozenClock, fleet_in
from support.keys import NOW
from support.receiving import NAME, Receiver, receiver

LOOPBACK = networks(["127.0.0.0/8"])
QUICK = Pace(first_s=0.02, cap_s=0.05, refusals=3)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new webhook is followed now, not within a second: each test makes at least one."""
    monkeypatch.setattr(loop_module, "_LOOK_S", 0.02)


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


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[Receiver]:
    with receiver(tmp_path / "certs") as made:
        yield made


async def an_operation(fleet: Fleet, name: str = "gpu-1", **more: Any) -> str:
    node = await fleet.node(name, **more)
    operation_id = await fleet.submit(node)
    for spec in await fleet.take(node):
        await fleet.run(node, spec)
    return operation_id


async def test_EV_01_to_05_a_receiver_is_told_of_everything_in_its_scope_in_order(hook, tmp_path) -> None:
    async with hooked(tmp_path, hook) as it:
        await it.fleet.publish()
        start = await it.fleet.engine.reader.newest_event()
        webhook_id = await it.add()
        operation_id = await an_operation(it.fleet)
        await it.fleet.enroll("other", org="rival", project="lab")
        owed = await it.scoped_ids("acme", "train", start)
        await it.until(lambda: len(hook.ids()) >= len(owed))
        assert hook.ids() == owed
        assert {event["org_id"] for event in hook.taken} == {"acme"}
        types = [event["type"] for event in hook.taken if event["operation_id"] == operation_id]
        assert (types[0], types.count("operation.completed")) == ("operation.requested", 1)
        assert types.index("operation.completed") > types.index("operation.progress")

        async def recorded() -> bool:
            return (await it.view(webhook_id)).delivered == len(owed)

        await it.until(recorded)


async def test_AZ_10_a_webhook_without_a_scope_is_told_of_all_and_types_narrow(hook, tmp_path) -> None:
    async with hooked(tmp_path, hook) as it:
        await it.fleet.publish()
        await it.add(org="", project="", types=("node.enrolled",))
        await it.fleet.enroll("one")
        await it.fleet.enroll("two", org="rival", project="lab")
        await it.until(lambda: len(hook.taken) == 2)
        assert [event["org_id"] for event in hook.taken] == ["acme", "rival"]


async def test_EV_10_what_fails_is_tried_again_before_anything_after_it(hook, tmp_path) -> None:
    left = {"operation.completed": 4, "operation.requested": 3}

    def status(event: dict[str, Any]) -> int:
        left[event["type"]] = left.get(event["type"], 0) - 1
        return 503 if left[event["type"]] >= 0 else 200

    hook.status = status
    async with hooked(tmp_path, hook) as it:
        await it.fleet.publish()
        start = await it.fleet.engine.reader.newest_event()
        await it.add()
        await an_operation(it.fleet)
        owed = await it.scoped_ids("acme", "train", start)
        await it.until(lambda: len(hook.ids()) >= len(owed))
        assert hook.ids() == owed
        assert len(hook.taken) == len(owed)
        again = {event_id: {i for e, i in hook.asked if e == event_id} for event_id in owed}
        assert all(len(ids) == 1 for ids in again.values())  # one webhook-id for each event, however often
        assert it.metrics.registry.get_sample_value("hostler_webhook_deliveries_total", {"result": "failed"}) == 7


async def test_a_refused_event_is_parked_and_the_rest_goes_on(hook, tmp_path) -> None:
    hook.status = lambda event: 400 if event["type"] == "node.connected" else 200
    async with hooked(tmp_path, hook) as it:
        await it.fleet.publish()
        start = await it.fleet.engine.reader.newest_event()
        webhook_id = await it.add()
        await an_operation(it.fleet)

        async def parked() -> bool:
            return (await it.view(webhook_id)).parked == 1

        await it.until(parked)
        events = await it.fleet.events()
        (bad,) = [event.id for event in events if event.type == "node.connected"]
        (line,) = [event for event in events if event.type == "webhook.parked"]
        assert (line.body["event_id"], line.body["reason"]) == (bad, "status 400")
        assert [e for e, _ in hook.asked].count(bad) == QUICK.refusals
        owed = [i for i in await it.scoped_ids("acme", "train", start) if i not in (bad, line.id)]
        await it.until(lambda: len(hook.ids()) >= len(owed))
        assert hook.ids() == owed


async def parked_ids(it: Hooked, webhook_id: str) -> list[int]:
    page = await it.fleet.engine.reader.parked(webhook_id, "", 100)
    return [view.event_id for view in page.items]


async def with_parked(it: Hooked, hook: Receiver, types: tuple[str, ...]) -> tuple[str, list[int]]:
    """A webhook whose receiver did not take events of these types."""
    hook.status = lambda event: 400 if event["type"] in types else 200
    await it.fleet.publish()
    webhook_id = await it.add()
    await an_operation(it.fleet)

    async def ended() -> bool:
        found = [e for e in await it.fleet.events() if e.type == "operation.completed"]
        return bool(found) and (await it.view(webhook_id)).position >= found[-1].id

    await it.until(ended)
    return webhook_id, await parked_ids(it, webhook_id)


async def test_EV_10_what_was_parked_is_sent_again_in_order_before_anything_new(hook, tmp_path) -> None:
    async with hooked(tmp_path, hook) as it:
        webhook_id, parked = await with_parked(it, hook, ("node.connected", "operation.progress"))
        assert len(parked) >= 3
        first_ids = dict(hook.asked)
        hook.status = lambda event: 200
        hook.taken.clear()
        await it.fleet.execute(ResendWebhook(actor=USER, webhook_id=webhook_id))
        await it.fleet.execute(TryWebhook(actor=USER, webhook_id=webhook_id))
        await it.until(lambda: any(event["type"] == "webhook.test" for event in hook.taken))
        assert hook.ids()[: len(parked)] == parked
        assert all(dict(hook.asked)[event_id] == first_ids[event_id] for event_id in parked), "the same webhook-id"
        assert await parked_ids(it, webhook_id) == []
        assert (await it.view(webhook_id)).parked == 0


async def test_EV_10_a_resend_ends_at_the_first_event_that_is_not_taken(hook, tmp_path) -> None:
    async with hooked(tmp_path, hook) as it:
        webhook_id, parked = await with_parked(it, hook, ("operation.requested", "operation.progress"))
        hook.status = lambda event: 503 if event["id"] == parked[1] else 200
        hook.taken.clear()
        await it.fleet.execute(ResendWebhook(actor=USER, webhook_id=webhook_id))
        await it.fleet.execute(TryWebhook(actor=USER, webhook_id=webhook_id))
        await it.until(lambda: any(event["type"] == "webhook.test" for event in hook.taken))
        assert [i for i in hook.ids() if i in parked] == parked[:1], "none goes past one that came before it"
        assert await parked_ids(it, webhook_id) == parked[1:]
        (event,) = await it.fleet.events(type_="webhook.resend_stopped")
        assert (event.body["left"], event.body["reason"]) == (len(parked) - 1, "status 503")


async def test_an_event_is_parked_when_its_time_is_over(hook, tmp_path) -> None:
    hook.status = lambda event: 500 if event["type"] == "webhook.created" else 200
    async with hooked(tmp_path, hook, pace=Pace(first_s=0.02, cap_s=0.05, park_s=3600)) as it:
        await it.add()
        await it.until(lambda: len(hook.asked) >= 5)
        assert hook.taken == []
        it.fleet.clock.move(3_700_000)
        (webhook_id,) = await it.fleet.engine.reader.active_webhooks()
        await it.fleet.execute(TryWebhook(actor=USER, webhook_id=webhook_id))
        await it.until(lambda: any(event["type"] == "webhook.test" for event in hook.taken))
        assert await it.fleet.events(type_="webhook.parked")


async def test_one_receiver_that_fails_holds_nobody_else_up(hook, tmp_path) -> None:
    async with hooked(tmp_path, hook) as it:
        for url in ("https://localhost:1/", "https://unknown.invalid/", "https://a.b/"):
            await it.add(url=url)
        good = await it.add()
        await it.fleet.enroll("gpu-1")
        await it.until(lambda: any(event["type"] == "node.enrolled" for event in hook.taken))
        assert (await it.view(good)).last_error == ""


async def test_410_disables_and_enable_goes_on_where_it_stood(hook, tmp_path) -> None:
    hook.status = lambda event: 410
    async with hooked(tmp_path, hook) as it:
        webhook_id = await it.add()

        async def disabled() -> bool:
            return (await it.view(webhook_id)).state == "disabled"

        await it.until(disabled)
        hook.status = lambda event: 200
        await it.fleet.enroll("gpu-1")
        await it.fleet.execute(EnableWebhook(actor=ADMIN, webhook_id=webhook_id))
        await it.until(lambda: any(event["type"] == "webhook.enabled" for event in hook.taken))
        assert hook.taken[0]["type"] == "webhook.created"


async def test_a_test_is_an_event_and_a_deleted_webhook_is_told_of_nothing(hook, tmp_path) -> None:
    async with hooked(tmp_path, hook) as it:
        webhook_id = await it.add(types=("policy",))
        await it.fleet.execute(TryWebhook(actor=USER, webhook_id=webhook_id))
        await it.until(lambda: [event["type"] for event in hook.taken] == ["webhook.test"])
        await it.fleet.execute(DeleteWebhook(actor=USER, webhook_id=webhook_id))
        assert await it.fleet.engine.reader.active_webhooks() == []


async def test_EV_10_a_restart_goes_on_where_the_cursor_stood(hook, tmp_path) -> None:
    async with hooked(tmp_path, hook, end=False) as it:
        await it.add()
        await it.fleet.enroll("gpu-1")
        await it.until(lambda: any(event["type"] == "node.enrolled" for event in hook.taken))
    async with fleet_in(tmp_path) as fleet:  # nothing delivers
        await fleet.execute(TryWebhook(actor=USER, webhook_id=(await fleet.engine.reader.active_webhooks())[0]))
    async with hooked(tmp_path, hook) as it:
        await it.until(lambda: any(event["type"] == "webhook.test" for event in hook.taken))
    assert hook.ids() == sorted(hook.ids())


# -- where it may go ---------------------------------------------------------------------------------


async def one_try(it: Hooked, url: str = "") -> Any:
    """The first outcome at a webhook's first event."""
    webhook_id = await it.add(url=url)

    async def tried() -> bool:
        view = await it.view(webhook_id)
        return bool(view.last_error or view.delivered)

    await it.until(tried)
    return await it.view(webhook_id)


async def test_SSRF_an_address_inside_is_never_connected_to(hook, tmp_path) -> None:
    async with hooked(tmp_path, hook, allowed=()) as it:
        view = await one_try(it)
    assert "webhook_url_denied" in view.last_error
    assert hook.asked == []


async def test_SSRF_the_address_that_was_checked_is_the_one_connected_to(hook, tmp_path) -> None:
    """Were the name asked again, the second answer would lead elsewhere; the system knows no such name at all."""
    names = Names(["127.0.0.1"], ["192.0.2.1"])
    async with hooked(tmp_path, hook, names) as it:
        await it.add()
        await it.until(lambda: bool(hook.taken))
    assert [event["type"] for event in hook.taken] == ["webhook.created"]
    assert names.asked == 1


async def test_a_redirect_is_a_refusal_and_not_followed(hook, tmp_path) -> None:
    hook.status = lambda event: 307
    async with hooked(tmp_path, hook) as it:
        view = await one_try(it)
    assert view.last_error == "status 307"


async def test_the_certificate_must_name_the_host(tmp_path) -> None:
    with receiver(tmp_path / "certs", names=("another.test",)) as hook:
        async with hooked(tmp_path, hook) as it:
            view = await one_try(it)
    assert view.last_error.startswith("not reachable")
    assert hook.asked == []


async def test_an_answer_without_an_end_is_cut_off(hook, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(send, "MAX_ANSWER_BYTES", 1000)
    long = b"x" * 8_000_000
    hook.server.answer = lambda asked: (hook.answer(asked)[0], long)
    async with hooked(tmp_path, hook) as it:
        view = await one_try(it)
    assert view.delivered == 1


async def test_a_receiver_that_does_not_answer_is_given_up_in_time(hook, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(send, "TIMEOUT_S", 0.3)
    stuck = threading.Event()
    hook.status = lambda event: 200 if stuck.wait(60) else 500
    async with hooked(tmp_path, hook) as it:
        view = await one_try(it)
    stuck.set()
    assert "no answer" in view.last_error


async def test_S1_no_secret_and_no_address_is_logged(hook, tmp_path, caplog) -> None:
    caplog.set_level(logging.DEBUG, logger="hostler")  # others speak from WARNING on, as logs.set_up has it
    hook.status = lambda event: 500
    async with hooked(tmp_path, hook) as it:
        view = await one_try(it)
        secret = it.sender.key.secret(view.webhook_id)
    said = "\n".join(str(record.__dict__) for record in caplog.records)
    assert "webhook.failed" in said
    for hidden in ("s3cret-in-url", shown(secret), shown(secret)[6:], secret.hex(), "v1,"):
        assert hidden not in said
    for path in tmp_path.glob("control.db*"):
        assert secret not in path.read_bytes()
        assert shown(secret).encode() not in path.read_bytes()
