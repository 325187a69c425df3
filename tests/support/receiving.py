"""A receiver of webhooks: verifies each signature as its owner would, and remembers what it took, in order."""

import base64
import hashlib
import hmac
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from support.certs import ServerCerts, make_server_certs
from support.tls_server import Asked, TlsServer, tls_server

NAME = "hooks.test"


class Receiver:
    """`status` says what an event is answered with; whatever is not 200 is not taken."""

    def __init__(self, certs: ServerCerts) -> None:
        self.certs = certs
        self.server: TlsServer
        self.secret = b""
        self.taken: list[dict[str, Any]] = []
        self.asked: list[tuple[int, str]] = []
        self.status: Callable[[dict[str, Any]], int] = lambda event: 200
        self._lock = threading.Lock()

    def answer(self, asked: Asked) -> tuple[int, Any]:
        body = msgspec.json.decode(asked.body)
        event: dict[str, Any] = body["data"]
        if self.secret:
            assert self.is_signed(asked), "a delivery without a good signature"
        assert body["type"] == event["type"]
        status = self.status(event)
        with self._lock:
            self.asked.append((event["id"], asked.headers["webhook-id"]))
            if status == 200:
                self.taken.append(event)
        return status, {}

    def knows(self, secret: str) -> None:
        self.secret = base64.b64decode(secret.removeprefix("whsec_"))

    def is_signed(self, asked: Asked) -> bool:
        """Written from the specification, apart from the code that signs."""
        text = f"{asked.headers['webhook-id']}.{asked.headers['webhook-timestamp']}.".encode() + asked.body
        expected = base64.b64encode(hmac.new(self.secret, text, hashlib.sha256).digest()).decode()
        return asked.headers["webhook-signature"] == f"v1,{expected}"

    def ids(self) -> list[int]:
        """Of what was taken, each once, in the order of its first arrival."""
        with self._lock:
            return list(dict.fromkeys(event["id"] for event in self.taken))

    @property
    def port(self) -> int:
        return int(self.server.url.rpartition(":")[2])


@contextmanager
def receiver(directory: Path, names: tuple[str, ...] = (NAME, "localhost", "127.0.0.1")) -> Iterator[Receiver]:
    certs = make_server_certs(directory, names)
    made = Receiver(certs)
    with tls_server(certs, made.answer) as server:
        made.server = server
        yield made
