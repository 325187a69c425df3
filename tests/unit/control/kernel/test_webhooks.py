"""What the kernel decides about webhooks (EV-01..05, AZ-10)."""

from typing import Any

import pytest

from hostler.control.kernel.webhook_commands import (
    CreateWebhook,
    DeleteWebhook,
    EnableWebhook,
    RecordDelivery,
    RecordResend,
    ResendWebhook,
    TryWebhook,
)
from hostler.control.kernel.webhook_rows import ParkedRow, WebhookCursorRow, WebhookRow
from hostler.control.kernel.webhooks import MAX_IN_SCOPE, wants
from support.control import USER
from support.memory_view import Bench

URL = "https://hooks.example.com/secret-path"


def made(bench: Bench, **changes: Any) -> str:
    values = {"actor": USER, "org_id": "acme", "project_id": "train", "url": URL, "types": (), "after": 7}
    webhook_id: str = bench.run(CreateWebhook(**(values | changes)))
    return webhook_id


def cursor(bench: Bench, webhook_id: str) -> WebhookCursorRow:
    row = bench.view.get(WebhookCursorRow, webhook_id)
    assert isinstance(row, WebhookCursorRow)
    return row


def test_a_webhook_is_owed_what_follows_its_creation_and_its_path_is_in_no_event() -> None:
    bench = Bench()
    webhook_id = made(bench)
    assert cursor(bench, webhook_id).position == 7
    (event,) = bench.events
    assert (event.type, event.org_id, event.project_id) == ("webhook.created", "acme", "train")
    assert "secret-path" not in event.body


def test_types_that_do_not_exist_are_refused() -> None:
    bench = Bench()
    made(bench, types=("operation", "node.lost", "policy.put_refused"))
    values = {"actor": USER, "org_id": "acme", "project_id": "train", "url": URL, "after": 7}
    for types in (("nosuch",), ("node.nosuch",), ("node",) * 51):
        assert bench.refusal(CreateWebhook(types=types, **values)).code == "invalid_request"


def test_a_scope_has_so_many_and_deleted_ones_do_not_count() -> None:
    bench = Bench()
    ids = [made(bench) for _ in range(MAX_IN_SCOPE)]
    values = {"actor": USER, "org_id": "acme", "project_id": "train", "url": URL, "types": (), "after": 7}
    assert bench.refusal(CreateWebhook(**values)).code == "webhook_limit"
    made(bench, project_id="serve")
    bench.run(DeleteWebhook(actor=USER, webhook_id=ids[0]))
    made(bench)


@pytest.mark.parametrize("command", [DeleteWebhook, EnableWebhook, TryWebhook, ResendWebhook])
def test_AZ_10_a_webhook_of_another_scope_is_not_there(command: Any) -> None:
    bench = Bench()
    webhook_id = made(bench)
    for scope in (("acme", "serve"), ("rival", "train"), ("rival", "lab")):
        refused = bench.refusal(command(actor=USER, webhook_id=webhook_id, org_id=scope[0], project_id=scope[1]))
        assert refused.code == "not_found"
    bench.run(command(actor=USER, webhook_id=webhook_id, org_id="acme", project_id="train"))


def test_a_deleted_one_is_not_there_and_a_disabled_one_is_not_tried() -> None:
    bench = Bench()
    webhook_id = made(bench)
    bench.run(RecordDelivery(webhook_id=webhook_id, position=7, failed=True, gone=True, reason="status 410"))
    assert bench.events[-1].type == "webhook.disabled"
    assert bench.refusal(TryWebhook(actor=USER, webhook_id=webhook_id)).code == "webhook_disabled"
    bench.run(EnableWebhook(actor=USER, webhook_id=webhook_id))
    assert bench.view.get(WebhookRow, webhook_id).state == "active"
    bench.run(TryWebhook(actor=USER, webhook_id=webhook_id))
    bench.run(DeleteWebhook(actor=USER, webhook_id=webhook_id))
    assert bench.refusal(EnableWebhook(actor=USER, webhook_id=webhook_id)).code == "not_found"


def test_EV_10_the_position_never_goes_back_and_attempts_are_of_one_event() -> None:
    bench = Bench()
    webhook_id = made(bench)
    for _ in range(3):
        bench.run(
            RecordDelivery(webhook_id=webhook_id, position=7, failed=True, reason="status 500", next_attempt_ms=9)
        )
    assert (cursor(bench, webhook_id).attempts, cursor(bench, webhook_id).failing_since_ms) == (3, bench.now)
    bench.run(RecordDelivery(webhook_id=webhook_id, position=9, delivered=2))
    now = cursor(bench, webhook_id)
    assert (now.position, now.attempts, now.failing_since_ms, now.last_error, now.delivered) == (9, 0, 0, "", 2)
    bench.run(RecordDelivery(webhook_id=webhook_id, position=8, delivered=1))
    assert cursor(bench, webhook_id) == now


