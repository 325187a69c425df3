"""The endpoints of 004 §7.2 and §7.3, for node certificates alone (API-16, API-17).

They stand on a listener of their own: the admin API has no such path, and this one has no other.
"""

import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.control.api.internal_tls import CERTIFICATE
from hostler.control.api.problems import problem
from hostler.control.credentials.service import Mints
from hostler.control.kernel.commands import Actor
from hostler.control.rpc.identity import Identities
from hostler.wire.mint import MAX_REQUEST_BYTES

_log = get_logger("hostler.control.api.internal")
_TASK = "/internal/v1/nodes/{node_id}/tasks/{task_id}"
# path → the one credential type that is issued there, "" for any
PATHS = {f"{_TASK}/registry-credential": "oci_pull", f"{_TASK}/credentials/mint": ""}


def make_app(identities: Identities, mints: Mints) -> Starlette:
    routes = [Route(path, _endpoint(identities, mints, type_), methods=["POST"]) for path, type_ in PATHS.items()]

    async def unrouted(_: Request, __: Exception) -> Response:
        return problem(error("not_found", "there is no such path here"), "")

    app = Starlette(routes=routes, exception_handlers={HTTPException: unrouted})
    app.router.redirect_slashes = False
    return app


def _endpoint(identities: Identities, mints: Mints, credential_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        node_id, task_id = request.path_params["node_id"], request.path_params["task_id"]
        try:
            name = await _caller(request, identities, mints, node_id, task_id)
            body = await _body(request)
            minted = await mints.mint(name, body, task_id=task_id, credential_type=credential_type)
        except HostlerError as err:
            return problem(err, "")
        except Exception:  # noqa: BLE001 - the edge of a request: logged, answered, not spread
            _log.exception("mint.failed", node_id=node_id)
            return problem(error("internal_error", "the request failed by a fault of ours"), "")
        return Response(minted, media_type="application/json", headers={"cache-control": "no-store"})

    return answer


async def _caller(request: Request, identities: Identities, mints: Mints, node_id: str, task_id: str) -> str:
    """The node of the certificate, which must be the one in the path."""
    certificate: Any = request.scope.get("extensions", {}).get(CERTIFICATE, {}).get("der")
    name = "unknown"
    try:
        if not certificate:
            raise error("certificate_invalid", "the request came without a client certificate")
        pem = ssl.DER_cert_to_PEM_cert(certificate).encode()
        name = (await identities.of_pem(pem)).name
        if name != node_id:
            raise error("mint_not_bound", "the path names another node than the certificate")
    except HostlerError as err:
        await mints.denied_at_edge(Actor(kind="node", name=name), err, task_id)
        raise
    return name


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_REQUEST_BYTES:
            break  # refused, and counted, as too long
    return bytes(body)
