"""TE-22: `hostler endpoints forward`: a port of this machine, a real control plane and agent, a task that serves."""

import hashlib
import http.client
import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
import pytest
from fault.test_TE_22_endpoint_proxy import Place

from conftest import need_slow
from hostler.cli.demo_files import program
from support.house import PROJECT, open_house

pytestmark = [pytest.mark.timeout(110), pytest.mark.xdist_group("house-te22")]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with open_house() as house:
        house.serve()
        house.enrol("a")
        house.start("a")
        made = Place(house)
        made.begin()
        yield made


def line(place: Place, *words: str) -> list[str]:
    settings = ("--server", place.house.ports.server, "--token-file", str(place.house.home / "admin.token"))
    return [program("hostler"), *settings, "--project", PROJECT, "endpoints", "forward", *words]


@dataclass
class Port:
    """A forward that runs."""

    process: "subprocess.Popen[str]"
    first: str

    @property
    def number(self) -> int:
        return int(self.first.split()[0].rpartition(":")[2])

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, Any, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.number, timeout=20)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def raw(self, head: str) -> bytes:
        """What comes back for bytes that no client would write."""
        with socket.create_connection(("127.0.0.1", self.number), timeout=10) as connection:
            connection.sendall(head.replace("\n", "\r\n").encode())
            said = b""
            while b"\r\n\r\n" not in said and (data := connection.recv(4096)):
                said += data
            return said

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=20)
        return self.process.returncode, said


@contextmanager
def forwarded(place: Place, *words: str) -> Iterator[Port]:
    command = line(place, *(words or ("web", "0")))
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        yield Port(process, process.stderr.readline())
    finally:
        process.kill()
        process.wait(20)
        process.stderr.close()


def test_TE_22_a_port_of_this_machine_leads_to_the_task_until_ctrl_c(place: Place) -> None:
    with forwarded(place) as port:
        assert "leads to web of /house/web on a; Ctrl-C ends it" in port.first
        status, headers, said = port.ask("/some%2Fpath/x?a=1&b=%20two&b=3", x_own="kept", authorization="Bearer mine")
        asked = json.loads(said)
        assert (status, asked["method"], asked["path"]) == (200, "GET", "/some%2Fpath/x?a=1&b=%20two&b=3")
        assert asked["headers"]["x-own"] == "kept"
        assert "authorization" not in asked["headers"], "neither the client's nor ours"
        assert "content-security-policy" not in headers, "this origin is the task's own"
        status, _, said = port.ask("/up", "POST", b"x" * 3_000_000)
        assert said == hashlib.sha256(b"x" * 3_000_000).hexdigest().encode()
        status, _, said = port.ask("/up", "PUT", iter([b"in ", b"pieces"]))
        assert said == hashlib.sha256(b"in pieces").hexdigest().encode()
        assert port.ask("/big?2000000")[2] == b"b" * 2_000_000
        assert port.ask("/echo", "HEAD")[::2] == (200, b"")
        status, headers, _ = port.ask("/odd")
        assert headers["location"] == "/to", "at this port, and not in the control plane's paths"
        open_at = psutil.Process(port.process.pid).net_connections()
        assert [each.laddr[0] for each in open_at if each.status == "LISTEN"] == ["127.0.0.1"]
        code, said_last = port.end()
        assert (code, said_last) == (0, "ended\n")


def test_TE_22_events_come_through_the_port_as_they_are_sent(place: Place) -> None:
    with forwarded(place) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port.number, timeout=20)
        connection.request("GET", "/events")
        answer = connection.getresponse()
        begun, at = time.monotonic(), []
        while answer.readline():
            at.append(time.monotonic() - begun)
        assert at[-1] - at[0] > 0.1  # sent in 0.6 s; we may hear the first one late
        connection.request("GET", "/echo")  # the same connection goes on
        assert connection.getresponse().status == 200
        connection.close()


