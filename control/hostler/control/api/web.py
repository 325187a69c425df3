"""The pages at `/` and `/admin/nodes`: static, no build step, strict content policy; they use everybody's API."""

from collections.abc import Awaitable, Callable
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FILES = {
    "/": ("index.html", "text/html"),
    "/admin/nodes": ("nodes.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/nodes.js": ("nodes.js", "text/javascript"),
    "/detail.js": ("detail.js", "text/javascript"),
    "/rollouts.js": ("rollouts.js", "text/javascript"),
    "/common.js": ("common.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def web_routes() -> list[Route]:
    """The pages' files; they hold no data, so they need no token."""
    return [Route(path, _serve(name, media)) for path, (name, media) in FILES.items()]


def _serve(name: str, media: str) -> Callable[[Request], Awaitable[Response]]:
    content = (files("hostler.control") / "web" / name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, media_type=media, headers=_HEADERS)

    return answer
