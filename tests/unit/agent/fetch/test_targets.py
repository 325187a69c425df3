"""AR-06: which URLs are asked at all, and where a redirect may lead."""

import asyncio

import pytest

from hostler.agent.fetch.budget import Transient
from hostler.agent.fetch.connection import dial, target_of
from hostler.agent.fetch.ranges import Answer
from hostler.agent.fetch.redirects import Redirects
from hostler.agent.host.fetch_settings import FetchSettings
from hostler.base.errors import HostlerError


@pytest.mark.parametrize(
    "url",
    [
        "http://example.test/x",
        "ftp://example.test/x",
        "file:///etc/passwd",
        "https://",
        "https:///path",
        "https://user@example.test/x",
        "https://user:secret@example.test/x",
        "https://example.test:99999/x",
        "https://example.test/a b",
        "https://example.test/a\r\nHost: other",
        "https://example.test\\@other.test/",
        "https://exämple.test/",
        "https://[::1/x",
    ],
)
def test_AR_06_what_is_not_a_plain_https_url_is_denied(url: str) -> None:
    with pytest.raises(HostlerError) as caught:
        target_of(url)
    assert caught.value.code == "source_denied"
    assert "secret" not in str(caught.value)


def test_S1_a_target_never_shows_its_query() -> None:
    target = target_of("https://example.test:8443/a/b?token=secret")
    assert target.shown == "https://example.test:8443/a/b"
    assert (target.host, target.port, target.path) == ("example.test", 8443, "/a/b?token=secret")


def moved(location: str) -> Answer:
    return Answer(302, {"location": location} if location else {})


def redirects(most: int = 5) -> Redirects:
    return Redirects(target_of("https://a.test/x/y"), lambda url: url.startswith("https://a.test/"), most)


def test_AR_06_a_redirect_inside_the_allowlist_is_followed() -> None:
    hops = redirects()
    assert hops.follow(moved("../z?k=1#part"))
    assert hops.target.url == "https://a.test/z?k=1"
    assert not hops.follow(Answer(200, {}))


@pytest.mark.parametrize(
    "location",
    [
        "https://b.test/x",
        "http://a.test/x",
        "//b.test/x",
        "https://169.254.169.254/latest/meta-data",
        "https://a.test@b.test/x",
        "file:///etc/shadow",
        "https://[bad/",
        "",
    ],
)
def test_AR_06_a_redirect_out_of_the_allowlist_is_denied(location: str) -> None:
    with pytest.raises(HostlerError) as caught:
        redirects().follow(moved(location))
    assert caught.value.code == "source_denied"


def test_AR_06_redirects_come_to_an_end() -> None:
    hops = redirects(most=5)
    for _ in range(5):
        hops.follow(moved("/again"))
    with pytest.raises(HostlerError) as caught:
        hops.follow(moved("/again"))
    assert caught.value.code == "source_denied"


async def test_A4_a_private_address_is_denied_where_the_node_keeps_off_them() -> None:
    target = target_of("https://127.0.0.1:1/x")
    with pytest.raises(HostlerError) as caught:
        await dial(target, FetchSettings(allow_private=False))
    assert caught.value.code == "source_denied"


async def test_a_port_where_nothing_listens_may_be_tried_again() -> None:
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(Transient):
        await dial(target_of(f"https://127.0.0.1:{port}/x"), FetchSettings())
