"""Where webhooks may go: nothing inside is reached by a tenant's address (SSRF)."""

import ipaddress
from collections.abc import Sequence

import pytest

from hostler.base.errors import HostlerError
from hostler.control.webhooks.destination import Destinations, networks, place_of

INSIDE = [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fd00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "64:ff9b::a00:1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2002:a00:1::1",
]


def to(*addresses: str, allowed: Sequence[str] = ()) -> Destinations:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return Destinations(networks(allowed), resolve)


@pytest.mark.parametrize("address", INSIDE)
async def test_AZ_10_an_address_inside_is_refused_written_out_or_behind_a_name(address: str) -> None:
    literal = f"[{address}]" if ":" in address else address
    with pytest.raises(HostlerError) as caught:
        to().check(f"https://{literal}/hook")
    assert caught.value.code == "webhook_url_denied"
    with pytest.raises(HostlerError) as caught:
        await to(address).pin(place_of("https://hooks.example.com/"))
    assert caught.value.code == "webhook_url_denied"


async def test_every_address_of_a_name_must_be_allowed() -> None:
    with pytest.raises(HostlerError):
        await to("93.184.216.34", "10.0.0.1").pin(place_of("https://hooks.example.com/"))


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"])
async def test_a_public_address_is_what_is_connected_to(address: str) -> None:
    assert await to(address).pin(place_of("https://hooks.example.com/")) == address


async def test_a_network_that_the_operator_names_is_reached_and_its_neighbour_is_not() -> None:
    inside = to("10.20.0.9", allowed=["10.20.0.0/16"])
    assert await inside.pin(place_of("https://hooks.corp/")) == "10.20.0.9"
    inside.check("https://10.20.1.1/x")
    with pytest.raises(HostlerError):
        inside.check("https://10.21.0.1/x")


async def test_a_name_without_an_address_is_an_outage_and_no_refusal() -> None:
    with pytest.raises(OSError, match="no address"):
        await to().pin(place_of("https://hooks.example.com/"))


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/",
        "ftp://hooks.example.com/",
        "https://user:word@hooks.example.com/",
        "https://@hooks.example.com/",
        "https://hooks.example.com/#part",
        "https:///path",
        "https://hooks.example.com:0/",
        "https://hooks.example.com:99999/",
        "https://a..b/",
        "https://" + "a" * 64 + ".com/",
        "https://höoks.example.com/",
        "https://hooks.example.com/\r\nx: y",
        "https://hooks.example.com/a b",
        "https://[::1%25eth0]/",
        "https://" + "a" * 2050,
        "hooks",
        "",
    ],
)
def test_what_is_no_plain_https_address_is_refused(url: str) -> None:
    with pytest.raises(HostlerError) as caught:
        place_of(url)
    assert caught.value.code == "webhook_url_denied"


def test_a_place_keeps_port_path_and_query() -> None:
    assert place_of("https://Hooks.example.com:8443/a/b?c=d") == ("hooks.example.com", 8443, "/a/b?c=d")
    assert place_of("https://hooks.example.com") == ("hooks.example.com", 443, "/")


def test_networks_that_are_none_stop_the_start() -> None:
    assert networks(["10.0.0.0/8"]) == (ipaddress.ip_network("10.0.0.0/8"),)
    with pytest.raises(HostlerError, match="webhook_allowed_networks"):
        networks(["10.0.0.1/8"])
