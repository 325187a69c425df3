"""Events to a real receiver over TLS, by the real engine, store and loop (EV-01..05, EV-10)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.control.kernel.webhook_commands import DeleteWebhook, EnableWebhook, ResendWebhook, TryWebhook
from hostler.control.loops import webhooks as loop_module
from hostler.control.loops.webhooks import Pace
from support.control import ADMIN, USER, Fleet, fleet_in
from support.hooked import QUICK, Hooked, hooked
from support.receiving import Receiver, receiver


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new webhook is followed now, not within a second: each test makes at least one."""
    monkeypatch.setattr(loop_module, "_LOOK_S", 0.02)


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
