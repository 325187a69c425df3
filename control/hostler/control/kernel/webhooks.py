"""Webhooks: made, ended, tried out, and how far their receivers have come (EV-01..05, EV-10)."""

from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.control.kernel import changes, events
from hostler.control.kernel.actor import Actor
from hostler.control.kernel.changes import Change
from hostler.control.kernel.event_types import EVENT_TYPES
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import EventRow
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

replace = msgspec.structs.replace
MAX_IN_SCOPE = 20
MAX_TYPES = 50
MAX_RESENT = 10_000  # parked events that one request sends again
PARKED, DUE, TAKEN = "parked", "due", "taken"
FAMILIES = frozenset(type_.partition(".")[0] for type_ in EVENT_TYPES)
_SYSTEM = Actor(kind="system", name="hostler-control")


def create(draft: Draft, command: CreateWebhook) -> Decision:
    """→ its id. Events after `command.after` are owed to it, its own creation first."""
    _check_types(command.types)
    scope = (command.org_id, command.project_id)
    if sum((hook.org_id, hook.project_id) == scope for hook in draft.view.webhooks()) >= MAX_IN_SCOPE:
        raise error("webhook_limit", f"there are {MAX_IN_SCOPE} webhooks in this scope already")
    row = WebhookRow(
        webhook_id=draft.ids.new("whk", draft.now_ms),
        org_id=command.org_id,
        project_id=command.project_id,
        url=command.url,
        types=events.json_text(command.types),
        created_by=command.actor.name,
        created_at_ms=draft.now_ms,
    )
    draft.insert(row)
    draft.insert(WebhookCursorRow(webhook_id=row.webhook_id, position=command.after))
    change = changes.made(state=row.state, types=command.types)
    told = _event("webhook.created", row, draft, command.actor, "webhook.create", change, types=command.types)
    draft.events.append(told)
    return draft.decision(row.webhook_id)


def delete(draft: Draft, command: DeleteWebhook) -> Decision:
    row = _known(draft, command.webhook_id, command.org_id, command.project_id)
    draft.update(replace(row, state="deleted"))
    change = changes.gone(state=row.state, types=msgspec.json.decode(row.types))
    draft.events.append(_event("webhook.deleted", row, draft, command.actor, "webhook.delete", change))
    return draft.decision()


def enable(draft: Draft, command: EnableWebhook) -> Decision:
    """The next attempt is due at once, whatever came of the last ones."""
    row = _known(draft, command.webhook_id, command.org_id, command.project_id)
    draft.update(replace(row, state="active"))
    waited = _due_now(draft, row)
    change = changes.Change({"state": row.state, "next_attempt_ms": waited}, {"state": "active", "next_attempt_ms": 0})
    draft.events.append(_event("webhook.enabled", row, draft, command.actor, "webhook.enable", change))
    return draft.decision()


def try_out(draft: Draft, command: TryWebhook) -> Decision:
    """An event of its own, which goes the way of all others."""
    row = _known(draft, command.webhook_id, command.org_id, command.project_id)
    if row.state != "active":
        raise error("webhook_disabled", f"webhook {row.webhook_id} is disabled")
    _due_now(draft, row)
    change = changes.made(event_type="webhook.test")
    draft.events.append(_event("webhook.test", row, draft, command.actor, "webhook.test", change))
    return draft.decision()


def record(draft: Draft, command: RecordDelivery) -> Decision:
    """What came of some deliveries. The position never goes back."""
    row, cursor = draft.get(WebhookRow, command.webhook_id), draft.get(WebhookCursorRow, command.webhook_id)
    if row is None or cursor is None or command.position < cursor.position:
        return draft.decision()
    moved = command.position > cursor.position
    failing_since = 0 if moved else cursor.failing_since_ms
    cursor = replace(
        cursor,
        position=command.position,
        delivered=cursor.delivered + command.delivered,
        attempts=(0 if moved else cursor.attempts) + command.failed,
        failing_since_ms=(failing_since or draft.now_ms) if command.failed else failing_since,
        next_attempt_ms=command.next_attempt_ms,
        last_delivery_ms=draft.now_ms if command.delivered else cursor.last_delivery_ms,
        last_error=command.reason if command.failed or command.parked else ("" if moved else cursor.last_error),
        parked=cursor.parked + bool(command.parked),
    )
    draft.update(cursor)
    if command.parked:
        _park(draft, command)
        body = {"event_id": command.parked, "event_type": command.parked_type, "reason": command.reason}
        change = changes.made(event_id=command.parked)
        draft.events.append(_event("webhook.parked", row, draft, _SYSTEM, "webhook.park", change, **body))
    if command.gone and row.state == "active":
        off = replace(row, state="disabled")
        draft.update(off)
        change, why = changes.of_rows(row, off, "state"), command.reason
        draft.events.append(_event("webhook.disabled", row, draft, _SYSTEM, "webhook.disable", change, reason=why))
    return draft.decision()


