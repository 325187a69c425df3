"""One HTTPS request on one connection, which its owner can end from another thread.

No proxy, no cookies, no credentials, no reuse: a transfer is one long answer. The certificate is
always verified; there is no setting against it.
"""

import asyncio
import contextlib
import functools
import http.client
import ipaddress
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from hostler.agent.fetch.budget import Transient
from hostler.agent.fetch.ranges import Answer, Held
from hostler.agent.host.fetch_settings import FetchSettings
from hostler.base.errors import error

USER_AGENT = "hostler-agent"
RECEIVE_BUFFER = 1 << 20
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Target:
    """A parsed https URL. `shown` has no query and no userinfo: it is what errors and logs may say."""

    url: str
    host: str
    port: int
    path: str
    shown: str

    @property
    def origin(self) -> tuple[str, int]:
        """Who may be told what belongs to this target: nobody else gets its credential."""
        return self.host, self.port


def target_of(url: str) -> Target:
    """Raises `source_denied` for anything but a plain https URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError as err:
        raise error("source_denied", "the source is not a well-formed URL") from err
    plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    if parts.scheme != "https" or not host or not plain:
        raise error("source_denied", f"the source {parts.scheme[:20]}://{host[:200]} is not an https URL")
    if parts.username is not None or parts.password is not None:
        raise error("source_denied", f"the source at {host} carries credentials in its URL")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    where = host if port == 443 else f"{host}:{port}"
    return Target(url, host, port, path, f"https://{where}{parts.path}")


# Further headers of one request, which may hold a credential: made right before it, kept nowhere.
Headers = Callable[[Target], Mapping[str, str]]


def no_headers(_: Target) -> Mapping[str, str]:
    return NOTHING


def tls_context(settings: FetchSettings) -> ssl.SSLContext:
    """The system's authorities and the operator's own; read again, which takes 20 ms, when a file of theirs changes."""
    system = ssl.get_default_verify_paths()
    return _tls_context(settings.ca_file, tuple(map(_stamp, (system.cafile, system.capath, settings.ca_file))))


@functools.lru_cache(maxsize=1)
def _tls_context(ca_file: str, _stamps: tuple[tuple[int, ...], ...]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as err:  # ssl.SSLError is one
            raise error("invalid_config", f"fetch.ca_file {ca_file} cannot be read as PEM") from err
    return context


def _stamp(path: str | None) -> tuple[int, ...]:
    """Tells one content of a file from another; () for none."""
    try:
        said = Path(path).stat() if path else None
    except OSError:
        said = None
    return (said.st_dev, said.st_ino, said.st_size, said.st_mtime_ns, said.st_ctime_ns) if said else ()


async def dial(target: Target, settings: FetchSettings) -> socket.socket:
    """A connected TCP socket. Runs on the loop, so that cancelling it takes no time.

    Raises:
        Transient: nothing answers there now.
        HostlerError: `source_denied` when the name leads to an address the node keeps off.
    """
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    try:
        async with asyncio.timeout(settings.connect_timeout_seconds):
            found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
            for family, kind, protocol, _, address in found:
                if not settings.allow_private and not ipaddress.ip_address(address[0]).is_global:
                    raise error("source_denied", f"{target.host} leads to the private address {address[0]}")
                sock = socket.socket(family, kind, protocol)
                try:
                    sock.setblocking(False)
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    await loop.sock_connect(sock, address)
                except OSError as err:
                    sock.close()
                    failure = err
                except BaseException:
                    sock.close()
                    raise
                else:
                    return sock
    except TimeoutError as err:
        raise Transient(f"{target.host} did not answer in {settings.connect_timeout_seconds:g} s") from err
    except OSError as err:
        raise Transient(f"{target.host} cannot be resolved: {err.strerror or err}") from err
    raise Transient(f"{target.host} cannot be reached: {failure}") from failure


class Link:
    """A request on a dialled socket. `open` and the body's reads block and belong to one worker
    thread; `end` may be called from any other at any time."""

    def __init__(self, sock: socket.socket, target: Target) -> None:
        self._target = target
        self._sock: socket.socket = sock
        # A second handle of the same socket: SSLSocket.shutdown would drop the TLS layer under a
        # thread that reads, which then takes ciphertext for the body.
        self._brake = sock.dup()
        self._response: http.client.HTTPResponse | None = None

    def open(
        self, context: ssl.SSLContext, held: Held, read_timeout: float, more: Mapping[str, str] = NOTHING
    ) -> Answer:
        """Handshake, request with `more` headers, head of the answer. Raises `Transient` or `source_denied`."""
        target = self._target
        try:
            self._sock.settimeout(read_timeout)
            # A body without a length ends only with TLS's own farewell, not with a cut connection.
            self._sock = context.wrap_socket(self._sock, server_hostname=target.host, suppress_ragged_eofs=False)
            connection = http.client.HTTPSConnection(target.host, target.port, context=context)
            connection.sock = self._sock
            connection.request("GET", target.path, headers=_headers(held) | dict(more))
            self._response = response = connection.getresponse()
        except ssl.SSLCertVerificationError as err:
            sentence = f"the certificate of {target.host} is not trusted: {err.verify_message}"
            raise error("source_denied", sentence, hint="see fetch.ca_file of the agent") from err
        except (OSError, http.client.HTTPException) as err:
            raise Transient(f"{target.host} gave no answer: {_said(err)}") from err
        headers: dict[str, str] = {}
        for name, value in response.getheaders():
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        return Answer(response.status, headers, chunked=bool(response.chunked))

    def read_into(self, view: memoryview) -> int:
        """Bytes of the body that are there, at least one, or 0 at its end.

        Raises `Transient` when the connection breaks; a length is the caller's to check.
        """
        assert self._response is not None
        try:
            if not self._response.chunked:
                stream = self._response.fp
                return stream.readinto1(view) if stream is not None else 0
            data = self._response.read1(len(view))
        except ssl.SSLEOFError as err:
            raise Transient(f"{self._target.host} cut the connection") from err
        except (OSError, http.client.HTTPException, ValueError) as err:
            raise Transient(f"{self._target.host} broke off: {_said(err)}") from err
        view[: len(data)] = data
        return len(data)

    def end(self) -> None:
        """Wakes whoever reads; they meet an end of file."""
        with contextlib.suppress(OSError):
            self._brake.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Only when no thread uses the link any more."""
        self.end()
        if self._response is not None:
            self._response.close()
        self._sock.close()
        self._brake.close()


def _headers(held: Held) -> dict[str, str]:
    headers = {
        "User-Agent": USER_AGENT,
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Connection": "close",
    }
    if held.offset:
        headers["Range"] = f"bytes={held.offset}-"
        headers["If-Range"] = held.validator.if_range()
    return headers


def _said(err: Exception) -> str:
    """The reason without what a hostile server put into it beyond a line."""
    text = getattr(err, "strerror", None) or str(err) or type(err).__name__
    return "".join(c if c.isprintable() else "?" for c in text)[:120]
