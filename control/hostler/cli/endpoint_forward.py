"""A port of this machine that leads to a task's HTTP endpoint, through the control plane (TE-22).

    browser ──▶ 127.0.0.1:PORT ──HTTP, with our token──▶ control plane ──relay──▶ the task

Whoever reaches that port asks in the caller's name. So it is open on loopback alone, and a browser gets through only
from a page of that very port: no other site's page, and no name that was made to lead here.
"""

import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hostler.base.errors import HostlerError, error
from hostler.cli.client import Client, quoted

ADDRESS = "127.0.0.1"
AT_ONCE = 8  # connections that the control plane keeps for one principal
WAIT_S, QUIET_S = 30.0, 75.0
CHUNK, MAX_TARGET = 65_536, 32_768
_HOP = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
     "transfer-encoding", "upgrade")
)  # fmt: skip
_OURS = frozenset(("authorization", "host", "content-length", "expect"))
_SANDBOX = ("content-security-policy", "sandbox")  # for the control plane's own origin, which this is not
_STATUS = {"rate_limited": 503, "upgrade_unsupported": 501, "too_large": 413, "endpoint_silent": 504}
_MOVED = ("not_found", "endpoint_unreachable")
_TARGET = re.compile(r"/[\x21-\x7e]*", re.ASCII)
_DOTS = re.compile(r"/(?:\.|%2e){1,2}(?:[/?]|\Z)", re.ASCII | re.IGNORECASE)
Find = Callable[[], dict[str, Any]]


class Forward(ThreadingHTTPServer):
    """Attributes:
    find: the endpoint to ask, asked for again when the one that was known has gone.
    said: what went wrong, for the person in front.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, client: Client, base: str, find: Find, port: int, said: Callable[[str], None]) -> None:
        """Raises `invalid_request` for a port that cannot be had."""
        self.client, self._base, self._find, self.said = client, base, find, said
        self.requests = self.open = self.moved = 0
        self.room = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._known: dict[str, Any] | None = find()
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as err:
            why = getattr(err, "strerror", "") or str(err)
            hint = "choose another one, or 0 for any that is free"
            raise error("invalid_request", f"port {port} of this machine cannot be had: {why}", hint=hint) from err
        self.hosts = frozenset(f"{name}:{self.server_port}" for name in (ADDRESS, "localhost"))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no event."""

    def prefix(self) -> str:
        """Of the endpoint's paths at the control plane. Raises what `find` raises."""
        with self._lock:
            if self._known is None:
                self._known = self._find()
            known = self._known
        return f"{self._base}/{quoted(known['task_id'])}/{quoted(known['endpoint_id'])}/proxy"

    def forget(self) -> None:
        with self._lock:
            self._known = None

    def count(self, *, requests: int = 0, open_: int = 0, moved: int = 0) -> None:
        with self._lock:
            self.requests += requests
            self.open += open_
            self.moved += moved


