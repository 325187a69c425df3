"""One HTTP exchange with a task: a request down a line, and what comes back, both as they flow (TE-22).

What the client sends for us stays here, and what a task says can be about itself only: the names of headers that
speak of this origin, of the connection, or of who asks are taken out.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import h11
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.control.api.call import Call
from hostler.control.api.lines import Line, Lines
from hostler.wire.race import first_of

_log = get_logger("hostler.control.api.exchange")
Headers = list[tuple[bytes, bytes]]
MAX_REQUEST = 1 << 30
ANSWER_S = 60.0  # in which something must move until the answer begins
WATCH_S = 1.0
_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding"
    b" upgrade http2-settings".split()
)
# Ours and nobody's behind us: who asks, and what only whoever stands in front may say.
_OURS = frozenset(b"authorization cookie expect forwarded host via x-real-ip".split())
# What would be about this origin, which is not the task's.
_ORIGIN = frozenset(
    b"alt-svc clear-site-data public-key-pins service-worker-allowed set-cookie strict-transport-security".split()
)


class Exchange:
    """Attributes:
    prefix: the path of the proxy itself, to which the task's own paths are joined.
    target: what is asked of the task: path and query as the client wrote them.
    """

    def __init__(self, call: Call, line: Line, address: str, prefix: str, target: bytes) -> None:
        self._call, self._request, self._line = call, call.request, line
        self._address, self._prefix, self._target = address, prefix, target
        self._asked = False  # the whole request is on its way
        self._body_bytes = 0
        self.answer: h11.Response | None = None

    async def begin(self) -> None:
        """Until the answer begins.

        Raises:
            HostlerError: `endpoint_unreachable`, `endpoint_silent`, `invalid_request`, `too_large`, `revoked`.
            ClientDisconnect: nobody waits for an answer any more.
        """
        try:
            headers = request_headers(self._request, self._address, self._prefix)
            asked = h11.Request(method=self._request.method, target=self._target, headers=headers)
            self._put(asked)
        except h11.LocalProtocolError as err:
            raise error("invalid_request", f"that cannot be said in HTTP/1.1: {err}") from err
        await first_of(self._head(), self.pump(), self._watch(ANSWER_S))

    async def pump(self) -> None:
        """The request's body, as the task takes it; then watches whether the client is there. May be begun again."""
        while True:
            await self._line.flush()
            message = await self._request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            if self._asked:
                continue
            data = message.get("body", b"")
            self._body_bytes += len(data)
            if self._body_bytes > MAX_REQUEST:
                raise error("too_large", f"the body is larger than {MAX_REQUEST} bytes")
            try:
                if data:
                    self._put(h11.Data(data=data))
                if not message.get("more_body", False):
                    self._put(h11.EndOfMessage())
                    self._asked = True
            except h11.LocalProtocolError as err:
                raise error("invalid_request", f"the body is not what its headers say: {err}") from err

    async def body(self, send: Any) -> None:
        """The answer's, as the client takes it; all of it when this returns. Raises `endpoint_unreachable`."""
        while not isinstance(event := await self._event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                await send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})

    async def rest(self, send: Any) -> None:
        """Everything behind the answer's head."""
        await first_of(self.body(send), self.pump(), self._watch(self._call.parts.lines.quiet_s))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    @property
    def can_go_on(self) -> bool:
        """Whether the line is fit for another exchange."""
        http = self._line.http
        return self._asked and http.our_state is h11.DONE and http.their_state is h11.DONE

    def headers(self) -> Headers:
        assert self.answer is not None
        return answer_headers(self.answer.headers, self._address, self._prefix)

    def _put(self, event: Any) -> None:
        self._line.put(self._line.http.send(event) or b"")

    async def _head(self) -> None:
        while self.answer is None:
            event = await self._event()
            if isinstance(event, h11.Response):
                self.answer = event

    async def _event(self) -> Any:
        http = self._line.http
        try:
            while (event := http.next_event()) is h11.NEED_DATA:
                http.receive_data(await self._line.receive())
        except h11.RemoteProtocolError as err:
            raise error("endpoint_unreachable", f"the task broke off or does not speak HTTP/1.1: {err}") from err
        if isinstance(event, h11.ConnectionClosed):
            raise error("endpoint_unreachable", "the task closed the connection without an answer")
        return event

    async def _watch(self, quiet_s: float) -> None:
        """Every second: whether the principal may still do this, and whether anything moves."""
        loop = asyncio.get_running_loop()
        moved, moved_at = self._line.moved, loop.time()
        while True:
            await asyncio.sleep(min(WATCH_S, quiet_s))
            if not await self._call.is_still_welcome():
                raise error("revoked", "the principal may not do this any more")
            if self._line.moved != moved:
                moved, moved_at = self._line.moved, loop.time()
            elif loop.time() - moved_at >= quiet_s:
                raise error("endpoint_silent", f"nothing moved for {quiet_s:.0f} s")


