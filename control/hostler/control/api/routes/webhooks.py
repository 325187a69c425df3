"""Webhooks of a project, and of everything for a platform administrator (EV-01..05, AZ-10).

A webhook is told what its scope's `/api/v1/events` shows, no more.
"""

from typing import Any

from hostler.base.errors import error
from hostler.control.api import pages
from hostler.control.api.bodies import NewWebhook, WebhookMade, WebhookRef, WebhookResent, WebhookTried
from hostler.control.api.call import Call
from hostler.control.kernel.webhook_commands import (
    CreateWebhook,
    DeleteWebhook,
    EnableWebhook,
    ResendWebhook,
    TryWebhook,
)
from hostler.control.store.records import Page, ParkedView
from hostler.control.webhooks.signing import shown


async def create(call: Call) -> tuple[int, WebhookMade]:
    """201 with the secret, once. The address is checked as far as that goes without a name server."""
    org_id, project_id = await _scope(call)
    body = await call.body(NewWebhook)
    means = call.parts.webhooks
    means.destinations.check(body.url)
    means.key.ready()
    after = await call.engine.reader.newest_event()
    webhook_id = await call.execute(
        CreateWebhook(
            actor=call.principal.actor(),
            org_id=org_id or "",
            project_id=project_id or "",
            url=body.url,
            types=body.types,
            after=after,
        )
    )
    return 201, WebhookMade(webhook_id, shown(means.key.secret(webhook_id)))


async def listing(call: Call) -> Any:
    org_id, project_id = await _scope(call)
    size = pages.size_of(call.query("page_size"))
    return await call.engine.reader.webhooks(org_id, project_id, call.query("cursor"), size)


async def delete(call: Call) -> WebhookRef:
    return await _about(call, DeleteWebhook)


async def enable(call: Call) -> WebhookRef:
    return await _about(call, EnableWebhook)


async def test(call: Call) -> tuple[int, WebhookTried]:
    """202 with the event whose delivery is the answer."""
    tried = await _about(call, TryWebhook)
    return 202, WebhookTried(tried.webhook_id, await call.engine.reader.newest_trial(tried.webhook_id))


async def resend(call: Call) -> tuple[int, WebhookResent]:
    """202 with how many parked events are sent again."""
    org_id, project_id = await _scope(call)
    webhook_id, actor = call.path("webhook_id"), call.principal.actor()
    command = ResendWebhook(actor=actor, webhook_id=webhook_id, org_id=org_id, project_id=project_id)
    return 202, WebhookResent(webhook_id, await call.execute(command))


async def parked(call: Call) -> Page[ParkedView]:
    """What a receiver did not take and has not been sent since."""
    org_id, project_id = await _scope(call)
    webhook_id, size = call.path("webhook_id"), pages.size_of(call.query("page_size"))
    if not await call.engine.reader.has_webhook(webhook_id, org_id, project_id):
        raise error("not_found", f"there is no webhook {webhook_id[:64]!r} in your scope")
    return await call.engine.reader.parked(webhook_id, call.query("cursor"), size)


async def _about(call: Call, command: type[DeleteWebhook]) -> WebhookRef:
    org_id, project_id = await _scope(call)
    webhook_id = call.path("webhook_id")
    await call.execute(
        command(actor=call.principal.actor(), webhook_id=webhook_id, org_id=org_id, project_id=project_id)
    )
    return WebhookRef(webhook_id)


async def _scope(call: Call) -> tuple[str | None, str | None]:
    """Tenant and project of the path; None for every one, which only the administrator's path asks for."""
    if "project_id" not in call.request.path_params:
        return None, None
    project_id = await call.project()
    org_id = await call.parts.projects.org_of(project_id) or call.principal.org_id
    if not org_id:  # else it would be told of whoever the project becomes
        raise error("not_found", f"project {project_id!r} belongs to no tenant yet")
    return org_id, project_id


# -- the same below the administrator's path: each route has a name of its own -------------------------


async def create_for_all(call: Call) -> tuple[int, WebhookMade]:
    return await create(call)


async def list_all(call: Call) -> Any:
    return await listing(call)


async def delete_any(call: Call) -> WebhookRef:
    return await delete(call)


async def enable_any(call: Call) -> WebhookRef:
    return await enable(call)


async def test_any(call: Call) -> tuple[int, WebhookTried]:
    return await test(call)


async def resend_any(call: Call) -> tuple[int, WebhookResent]:
    return await resend(call)


async def parked_any(call: Call) -> Page[ParkedView]:
    return await parked(call)
