"""Serves objects to other tasks: HTTP/1.1 on a port of this task, each call signed (see `signing`).

    POST /v1/actors/{name}/{method}    {"args": […], "kwargs": {…}}  →  {"result": …} or {"error": {"type", "message"}}

Nothing is read of a call before its head is proved; nothing is unpickled that the namespace's key did not sign.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import re
import socket
import threading
import traceback
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hostler.sdk import payload, signing
from hostler.sdk.errors import NoController, SdkError
from hostler.sdk.info import job_info

EVERYWHERE = "0.0.0.0"  # noqa: S104 - each call is signed; other nodes have to reach it
MAX_BODY = 64 << 20
QUIET_S = 30.0  # for each read of a call
HEAD_S = 10.0  # until its head is proved: strangers hold no thread for longer
MOST_CALLS = 64
_PATH = re.compile(r"/v1/actors/([A-Za-z0-9][A-Za-z0-9._-]{0,127})/([A-Za-z][A-Za-z0-9_]{0,127})", re.ASCII)


class ActorServer:
    """Registers objects by name and serves their public methods.

    Args:
        pickle: also take pickles, from tasks of the own namespace.
        keys: by default those that the task API hands out; without either nothing is served.
    """

    def __init__(
        self, host: str = EVERYWHERE, port: int = 0, *, pickle: bool = False, keys: signing.Keys | None = None
    ) -> None:
        self.pickle = pickle
        self.keys = keys or _own_keys()
        info = job_info()
        self.audience = info.attempt_uid if info else ""
        self.seen = signing.Seen()
        self._actors: dict[str, Any] = {}
        self._http = _Http((host, port), self)
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    def register(self, name: str, instance: Any) -> None:
        self._actors[name] = instance

    def method(self, actor: str, name: str) -> Any:
        """None for what there is not, and for what is private."""
        found = getattr(self._actors.get(actor), name, None) if actor in self._actors else None
        return found if callable(found) and not name.startswith("_") else None

    def serve(self) -> None:
        """Until `close`."""
        self._http.serve_forever(poll_interval=0.1)

    def serve_background(self) -> int:
        """→ the port. Handlers see the job that is around this call (TE-06): a thread begins without its context."""
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self.serve,), name="hostler-actors", daemon=True)
        self._thread.start()
        return self.port

    def close(self) -> None:
        if self._thread is not None:
            self._http.shutdown()
        self._http.server_close()

    def __enter__(self) -> ActorServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], actors: ActorServer) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)
        self.actors = actors
        self._room = threading.BoundedSemaphore(MOST_CALLS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Each call in a thread of its own, in a copy of the serving thread's context."""
        if not self._room.acquire(timeout=QUIET_S):
            self.shutdown_request(request)
            return
        context = contextvars.copy_context()
        arguments = (self._one, request, client_address)
        threading.Thread(target=context.run, args=arguments, daemon=True).start()

    def _one(self, request: Any, client_address: Any) -> None:
        try:
            self.process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hangs up is no event."""


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    timeout = QUIET_S
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "hostler-actor", ""

    def setup(self) -> None:
        super().setup()
        self._cut = threading.Timer(HEAD_S, _shut, (self.connection,))
        self._cut.daemon = True
        self._cut.start()

    def finish(self) -> None:
        self._cut.cancel()
        super().finish()

    def do_POST(self) -> None:
        self.close_connection = True
        actors = self.server.actors
        found = _PATH.fullmatch(self.path)
        head = _head_of(self.headers, found.groups() if found else ("", ""))
        key = actors.keys.of(head.key)
        if not key or not signing.same(head.signed(key), self.headers.get("x-hostler-signature", "")):
            return self._refuse(403, "the call is not signed by a task of the project")
        self._cut.cancel()
        if head.audience != actors.audience or not actors.seen.is_fresh(head.nonce, head.time):
            return self._refuse(403, "the call was made for another try at a task, long ago, or before")
        if head.media_type == payload.PICKLE and not (actors.pickle and head.key == signing.NAMESPACE):
            return self._refuse(415, "this actor takes no pickles from there")
        if head.media_type not in (payload.JSON, payload.PICKLE):
            return self._refuse(415, "a call is JSON, or a pickle")
        method = actors.method(head.actor, head.method)
        if method is None:
            return self._refuse(404, f"there is no {head.actor}.{head.method} here")
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()) or int(length) > MAX_BODY:
            return self._refuse(413, f"a call has a length, of {MAX_BODY} bytes at most")
        body = self.rfile.read(int(length))
        if signing.sha256(body) != head.body_sha256:
            return self._refuse(403, "the body is not the one that was signed")
        status, data = _run(method, body, head.media_type)
        return self._say(
            status, data, head.media_type, signing.answer_signature(key, head.nonce, status, head.media_type, data)
        )

    def _refuse(self, status: int, message: str) -> None:
        self._say(status, json.dumps({"refused": message}).encode(), payload.JSON, "")

    def _say(self, status: int, body: bytes, media_type: str, signature: str) -> None:
        self.send_response(status)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(body)))
        self.send_header("connection", "close")
        if signature:
            self.send_header("x-hostler-signature", signature)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Not to the task's own output."""


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended meanwhile
        connection.shutdown(socket.SHUT_RDWR)


def _head_of(headers: Message, names: tuple[str, ...]) -> signing.CallHead:
    return signing.CallHead(
        audience=headers.get("x-hostler-audience", ""),
        actor=names[0],
        method=names[1],
        media_type=headers.get("content-type", ""),
        key=headers.get("x-hostler-key", ""),
        nonce=headers.get("x-hostler-nonce", "")[:64],
        time=headers.get("x-hostler-time", "")[:32],
        body_sha256=headers.get("x-hostler-sha256", ""),
    )


def _run(method: Any, body: bytes, media_type: str) -> tuple[int, bytes]:
    """Whatever the method raises is the caller's to know."""
    try:
        said = payload.load(body, media_type)
        return 200, payload.dump({"result": method(*said["args"], **said["kwargs"])}, media_type)
    except Exception as err:  # noqa: BLE001 - the edge of a call
        traceback.print_exc()
        told = {"type": type(err).__name__, "message": str(err)[:4000]}
        return 500, payload.dump({"error": told}, media_type)


def _own_keys() -> signing.Keys:
    from hostler.sdk.context import context

    try:
        return context().keys()
    except NoController as err:
        raise SdkError("an actor needs keys: give them, or run where there is a task API") from err
