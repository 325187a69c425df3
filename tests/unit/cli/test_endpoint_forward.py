"""TE-22: what the port of `hostler endpoints forward` lets through to the control plane, and as what."""

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from hostler.base.errors import HostlerError, error
from hostler.cli.endpoint_forward import Forward

BASE = "/api/v1/projects/train/endpoints"
PREFIX = f"{BASE}/tsk_1/web-id/proxy"


class Plane:
    """The control plane as the forward sees it: what it was asked, and what it says."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.status, self.headers = 200, [("content-length", "4")]
        self.parts: Callable[[], Iterator[bytes]] = lambda: iter([b"said"])
        self.refusals: list[HostlerError] = []
        self.found = [{"task_id": "tsk_1", "endpoint_id": "web-id"}]
        self.finds = 0

    def find(self) -> dict[str, Any]:
        self.finds += 1
        return self.found[min(self.finds, len(self.found)) - 1]

    @contextmanager
    def through(self, method: str, path: str, headers: list[tuple[str, str]], content: Any) -> Iterator[Any]:
        self.asked.append((method, path, dict(headers), b"".join(content or ())))
        if self.refusals:
            raise self.refusals.pop()
        yield httpx.Response(self.status, headers=self.headers, stream=_Stream(self.parts()))


class _Stream(httpx.SyncByteStream):
    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[bytes]:
        return self._parts


@pytest.fixture
def plane() -> Plane:
    return Plane()


@pytest.fixture
def port(plane: Plane) -> Iterator[Forward]:
    said: list[str] = []
    with Forward(plane, BASE, plane.find, 0, said.append) as served:  # type: ignore[arg-type]
        threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield served
        served.shutdown()


def ask(
    port: Forward, path: str = "/x", method: str = "GET", body: Any = None, **headers: str
) -> tuple[int, Any, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port.server_port, timeout=10)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def raw(port: Forward, text: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port.server_port), timeout=10) as connection:
        connection.sendall(text.replace("HOST", f"Host: 127.0.0.1:{port.server_port}").replace("\n", "\r\n").encode())
        return connection.recv(4096)


def test_TE_22_it_is_open_on_loopback_alone(port: Forward) -> None:
    assert port.server_address[0] == "127.0.0.1"


def test_TE_22_a_name_that_was_made_to_lead_here_gets_nothing(port: Forward, plane: Plane) -> None:
    for host in (f"evil.example:{port.server_port}", "127.0.0.1", f"127.0.0.1.evil.example:{port.server_port}", ""):
        assert ask(port, host=host)[0] == 403, host
    assert plane.asked == []
    assert ask(port, host=f"LocalHost:{port.server_port}")[0] == 200


def test_TE_22_a_page_of_another_origin_gets_nothing(port: Forward, plane: Plane) -> None:
    own = f"http://127.0.0.1:{port.server_port}"
    for origin in ("https://evil.example", "null", f"{own}0", f"http://localhost:{port.server_port}"):
        assert ask(port, method="POST", body=b"x", origin=origin)[0] == 403, origin
    assert plane.asked == []
    assert ask(port, method="POST", body=b"x", origin=own)[0] == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "what-is-to-come"])
def test_TE_22_a_page_of_another_site_gets_nothing_but_what_somebody_follows(
    port: Forward, plane: Plane, site: str
) -> None:
    assert ask(port, sec_fetch_site=site, sec_fetch_mode="no-cors")[0] == 403
    assert ask(port, method="POST", sec_fetch_site=site, sec_fetch_mode="navigate")[0] == 403
    assert plane.asked == []
    assert ask(port, sec_fetch_site=site, sec_fetch_mode="navigate")[0] == 200


@pytest.mark.parametrize("path", ["/..", "/x/../y", "/./x", "/%2e%2E/x", "/.%2e?x", "/x/..?y", "/x/%2E"])
def test_TE_22_no_path_leads_out_of_the_endpoint(port: Forward, plane: Plane, path: str) -> None:
    assert raw(port, f"GET {path} HTTP/1.1\nHOST\n\n").startswith(b"HTTP/1.1 400 ")
    assert plane.asked == []


@pytest.mark.parametrize("target", ["http://127.0.0.1/x", "*", "evil.example:443", "/\x7f", "/é"])
def test_TE_22_what_is_asked_for_is_a_plain_path(port: Forward, plane: Plane, target: str) -> None:
    assert raw(port, f"GET {target} HTTP/1.1\nHOST\n\n").startswith(b"HTTP/1.1 400 ")
    assert plane.asked == []


@pytest.mark.parametrize("path", ["/..x/y", "/x..", "/...", "/x?../../y", "/x/%2e%2e%2fy", "/a%2Fb?c=%20d"])
def test_TE_22_any_other_path_goes_as_it_is(port: Forward, plane: Plane, path: str) -> None:
    assert ask(port, path)[0] == 200
    assert plane.asked[0][1] == PREFIX + path


@pytest.mark.parametrize(
    "head",
    [
        "POST /x HTTP/1.1\nHOST\nContent-Length: 3\nTransfer-Encoding: chunked\n\n",
        "POST /x HTTP/1.1\nHOST\nTransfer-Encoding: gzip, chunked\n\n",
        "POST /x HTTP/1.1\nHOST\nContent-Length: -1\n\n",
        "POST /x HTTP/1.1\nHOST\nContent-Length: ٣\n\n",
    ],
)
def test_TE_22_where_a_body_ends_is_said_once(port: Forward, plane: Plane, head: str) -> None:
    said = raw(port, head)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in said.lower()
    assert plane.asked == []


def test_TE_22_headers_of_the_client_that_are_ours_to_say_stay_here(port: Forward, plane: Plane) -> None:
    named = {
        "authorization": "Bearer theirs",
        "connection": "close, x-hop",
        "x-hop": "1",
        "te": "trailers",
        "x-own": "1",
    }
    assert ask(port, **named)[0] == 200
    (_, _, headers, _) = plane.asked[0]
    kept = {name.lower(): value for name, value in headers.items()}
    assert kept == {"accept-encoding": "identity", "x-own": "1"}


def test_TE_22_bodies_come_in_pieces_and_keep_their_length(port: Forward, plane: Plane) -> None:
    ask(port, method="POST", body=b"x" * 200_000)
    ask(port, method="PUT", body=iter([b"in ", b"pieces"]))
    ask(port, method="POST", body=b"")
    assert [(asked[3][:9], asked[2].get("content-length")) for asked in plane.asked] == [
        (b"xxxxxxxxx", "200000"),
        (b"in pieces", None),
        (b"", "0"),
    ]


def test_TE_22_an_answer_is_of_this_origin(port: Forward, plane: Plane) -> None:
    """The sandbox is for the control plane's own; what the task says of itself stays."""
    plane.status, plane.parts = 302, lambda: iter([])
    plane.headers = [
        ("location", f"{PREFIX}/to"),
        ("content-security-policy", "default-src 'self'"),
        ("content-security-policy", "sandbox"),
        ("content-length", "0"),
    ]
    status, headers, _ = ask(port)
    assert (status, headers["location"]) == (302, "/to")
    assert headers.get_all("content-security-policy") == ["default-src 'self'"]


