"""A real HTTPS server for blobs, with ranges, entity tags and faults that can be programmed.

    with BlobServer(certs) as server:
        server.blobs["/model.bin"] = Blob(data)
        server.faults += [cut(4000), content_range("bytes 5")]     # one for each request, in order
        ... server.url("/model.bin") ...
        server.requests                                            # what was asked

Run as a program it serves one file, for measurements: `blob_server.py FILE CERTIFICATE KEY`.
"""

import gzip
import re
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from support.certs import ServerCerts


@dataclass(frozen=True)
class Blob:
    data: bytes
    etag: str = '"v1"'
    last_modified: str = "Fri, 20 Nov 2026 08:00:00 GMT"


@dataclass(frozen=True)
class Asked:
    """A request as it came. `offset` is that of an open range, else 0."""

    path: str
    headers: dict[str, str]

    @property
    def offset(self) -> int:
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        return int(match[1]) if match else 0


@dataclass(frozen=True)
class Reply:
    """`headers` with an empty value are left out. `cut_after` ends the connection without a farewell."""

    status: int
    headers: dict[str, str]
    body: bytes | memoryview | Iterable[bytes] = b""
    cut_after: int | None = None


Fault = Callable[[Reply, Asked, Blob], Reply]


@dataclass
class BlobServer:
    certs: ServerCerts
    blobs: dict[str, Blob] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    always: Fault | None = None
    honours_if_range: bool = True
    requests: list[Asked] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certs.certificate, self.certs.key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in list(self._open):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(5)

    def url(self, path: str) -> str:
        return f"https://localhost:{self.port}{path}"

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        brake = sock.dup()
        self._open.add(brake)
        tls: ssl.SSLSocket | None = None
        try:
            tls = self._context.wrap_socket(sock, server_side=True)
            asked = _read_request(tls)
            if asked is not None:
                self.requests.append(asked)
                self._answer(tls, brake, self._reply(asked))
        except OSError:
            return
        finally:
            self._open.discard(brake)
            with suppress(OSError):
                (tls or sock).close()
            brake.close()

    def _reply(self, asked: Asked) -> Reply:
        blob = self.blobs.get(asked.path.partition("?")[0], Blob(b"", etag=""))
        honest = self._honest(asked, blob)
        if self.faults:
            return self.faults.pop(0)(honest, asked, blob)
        return self.always(honest, asked, blob) if self.always is not None else honest

    def _honest(self, asked: Asked, blob: Blob) -> Reply:
        if asked.path.partition("?")[0] not in self.blobs:
            return Reply(404, {"Content-Length": "0"})
        size, offset = len(blob.data), asked.offset
        if self.honours_if_range and asked.headers.get("if-range", "") not in (
            "",
            blob.etag,
            blob.last_modified,
        ):
            offset = 0
        headers = {"ETag": blob.etag, "Last-Modified": blob.last_modified, "Accept-Ranges": "bytes"}
        if offset >= size > 0:
            return Reply(416, headers | {"Content-Range": f"bytes */{size}", "Content-Length": "0"})
        body = memoryview(blob.data)[offset:]
        headers["Content-Length"] = str(len(body))
        if offset:
            headers["Content-Range"] = f"bytes {offset}-{size - 1}/{size}"
        return Reply(206 if offset else 200, headers, body)

    def _answer(self, tls: ssl.SSLSocket, brake: socket.socket, reply: Reply) -> None:
        lines = [f"HTTP/1.1 {reply.status} status", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items() if value]
        tls.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        pieces = [reply.body] if isinstance(reply.body, bytes | memoryview) else reply.body
        left = reply.cut_after
        for piece in pieces:
            if self._stopping.is_set():
                return
            taken = memoryview(piece) if left is None else memoryview(piece)[:left]
            tls.sendall(taken)
            if left is not None:
                left -= len(taken)
                if left == 0:
                    break
        if reply.cut_after is None:
            with suppress(OSError):
                tls.unwrap()
        else:
            brake.shutdown(socket.SHUT_RDWR)


def _read_request(tls: ssl.SSLSocket) -> Asked | None:
    head = b""
    while b"\r\n\r\n" not in head:
        data = tls.recv(4096)
        if not data or len(head) > 65536:
            return None
        head += data
    first, *rest = head.decode("latin-1").split("\r\n\r\n")[0].split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    return Asked(first.split(" ")[1], headers)


