"""`/metrics` and `/health` of this node on a Unix socket, for whoever watches it here (OB-04). Off unless configured.

Nothing listens on the network, nothing can be asked for but these two, and no series has a label: what a node or a
task calls itself never gets into a metric's name.
"""

import asyncio
import os
import socket
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hostler.base.errors import error

MAX_REQUEST = 4096
TIMEOUT_S = 5.0
MOST_CLIENTS = 8

# name, help, how it is read from the status
GAUGES: tuple[tuple[str, str, Callable[[Mapping[str, Any]], float]], ...] = (
    ("connected", "1 while the session is open", lambda s: s["session"] == "connected"),
    ("held", "1 while the node takes no task until somebody has looked", lambda s: bool(s["hold"])),
    ("drifted", "1 while something differs from what it should be", lambda s: bool(s["drift"])),
    ("storage_healthy", "1 while the journal can be trusted and written", lambda s: s["storage"] == "ok"),
    ("running_tasks", "Tasks that run now", lambda s: s["running_tasks"]),
    ("hung_calls", "Calls that hang in the kernel", lambda s: s["hung"]),
    ("outbox_rows", "Reports that the control plane has not taken yet", lambda s: s["outbox_rows"]),
    ("relays", "Sessions in tasks that are open", lambda s: s["relays"]),
    (
        "log_waiting_bytes",
        "What workloads wrote and the control plane has not taken yet",
        lambda s: s["log_waiting_bytes"],
    ),
    ("catalog_version", "Of the signed catalog in use", lambda s: s["catalog_version"]),
    ("keyset_version", "Of the keyset in use", lambda s: s["keyset_version"]),
    ("certificate_expires_seconds", "Unix time", lambda s: s["certificate_expires_ms"] / 1000),
)


def metrics_text(status: Mapping[str, Any]) -> bytes:
    """Prometheus' text format."""
    lines = []
    for name, said, read in GAUGES:
        full = f"hostler_agent_{name}"
        lines += [f"# HELP {full} {said}", f"# TYPE {full} gauge", f"{full} {float(read(status)):g}"]
    return ("\n".join(lines) + "\n").encode()


def is_well(status: Mapping[str, Any]) -> bool:
    return status["session"] == "connected" and not status["hold"] and status["storage"] == "ok"


def answer(target: str, status: Mapping[str, Any]) -> tuple[int, str, bytes]:
    """Status, content type and body of what is asked for."""
    if target == "/metrics":
        return 200, "text/plain; version=0.0.4; charset=utf-8", metrics_text(status)
    if target == "/health":
        well = is_well(status)
        return (200 if well else 503), "application/json", msgspec.json.encode({"status": "ok" if well else "not_well"})
    return 404, "text/plain", b"there are /metrics and /health\n"


class Observer:
    """`run` serves until it is cancelled. `status` is asked anew for each request."""

    def __init__(self, path: Path, status: Callable[[], Mapping[str, Any]]) -> None:
        self._path, self._status = path, status
        self._room = asyncio.Semaphore(MOST_CLIENTS)

    async def run(self) -> None:
        """Raises `invalid_config` when the socket cannot be made."""
        server = await asyncio.start_unix_server(self._serve, sock=self._listen(), limit=MAX_REQUEST)
        try:
            async with server:
                await server.serve_forever()
        finally:
            self._path.unlink(missing_ok=True)

    def _listen(self) -> socket.socket:
        """For the owner and its group. What lies there is replaced only if it is a socket."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o117)
        try:
            if self._path.exists() and stat.S_ISSOCK(self._path.lstat().st_mode):
                self._path.unlink()
            sock.bind(str(self._path))
        except OSError as err:
            sock.close()
            raise error("invalid_config", f"observe_socket {self._path} cannot be made: {err.strerror}") from err
        finally:
            os.umask(before)
        return sock

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._room, asyncio.timeout(TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                method, target, *_ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
                code, kind, body = answer(target, self._status()) if method == "GET" else (405, "text/plain", b"")
                start = f"HTTP/1.1 {code} -\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close"
                writer.write(f"{start}\r\n\r\n".encode() + body)
                await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that says nothing, too much or nonsense gets no answer
        finally:
            writer.close()