def test_TE_22_a_page_of_another_site_gets_nothing_from_the_port(place: Place) -> None:
    """A name that leads to 127.0.0.1 (DNS rebinding), another origin, a form or script of another site."""
    need_slow("tests/unit/cli/test_endpoint_forward.py tells it of the port alone")
    with forwarded(place) as port:
        own = f"127.0.0.1:{port.number}"
        before = len(place.forwards())
        for headers in (
            {"host": f"evil.example:{port.number}"},
            {"host": "127.0.0.1"},
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": f"http://127.0.0.1:{port.number + 1}"},
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
            {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
        ):
            assert port.ask("/echo", **headers)[0] == 403, headers
        navigated = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert port.ask("/echo", "POST", b"x", **navigated)[0] == 403
        assert len(place.forwards()) == before, "not even the control plane was asked"
        assert port.ask("/echo", **navigated)[0] == 200, "somebody has followed a link"
        same = {"origin": f"http://{own}", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
        assert port.ask("/echo", "POST", b"x", **same)[0] == 200
        assert port.ask("/echo", host=f"localhost:{port.number}")[0] == 200


def test_TE_22_no_path_through_the_port_leads_to_the_rest_of_the_api(place: Place) -> None:
    """The token that it carries opens all of it, and HTTP clients resolve `..` before they send."""
    need_slow("tests/unit/cli/test_endpoint_forward.py tells it of the port alone")
    with forwarded(place) as port:
        ups = "../" * 9
        for path in (f"/{ups}api/v1/nodes", "/..", "/x/../y", "/./x", "/%2e%2E/x", "/.%2e", "/x/..?y"):
            said = port.raw(f"GET {path} HTTP/1.1\nHost: 127.0.0.1:{port.number}\n\n")
            assert said.startswith(b"HTTP/1.1 400 "), (path, said)
        for target in ("http://127.0.0.1/api/v1/nodes", "*", "evil.example:443"):
            said = port.raw(f"GET {target} HTTP/1.1\nHost: 127.0.0.1:{port.number}\n\n")
            assert said.startswith(b"HTTP/1.1 400 "), (target, said)
        for path in ("/..x/y", "/x..", "/...", "/x?../../y", "/x/%2e%2e%2fy"):
            assert json.loads(port.ask(path)[2])["path"] == path


def test_TE_22_what_cannot_be_said_through_the_port_is_refused(place: Place) -> None:
    need_slow("tests/unit/cli/test_endpoint_forward.py tells it of the port alone")
    with forwarded(place) as port:
        host = f"Host: 127.0.0.1:{port.number}\n"
        for head, status in (
            ("GET /echo HTTP/1.1\n{host}Upgrade: websocket\nConnection: upgrade\n\n", b"501"),
            ("POST /echo HTTP/1.1\n{host}Content-Length: 3\nTransfer-Encoding: chunked\n\n", b"400"),
            ("POST /echo HTTP/1.1\n{host}Transfer-Encoding: gzip, chunked\n\n", b"400"),
            ("POST /echo HTTP/1.1\n{host}Content-Length: -1\n\n", b"400"),
            ("OPTIONS /echo HTTP/1.1\n{host}\n", b"501"),
            ("GET /echo HTTP/1.0\n\n", b"403"),
        ):
            said = port.raw(head.replace("{host}", host))
            assert said.startswith(b"HTTP/1.1 " + status), (head, said)
        status, _, said = port.ask("/echo")
        assert status == 200


def test_TE_22_a_port_or_a_name_that_cannot_be_had_is_said(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = str(taken.getsockname()[1])
        done = subprocess.run(line(place, "web", number), capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, f"port {number} of this machine cannot be had" in done.stderr) == (1, True), done.stderr
    done = subprocess.run(line(place, "nobody", "0"), capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "not_found" in done.stderr) == (1, True), done.stderr
    with forwarded(place, "deaf", "0") as port:
        status, _, said = port.ask("/x")
        assert (status, b"endpoint_unreachable" in said) == (502, True)
        assert "GET /x: " in port.end()[1], "and on the terminal"


def test_TE_22_the_port_follows_the_name_when_its_task_has_gone(place: Place) -> None:
    with forwarded(place) as port:
        assert port.ask("/echo")[0] == 200
        place.end()
        status, _, said = port.ask("/echo")
        assert (status, b"not_found" in said) == (502, True), said
        place.begin("again")
        status, _, said = port.ask("/echo")
        assert (status, json.loads(said)["path"]) == (200, "/echo")
        assert "it leads to web of /house/again on a now" in port.end()[1]
