"""What can change about webhooks, as frozen data; a part of `kernel.commands`."""

import msgspec

from hostler.control.kernel.actor import Actor


class CreateWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """→ its id. `url` was checked by the edge; `after` is the newest event's id as the edge saw it."""

    actor: Actor
    org_id: str
    project_id: str
    url: str
    types: tuple[str, ...]
    after: int


class DeleteWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. None as a scope asks for nothing."""

    actor: Actor
    webhook_id: str
    org_id: str | None = None
    project_id: str | None = None


class EnableWebhook(DeleteWebhook, frozen=True, kw_only=True):
    """→ None. Also for one that is active: the next attempt is due at once."""


class TryWebhook(DeleteWebhook, frozen=True, kw_only=True):
    """→ None. The event `webhook.test` goes to the receiver like any other."""


class ResendWebhook(DeleteWebhook, frozen=True, kw_only=True):
    """→ how many parked events are sent again, in the order of the log, before anything that is new."""


class RecordResend(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. What came of parked events that were sent again.

    Attributes:
        taken: ids of events that the receiver took.
        stopped: the next one was not taken; it and all that follow stay parked, for this reason.
    """

    webhook_id: str
    taken: tuple[int, ...] = ()
    stopped: bool = False
    gone: bool = False
    reason: str = ""


class RecordDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. What came of deliveries to one webhook, made by the loop that sends them.

    Attributes:
        position: the last event that is not owed any more.
        failed: the event after `position` was sent in vain once more.
        parked: the event at `position` was given up; its id.
        gone: the receiver asked not to be called any more.
    """

    webhook_id: str
    position: int
    delivered: int = 0
    failed: bool = False
    parked: int = 0
    parked_type: str = ""
    gone: bool = False
    reason: str = ""
    next_attempt_ms: int = 0


WebhookCommand = (
    CreateWebhook | DeleteWebhook | EnableWebhook | TryWebhook | ResendWebhook | RecordDelivery | RecordResend
)