class Proxied(Response):
    """The task's answer, whose head is there. A line that is in the midst of something is closed, never used again."""

    def __init__(self, exchange: Exchange, line: Line, lines: Lines) -> None:
        assert exchange.answer is not None
        self.status_code = exchange.answer.status_code
        self._exchange, self._line, self._lines = exchange, line, lines

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """An answer that breaks off is not ended, so that the client sees that it is not whole."""
        try:
            headers = self._exchange.headers()
            await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
            await self._exchange.rest(send)
            if self._exchange.can_go_on:
                self._lines.give_back(self._line)
                return
        except HostlerError as err:
            _log.info("proxy.cut", error_code=err.code, reason=err.message)
        except (ClientDisconnect, OSError):
            _log.info("proxy.client_gone")
        except BaseException:
            self._lines.close(self._line)
            raise
        self._lines.close(self._line)


def request_headers(request: Request, address: str, prefix: str) -> Headers:
    """As the task gets them: where the request came from is said by us alone."""
    kept = _kept(request.headers.raw, _HOP | _OURS)
    kept = [(name, value) for name, value in kept if not name.startswith(b"x-forwarded-")]
    if "transfer-encoding" in request.headers:
        kept = [(name, value) for name, value in kept if name != b"content-length"]
        kept.append((b"transfer-encoding", b"chunked"))
    client = request.client.host if request.client else "unknown"
    node = f'"[{client}]"' if ":" in client else client
    host = request.headers.get("host", "")
    said = {
        "host": address,
        "via": "1.1 hostler",
        "forwarded": f'for={node};host="{host}";proto={request.url.scheme}',
        "x-forwarded-for": client,
        "x-forwarded-host": host,
        "x-forwarded-proto": request.url.scheme,
        "x-forwarded-prefix": prefix,
    }
    return [*((name.encode(), value.encode("latin-1")) for name, value in said.items()), *kept]


def answer_headers(headers: Iterable[tuple[bytes, bytes]], address: str, prefix: str) -> Headers:
    """As the client gets them. What a task serves runs nowhere as if it were ours: a browser gives it no origin."""
    kept = [
        (name, _moved(value, address, prefix) if name == b"location" else value)
        for name, value in _kept(headers, _HOP | _ORIGIN)
        if not name.startswith(b"access-control-")
    ]
    ours = {b"via": b"1.1 hostler", b"content-security-policy": b"sandbox", b"x-content-type-options": b"nosniff"}
    return [*kept, *ours.items()]


def _kept(headers: Iterable[tuple[bytes, bytes]], without: frozenset[bytes]) -> Headers:
    """Without those, and without what the sender's own `Connection` names."""
    lowered = [(name.lower(), value) for name, value in headers]
    named = {part.strip().lower() for name, value in lowered if name == b"connection" for part in value.split(b",")}
    return [(name, value) for name, value in lowered if name not in without and name not in named]


def _moved(location: bytes, address: str, prefix: str) -> bytes:
    """A redirect to the task itself goes through the proxy too."""
    location = location.removeprefix(f"http://{address}".encode())
    return prefix.encode() + location if location.startswith(b"/") and not location.startswith(b"//") else location
