"""The routes of webhooks; a part of the table."""

from collections.abc import Sequence

from hostler.control.api import bodies
from hostler.control.api.route import Handler, Route
from hostler.control.api.routes import webhooks
from hostler.control.store import records

_OWN = (
    webhooks.create,
    webhooks.listing,
    webhooks.delete,
    webhooks.enable,
    webhooks.test,
    webhooks.resend,
    webhooks.parked,
)
_ALL = (
    webhooks.create_for_all,
    webhooks.list_all,
    webhooks.delete_any,
    webhooks.enable_any,
    webhooks.test_any,
    webhooks.resend_any,
    webhooks.parked_any,
)
_PAGE = ("cursor", "page_size")
_ADMIN = "/api/v1/admin/webhooks"
_PROJECT = "/api/v1/projects/{project_id}/webhooks"


def _routes(base: str, permission: str, whose: str, handlers: Sequence[Handler]) -> tuple[Route, ...]:
    create, listing, delete, enable, test, resend, parked = handlers
    one = f"{base}/{{webhook_id}}"
    return (
        Route(
            "POST",
            base,
            permission,
            create,
            f"Tell a receiver of {whose} events; answers with its secret, once",
            body=bodies.NewWebhook,
            action="webhook.create",
            answer=bodies.WebhookMade,
        ),
        Route(
            "GET",
            base,
            permission,
            listing,
            f"List {whose} webhooks and how far each has come",
            query=_PAGE,
            answer=records.Page[records.WebhookView],
        ),
        Route(
            "DELETE",
            one,
            permission,
            delete,
            "End a webhook",
            action="webhook.delete",
            answer=bodies.WebhookRef,
        ),
        Route(
            "POST",
            f"{one}/enable",
            permission,
            enable,
            "Try a webhook again at once, also one that is disabled",
            action="webhook.enable",
            answer=bodies.WebhookRef,
        ),
        Route(
            "POST",
            f"{one}/test",
            permission,
            test,
            "Send a webhook.test event to a receiver",
            action="webhook.test",
            answer=bodies.WebhookTried,
        ),
        Route(
            "POST",
            f"{one}/resend",
            permission,
            resend,
            "Send again what a receiver did not take",
            action="webhook.resend",
            answer=bodies.WebhookResent,
        ),
        Route(
            "GET",
            f"{one}/parked",
            permission,
            parked,
            "What a receiver did not take, oldest first",
            query=_PAGE,
            answer=records.Page[records.ParkedView],
        ),
    )


WEBHOOK_ROUTES: tuple[Route, ...] = (
    *_routes(_ADMIN, "webhooks.admin", "all", _ALL),
    *_routes(_PROJECT, "webhooks.project", "a project's", _OWN),
)