# -- faults: each takes the honest reply and spoils it ------------------------------------------


def honest(reply: Reply, asked: Asked, blob: Blob) -> Reply:
    return reply


def cut(after: int) -> Fault:
    return lambda reply, asked, blob: replace(reply, cut_after=after)


def header(name: str, value: str, then: Fault = honest) -> Fault:
    def spoil(reply: Reply, asked: Asked, blob: Blob) -> Reply:
        reply = then(reply, asked, blob)
        return replace(reply, headers=reply.headers | {name: value})

    return spoil


def content_range(value: str) -> Fault:
    return header("Content-Range", value)


def shifted(by: int) -> Fault:
    """A part that starts elsewhere, and says so."""

    def spoil(reply: Reply, asked: Asked, blob: Blob) -> Reply:
        size, offset = len(blob.data), asked.offset + by
        headers = reply.headers | {
            "Content-Range": f"bytes {offset}-{size - 1}/{size}",
            "Content-Length": str(size - offset),
        }
        return replace(reply, headers=headers, body=blob.data[offset:])

    return spoil


def whole_for_part(reply: Reply, asked: Asked, blob: Blob) -> Reply:
    headers = reply.headers | {"Content-Range": "", "Content-Length": str(len(blob.data))}
    return Reply(200, headers, blob.data)


def other_bytes(data: bytes) -> Fault:
    """Another object under the same validators."""

    def spoil(reply: Reply, asked: Asked, blob: Blob) -> Reply:
        return replace(reply, body=data[asked.offset :] if reply.status == 206 else data)

    return spoil


def gzipped(reply: Reply, asked: Asked, blob: Blob) -> Reply:
    body = gzip.compress(bytes(reply.body))  # type: ignore[arg-type]
    return replace(
        reply,
        headers=reply.headers | {"Content-Encoding": "gzip", "Content-Length": str(len(body))},
        body=body,
    )


def _for_ever(piece: bytes, pause_s: float) -> Iterator[bytes]:
    while True:
        yield piece
        time.sleep(pause_s)


def endless(reply: Reply, asked: Asked, blob: Blob) -> Reply:
    return replace(reply, headers=reply.headers | {"Content-Length": ""}, body=_for_ever(b"x" * 65536, 0))


def drip(bytes_at_once: int, pause_s: float) -> Fault:
    return lambda reply, asked, blob: replace(reply, body=_for_ever(b"x" * bytes_at_once, pause_s))


def slowly(bytes_at_once: int, pause_s: float) -> Fault:
    """The right body, with a pause between its pieces."""

    def pieces(body: memoryview) -> Iterator[bytes]:
        for start in range(0, len(body), bytes_at_once):
            yield bytes(body[start : start + bytes_at_once])
            time.sleep(pause_s)

    return lambda reply, asked, blob: replace(reply, body=pieces(memoryview(bytes(reply.body))))  # type: ignore[arg-type]


def silent(reply: Reply, asked: Asked, blob: Blob) -> Reply:
    """Sends a little, then nothing, and keeps the connection."""

    def body() -> Iterator[bytes]:
        yield bytes(reply.body)[:1000]  # type: ignore[arg-type]
        for _ in range(600):
            time.sleep(0.1)
            yield b""

    return replace(reply, body=body())


def chunked(reply: Reply, asked: Asked, blob: Blob) -> Reply:
    data = bytes(reply.body)  # type: ignore[arg-type]
    pieces = [data[i : i + 1000] for i in range(0, len(data), 1000)]
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    headers = reply.headers | {"Content-Length": "", "Transfer-Encoding": "chunked"}
    return replace(reply, headers=headers, body=body)


def redirect(location: str, status: int = 302) -> Fault:
    return lambda reply, asked, blob: Reply(status, {"Location": location, "Content-Length": "0"})


def status(code: int, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda reply, asked, blob: Reply(code, {"Content-Length": "0"} | named)


def main() -> None:
    file, certificate, key = (Path(name) for name in sys.argv[1:4])
    with BlobServer(ServerCerts(certificate, certificate, key)) as server:
        server.blobs["/blob"] = Blob(file.read_bytes())
        print(server.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