class _Refused(Exception):
    """What a client of the port did that it may not."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: Forward
    protocol_version = "HTTP/1.1"
    timeout = QUIET_S
    server_version, sys_version = "hostler-forward", ""

    def _serve(self) -> None:
        self._begun = False
        self._unread = False  # of the body: the connection is of no use then
        self.server.count(requests=1, open_=1)
        try:
            self._check()
            self._through()
        except _Refused as err:
            self._unread = True
            self._say(err.status, str(err))
        except HostlerError as err:
            self.server.said(f"{self.command} {self.path[:200]}: {err.message} [{err.code}]")
            if self._begun:
                self.close_connection = True
            else:
                self._say(_STATUS.get(err.code, 502), f"{err.message} [{err.code}]")
        except OSError:
            self.close_connection = True  # the client has gone
        finally:
            self.server.count(open_=-1)
            self.close_connection = self.close_connection or self._unread

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the base class looks for them

    # -- the request ------------------------------------------------------------------------------

    def _check(self) -> None:
        host, origin = self.headers.get("host", ""), self.headers.get("origin")
        if host.lower() not in self.server.hosts:
            raise _Refused(403, f"this port answers to {' and '.join(sorted(self.server.hosts))} alone")
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            raise _Refused(403, "this port answers to no page of another origin")
        site, mode = self.headers.get("sec-fetch-site", "none"), self.headers.get("sec-fetch-mode", "")
        if site not in ("none", "same-origin") and not (mode == "navigate" and self.command in ("GET", "HEAD")):
            raise _Refused(403, "this port answers to no page of another site")
        if "upgrade" in self.headers:
            raise _Refused(501, "a request through this port stays HTTP/1.1")
        path = self.path.partition("?")[0]
        if not _TARGET.fullmatch(self.path) or _DOTS.search(path):
            raise _Refused(400, "a path is plain text and has no part that is . or ..")
        if len(self.path) > MAX_TARGET:
            raise _Refused(414, f"a path has {MAX_TARGET} letters at most")

    def _body(self) -> Iterator[bytes] | None:
        coding, length = self.headers.get("transfer-encoding"), self.headers.get("content-length")
        if coding is not None:
            if coding.strip().lower() != "chunked" or length is not None:
                raise _Refused(400, "a body has a length, or is chunked")
            self._unread = True
            return self._chunks()
        if length is None:
            return None
        if not (length.isascii() and length.isdigit() and len(length) < 16):
            raise _Refused(400, "a length is a number")
        self._unread = int(length) > 0
        return self._plain(int(length))

    def _plain(self, left: int) -> Iterator[bytes]:
        while left:
            data = self.rfile.read1(min(left, CHUNK))
            if not data:
                raise ConnectionError
            left -= len(data)
            self._unread = left > 0
            yield data

    def _chunks(self) -> Iterator[bytes]:
        while True:
            word = self.rfile.readline(1024).partition(b";")[0].strip()
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", word):
                raise ConnectionError
            left = int(word, 16)
            if not left:
                break
            while left:
                data = self.rfile.read1(min(left, CHUNK))
                if not data:
                    raise ConnectionError
                left -= len(data)
                yield data
            self.rfile.readline(1024)
        for _ in range(100):
            if self.rfile.readline(8192) in (b"\r\n", b"\n"):
                self._unread = False
                return
        raise ConnectionError

    def _headers(self) -> list[tuple[str, str]]:
        left_out = _HOP | _OURS | _named(self.headers.get_all("connection") or [])
        kept = [(name, value) for name, value in self.headers.items() if name.lower() not in left_out]
        if "accept-encoding" not in self.headers:
            kept.append(("accept-encoding", "identity"))  # else the HTTP client would ask for more
        if (length := self.headers.get("content-length")) is not None:
            kept.append(("content-length", length))
        return kept

    # -- the answer -------------------------------------------------------------------------------

    def _through(self) -> None:
        body, headers, server = self._body(), self._headers(), self.server
        if not server.room.acquire(timeout=WAIT_S):
            raise _Refused(503, f"{AT_ONCE} requests are under way already")
        try:
            for is_last in (body is not None or self.command not in ("GET", "HEAD"), True):
                prefix = server.prefix()
                path = self.path.removeprefix(prefix) if self.path.startswith(f"{prefix}/") else self.path
                try:
                    with server.client.through(self.command, prefix + path, headers, body) as answer:
                        self._pass_on(answer, prefix)
                    return
                except HostlerError as err:
                    if err.code in _MOVED and not self._begun:
                        server.forget()  # another try at the task may stand elsewhere
                    if is_last or self._begun or err.code not in _MOVED:
                        raise
        finally:
            server.room.release()

    def _pass_on(self, answer: Any, prefix: str) -> None:
        bare = self.command == "HEAD" or answer.status_code in (204, 304)
        chunked = not bare and "content-length" not in answer.headers and self.request_version == "HTTP/1.1"
        self._begun = True
        self.send_response_only(answer.status_code, answer.reason_phrase)
        for name, value in _answered(answer.headers.multi_items(), prefix):
            self.send_header(name, value)
        if chunked:
            self.send_header("transfer-encoding", "chunked")
        elif not bare and "content-length" not in answer.headers:
            self.close_connection = True
        if self.close_connection or self._unread:
            self.send_header("connection", "close")
        self.end_headers()
        for data in answer.iter_raw():
            self.server.count(moved=len(data))
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _say(self, status: int, message: str) -> None:
        body = f"{message}\n".encode()
        self.send_response_only(status)
        self.send_header("content-type", "text/plain; charset=utf-8")
        self.send_header("x-content-type-options", "nosniff")
        self.send_header("content-length", str(len(body)))
        if self._unread:
            self.send_header("connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """`said` has what matters."""


def _named(connection: list[str]) -> frozenset[str]:
    """What the sender's own `Connection` names goes with it."""
    return frozenset(part.strip().lower() for value in connection for part in value.split(","))


def _answered(headers: list[tuple[str, str]], prefix: str) -> list[tuple[str, str]]:
    """As the port's own: redirects lead to it, and what kept the task out of the control plane's origin is gone."""
    kept = [(name, value) for name, value in headers if name.lower() not in _HOP]
    if _SANDBOX in kept:
        last = len(kept) - 1 - kept[::-1].index(_SANDBOX)  # the control plane's stands behind the task's
        del kept[last]
    return [(name, value.removeprefix(prefix) if name == "location" else value) for name, value in kept]