def _park(draft: Draft, command: RecordDelivery) -> None:
    """For whoever asks that it be sent again."""
    row = ParkedRow(
        webhook_id=command.webhook_id,
        event_id=command.parked,
        event_type=command.parked_type,
        parked_at_ms=draft.now_ms,
        reason=command.reason,
    )
    if draft.get(ParkedRow, (row.webhook_id, row.event_id)) is None:
        draft.insert(row)


def resend(draft: Draft, command: ResendWebhook) -> Decision:
    """→ how many events are due again: what was parked, in the order of the log (EV-10)."""
    row = _known(draft, command.webhook_id, command.org_id, command.project_id)
    if row.state == "disabled":
        raise error("webhook_disabled", f"webhook {row.webhook_id} is disabled", hint="enable it first")
    parked = list(draft.current(draft.view.parked_of(row.webhook_id, MAX_RESENT)))
    for each in parked:
        draft.update(replace(each, state=DUE))
    _due_now(draft, row)
    change = changes.between({"due": 0}, {"due": len(parked)})
    draft.events.append(
        _event("webhook.resend", row, draft, command.actor, "webhook.resend", change, parked=len(parked))
    )
    return draft.decision(len(parked))


def record_resend(draft: Draft, command: RecordResend) -> Decision:
    """What the receiver took is parked no more; where it stopped, everything that is left stays parked."""
    row, cursor = draft.get(WebhookRow, command.webhook_id), draft.get(WebhookCursorRow, command.webhook_id)
    if row is None or cursor is None:
        return draft.decision()
    due = {each.event_id: each for each in draft.current(draft.view.parked_of(row.webhook_id, MAX_RESENT))}
    taken = [due.pop(event_id) for event_id in command.taken if event_id in due]
    for each in taken:
        draft.update(replace(each, state=TAKEN))
    if taken:
        cursor = replace(cursor, delivered=cursor.delivered + len(taken), last_delivery_ms=draft.now_ms)
        draft.update(replace(cursor, parked=max(0, cursor.parked - len(taken))))
    if command.stopped:
        left = [each for each in due.values() if each.state == DUE]
        for each in left:
            draft.update(replace(each, state=PARKED, reason=command.reason))
        body: dict[str, Any] = {"reason": command.reason, "left": len(left)}
        change = changes.between({"due": len(left)}, {"due": 0})
        draft.events.append(
            _event("webhook.resend_stopped", row, draft, _SYSTEM, "webhook.resend_stop", change, **body)
        )
    if command.gone and row.state == "active":
        off = replace(row, state="disabled")
        draft.update(off)
        change, why = changes.of_rows(row, off, "state"), command.reason
        draft.events.append(_event("webhook.disabled", row, draft, _SYSTEM, "webhook.disable", change, reason=why))
    return draft.decision()


def wants(row: WebhookRow, types: frozenset[str], type_: str, resource_name: str) -> bool:
    """Whether an event of its scope is for it. It hears of its own test, and not of what it did not take."""
    own = resource_name == f"webhooks/{row.webhook_id}"
    if own and type_ in ("webhook.test", "webhook.parked", "webhook.resend", "webhook.resend_stopped"):
        return type_ == "webhook.test"
    return not types or type_ in types or type_.partition(".")[0] in types


def _check_types(types: tuple[str, ...]) -> None:
    if len(types) > MAX_TYPES:
        raise error("invalid_request", f"a webhook names {MAX_TYPES} types at most", pointer="/types")
    for type_ in types:
        if type_ not in EVENT_TYPES and type_ not in FAMILIES and not type_.endswith("_refused"):
            message = f"there is no event type {type_[:64]!r}"
            raise error("invalid_request", message, pointer="/types", hint="docs/events.md lists them")


def _known(draft: Draft, webhook_id: str, org_id: str | None, project_id: str | None) -> WebhookRow:
    """Raises `not_found`, for those of another scope as well."""
    row = draft.get(WebhookRow, webhook_id)
    hidden = row is None or row.state == "deleted" or project_id not in (None, row.project_id)
    if row is None or hidden or org_id not in (None, row.org_id):
        raise error("not_found", f"there is no webhook {webhook_id[:64]!r} in your scope")
    return row


def _due_now(draft: Draft, row: WebhookRow) -> int:
    """→ when it would have been due."""
    cursor = draft.get(WebhookCursorRow, row.webhook_id)
    if cursor is None:
        return 0
    draft.update(replace(cursor, next_attempt_ms=0))
    return cursor.next_attempt_ms


def _event(
    type_: str, row: WebhookRow, draft: Draft, actor: Actor, action: str, change: Change, **body: Any
) -> EventRow:
    """Never the whole address: its path may be what lets a caller in."""
    return events.admin_event(
        type_,
        f"webhooks/{row.webhook_id}",
        draft.now_ms,
        actor=actor,
        action=action,
        change=change,
        org_id=row.org_id,
        project_id=row.project_id,
        webhook_id=row.webhook_id,
        **body,
    )
