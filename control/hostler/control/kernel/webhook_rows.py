"""Rows of webhooks: what was asked for, and how far each has come."""

from hostler.control.kernel.rows import Row


class WebhookRow(Row, frozen=True, kw_only=True):
    """`types` is a JSON list of event types and families, empty for all; an empty scope is everybody's."""

    KEY = ("webhook_id",)
    FIXED = ("org_id", "project_id", "url", "types", "created_by", "created_at_ms")

    webhook_id: str
    org_id: str
    project_id: str
    url: str
    types: str
    created_by: str
    created_at_ms: int
    state: str = "active"


class ParkedRow(Row, frozen=True, kw_only=True):
    """An event that the receiver did not take. `due` while it is being sent again, `taken` once it was."""

    KEY = ("webhook_id", "event_id")
    FIXED = ("event_type",)

    webhook_id: str
    event_id: int
    event_type: str
    parked_at_ms: int
    reason: str
    state: str = "parked"


class WebhookCursorRow(Row, frozen=True, kw_only=True):
    """Attributes:
    position: id of the last event that was taken, passed over or parked; what follows it is still owed.
    attempts, failing_since_ms: of the event that follows `position`; 0 while it was not refused.
    next_attempt_ms: not before that.
    """

    KEY = ("webhook_id",)

    webhook_id: str
    position: int
    delivered: int = 0
    parked: int = 0
    attempts: int = 0
    failing_since_ms: int = 0
    next_attempt_ms: int = 0
    last_delivery_ms: int = 0
    last_error: str = ""