def test_a_parked_event_is_named_and_its_successor_starts_afresh() -> None:
    bench = Bench()
    webhook_id = made(bench)
    bench.run(RecordDelivery(webhook_id=webhook_id, position=7, failed=True, reason="status 400"))
    bench.run(RecordDelivery(webhook_id=webhook_id, position=8, parked=8, parked_type="node.lost", reason="status 400"))
    now = cursor(bench, webhook_id)
    assert (now.position, now.parked, now.attempts, now.last_error) == (8, 1, 0, "status 400")
    assert bench.events[-1].type == "webhook.parked"
    assert '"event_id":8' in bench.events[-1].body


def with_parked(bench: Bench, *events: int) -> str:
    webhook_id = made(bench)
    for event_id in events:
        bench.run(
            RecordDelivery(
                webhook_id=webhook_id, position=event_id, parked=event_id, parked_type="node.lost", reason="status 400"
            )
        )
    return webhook_id


def states(bench: Bench, webhook_id: str) -> dict[int, str]:
    rows = [row for row in bench.view.rows[ParkedRow].values() if row.webhook_id == webhook_id]
    return {row.event_id: row.state for row in rows}


def test_EV_10_what_was_parked_is_due_again_and_the_position_stays() -> None:
    bench = Bench()
    webhook_id = with_parked(bench, 8, 9, 12)
    other = with_parked(bench, 10)
    before = cursor(bench, webhook_id).position
    assert bench.run(ResendWebhook(actor=USER, webhook_id=webhook_id)) == 3
    assert states(bench, webhook_id) == {8: "due", 9: "due", 12: "due"}
    assert states(bench, other) == {10: "parked"}
    bench.run(RecordResend(webhook_id=webhook_id, taken=(8,)))
    bench.run(RecordResend(webhook_id=webhook_id, taken=(9, 4711), stopped=True, reason="status 503"))
    assert states(bench, webhook_id) == {8: "taken", 9: "taken", 12: "parked"}
    now = cursor(bench, webhook_id)
    assert (now.position, now.parked, now.delivered) == (before, 1, 2)
    assert [e.type for e in bench.events][-1] == "webhook.resend_stopped"
    assert bench.run(ResendWebhook(actor=USER, webhook_id=webhook_id)) == 1
    audited = [e for e in bench.events if e.action == "webhook.resend"]
    assert [(e.actor, e.result) for e in audited] == [("ann", "accepted")] * 2


def test_nothing_is_resent_to_a_disabled_webhook() -> None:
    bench = Bench()
    webhook_id = with_parked(bench, 8)
    bench.run(RecordDelivery(webhook_id=webhook_id, position=8, gone=True, reason="status 410"))
    assert bench.refusal(ResendWebhook(actor=USER, webhook_id=webhook_id)).code == "webhook_disabled"
    assert states(bench, webhook_id) == {8: "parked"}
    bench.run(EnableWebhook(actor=USER, webhook_id=webhook_id))
    bench.run(ResendWebhook(actor=USER, webhook_id=webhook_id))
    bench.run(RecordResend(webhook_id=webhook_id, stopped=True, gone=True, reason="status 410"))
    row = bench.view.get(WebhookRow, webhook_id)
    assert (states(bench, webhook_id), row.state) == ({8: "parked"}, "disabled")


def test_what_a_webhook_wants() -> None:
    bench = Bench()
    row = bench.view.get(WebhookRow, made(bench))
    own = f"webhooks/{row.webhook_id}"
    assert wants(row, frozenset(), "node.lost", "nodes/1")
    assert wants(row, frozenset({"node"}), "node.lost", "nodes/1")
    assert wants(row, frozenset({"node.lost"}), "node.lost", "nodes/1")
    assert not wants(row, frozenset({"operation"}), "node.lost", "nodes/1")
    assert wants(row, frozenset({"operation"}), "webhook.test", own)
    # else each event that is given up would be followed by another one to give up
    assert not wants(row, frozenset(), "webhook.parked", own)
    assert wants(row, frozenset(), "webhook.parked", "webhooks/another")