def test_TE_22_links_with_the_control_plane_s_prefix_work_too(port: Forward, plane: Plane) -> None:
    """A task that heeds `X-Forwarded-Prefix` writes them."""
    ask(port, f"{PREFIX}/static/a.css")
    ask(port, f"{PREFIX}x")
    assert [asked[1] for asked in plane.asked] == [f"{PREFIX}/static/a.css", f"{PREFIX}{PREFIX}x"]


def test_TE_22_an_answer_that_breaks_off_is_seen_to(port: Forward, plane: Plane) -> None:
    def half() -> Iterator[bytes]:
        yield b"half"
        raise error("endpoint_unreachable", "the answer broke off in the midst")

    plane.headers, plane.parts = [], half
    with pytest.raises(http.client.IncompleteRead):
        ask(port)


def test_TE_22_where_the_task_has_moved_it_is_found_again(port: Forward, plane: Plane) -> None:
    plane.found.append({"task_id": "tsk_2", "endpoint_id": "web-id"})
    plane.refusals = [error("not_found", "that task has no such endpoint now")]
    assert ask(port)[0] == 200
    assert [asked[1] for asked in plane.asked] == [f"{PREFIX}/x", f"{BASE}/tsk_2/web-id/proxy/x"]


def test_TE_22_what_may_have_been_done_is_not_asked_for_again(port: Forward, plane: Plane) -> None:
    plane.refusals = [error("endpoint_unreachable", "it broke off")]
    status, _, said = ask(port, method="POST", body=b"x")
    assert (status, b"endpoint_unreachable" in said) == (502, True)
    assert len(plane.asked) == 1
    assert ask(port, method="POST", body=b"x")[0] == 200


@pytest.mark.parametrize(
    ("code", "status"), [("rate_limited", 503), ("endpoint_silent", 504), ("scope_denied", 502), ("too_large", 413)]
)
def test_TE_22_what_the_control_plane_refuses_is_said(port: Forward, plane: Plane, code: str, status: int) -> None:
    plane.refusals = [error(code, "no")]
    assert ask(port)[::2] == (status, f"no [{code}]\n".encode())


def test_TE_22_a_port_that_is_taken_is_said(port: Forward, plane: Plane) -> None:
    with pytest.raises(HostlerError) as refused:
        Forward(plane, BASE, plane.find, port.server_port, print)  # type: ignore[arg-type]
    assert refused.value.code == "invalid_request"
    assert str(port.server_port) in refused.value.message
