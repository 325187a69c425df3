"""Who may call the API."""

from typing import Any

from hostler.control.api import pages
from hostler.control.api.bodies import NewPrincipal, PrincipalMade, PrincipalRevoked
from hostler.control.api.call import Call
from hostler.control.api.principal import Caller
from hostler.control.kernel.commands import CreatePrincipal, RevokePrincipal
from hostler.pki.tokens import new_bearer_token


async def whoami(call: Call) -> Caller:
    return call.principal


async def create(call: Call) -> tuple[int, PrincipalMade]:
    """201 with the token's text, once."""
    body = await call.body(NewPrincipal)
    token = new_bearer_token()
    await call.execute(
        CreatePrincipal(
            actor=call.principal.actor(),
            name=body.name,
            token_sha256=token.sha256,
            role=body.role,
            org_id=body.org_id,
            project_id=body.project_id,
            expires_at_ms=call.engine.clock.now_ms() + body.valid_seconds * 1000,
        )
    )
    return 201, PrincipalMade(body.name, token.text)


async def listing(call: Call) -> Any:
    size = pages.size_of(call.query("page_size"))
    return await call.engine.reader.principals(call.query("cursor"), size)


async def revoke(call: Call) -> PrincipalRevoked:
    name = call.path("name")
    await call.execute(RevokePrincipal(actor=call.principal.actor(), name=name))
    call.parts.authenticator.forget()
    return PrincipalRevoked(name)
