"""A small HTTPS server in a thread, for issuers that cannot run here: it answers by a function and keeps what came."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import msgspec

from support.certs import ServerCerts


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[Asked], tuple[int, Any]]


@dataclass
class TlsServer:
    """`answer` may be replaced at any time; an answer is a status and JSON, or bytes."""

    url: str
    answer: Answer
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def tls_server(certs: ServerCerts, answer: Answer) -> Iterator[TlsServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, body)
            made.asked.append(asked)
            status, content = made.answer(asked)
            data = content if isinstance(content, bytes) else msgspec.json.encode(content)
            self.send_response(status)
            if status in (301, 302, 307):
                self.send_header("location", "https://127.0.0.1:1/")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs.certificate, certs.key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    made = TlsServer(f"https://127.0.0.1:{server.server_address[1]}", answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
