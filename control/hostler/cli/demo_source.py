"""The demo's artifact source: a real HTTPS server with ranges that breaks every whole transfer half-way.

`python -m hostler.cli.demo_source DIRECTORY SIZE` writes a file of SIZE pseudo-random bytes into DIRECTORY,
serves it on a free loopback port with DIRECTORY/server.{pem,key}, and prints one JSON line about it.
"""

import hashlib
import json
import random
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BLOCK = 1 << 20
NAME = "model.safetensors"


def write_model(path: Path, size: int) -> str:
    """A file of `size` bytes that does not compress; returns its SHA-256."""
    rng, digest = random.Random(7), hashlib.sha256()
    with path.open("wb") as file:
        for start in range(0, size, BLOCK):
            block = rng.randbytes(min(BLOCK, size - start))
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


class Breaking(BaseHTTPRequestHandler):
    """Serves one file with single ranges; whoever starts at the first byte is cut off at half the file."""

    protocol_version = "HTTP/1.1"
    file: Path
    size: int
    etag: str

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != f"/{NAME}":
            self.send_error(404)
            return
        start = self._start()
        self.send_response(206 if start else 200)
        self.send_header("content-length", str(self.size - start))
        self.send_header("etag", self.etag)
        self.send_header("accept-ranges", "bytes")
        if start:
            self.send_header("content-range", f"bytes {start}-{self.size - 1}/{self.size}")
        self.end_headers()
        self._send(start, self.size if start else self.size // 2)
        self.close_connection = start == 0

    def _start(self) -> int:
        wanted = self.headers.get("range", "")
        same = self.headers.get("if-range") in (None, self.etag)
        if not (wanted.startswith("bytes=") and wanted.endswith("-") and same):
            return 0
        offset = wanted.removeprefix("bytes=").removesuffix("-")
        return int(offset) if offset.isdigit() and int(offset) < self.size else 0

    def _send(self, start: int, end: int) -> None:
        with self.file.open("rb") as file:
            file.seek(start)
            while start < end:
                block = file.read(min(BLOCK, end - start))
                try:
                    self.wfile.write(block)
                except OSError:  # the client went away, which is what the demo is about
                    return
                start += len(block)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Silent: the demo shows its own progress."""


def main() -> None:
    directory, size = Path(sys.argv[1]), int(sys.argv[2])
    digest = write_model(directory / NAME, size)
    Breaking.file, Breaking.size, Breaking.etag = directory / NAME, size, f'"{digest}"'
    server = ThreadingHTTPServer(("127.0.0.1", 0), Breaking)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem", directory / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    url = f"https://127.0.0.1:{server.server_address[1]}/{NAME}"
    print(json.dumps({"url": url, "sha256": digest, "size_bytes": size}), flush=True)  # noqa: T201
    server.serve_forever()


if __name__ == "__main__":
    main()
