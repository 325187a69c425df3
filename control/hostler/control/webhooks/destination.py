"""Where webhooks may go: HTTPS to public addresses, and to networks that the operator of this control plane named.

A name is resolved once for a delivery and the connection goes to that address: no second answer of a name server
can lead it elsewhere. Every address of a name must be allowed.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from hostler.base.errors import error

MAX_URL = 2048
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?", re.ASCII)
# IPv6 addresses that end in an IPv4 address and may lead to it: IPv4-compatible and NAT64.
_HOLD_IPV4 = (ipaddress.IPv6Network("::/96"), ipaddress.IPv6Network("64:ff9b::/96"))
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class Place(NamedTuple):
    """`host` is what the certificate must name, `target` the request's path and query."""

    host: str
    port: int
    target: str


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Raises `invalid_config`."""
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as err:
        raise error("invalid_config", f"webhook_allowed_networks: {err}") from err


def place_of(url: str) -> Place:
    """Raises `webhook_url_denied` for anything but a plain HTTPS address."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as err:
        raise error("webhook_url_denied", "the address of the webhook is no URL", pointer="/url") from err
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise error("webhook_url_denied", f"the address is longer than {MAX_URL}, or not ASCII", pointer="/url")
    if parts.scheme != "https":
        raise error("webhook_url_denied", "webhooks go over https only", pointer="/url")
    if not _is_host(parts.hostname or "") or port == 0 or "@" in parts.netloc or parts.fragment:
        raise error("webhook_url_denied", "the address needs a host, and no user or fragment", pointer="/url")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Place(parts.hostname or "", port or 443, target)


def _is_host(text: str) -> bool:
    if len(text) <= 253 and _NAME.fullmatch(text):
        return True
    try:
        return not getattr(ipaddress.ip_address(text), "scope_id", None)
    except ValueError:
        return False


async def system_resolve(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Destinations:
    """Decides about addresses; `resolve` is the system's unless a test has its own."""

    def __init__(self, allowed: Sequence[Network] = (), resolve: Resolve = system_resolve) -> None:
        self._allowed = tuple(allowed)
        self._resolve = resolve

    def check(self, url: str) -> Place:
        """What can be said without asking a name server. Raises `webhook_url_denied`."""
        place = place_of(url)
        try:
            literal = ipaddress.ip_address(place.host)
        except ValueError:
            return place
        self._permit(literal, place.host)
        return place

    async def pin(self, place: Place) -> str:
        """The one address to connect to. Raises `webhook_url_denied`; OSError where the name has none."""
        found = await self._resolve(place.host, place.port)
        if not found:
            raise OSError("the name has no address")
        for text in found:
            self._permit(ipaddress.ip_address(text.partition("%")[0]), place.host)
        return found[0]

    def _permit(self, address: Address, host: str) -> None:
        plain = _plain(address)
        if any(each in network for network in self._allowed for each in (address, plain)):
            return
        if not plain.is_global or plain.is_multicast:
            raise error(
                "webhook_url_denied",
                f"{host[:253]} is not a public address",
                pointer="/url",
                hint="its network must be named in webhook_allowed_networks of control.toml",
            )


def _plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 one leads to, else the same."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if any(address in network for network in _HOLD_IPV4):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
