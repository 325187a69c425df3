"""TE-22: tasks' HTTP endpoints through the control plane: real processes from the client to the task and back."""

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from hostler.base.errors import HostlerError
from hostler.cli.demo_files import program
from support.house import ORG, PROJECT, House, open_house

pytestmark = [pytest.mark.timeout(110), pytest.mark.xdist_group("house-te22")]
TASK = (Path(__file__).parents[1] / "support" / "web_task.py").read_text()
BASE = f"/api/v1/projects/{PROJECT}"


class Place:
    """A house with one node, and a job that serves HTTP on it."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.job = ""
        self.token = (house.home / "admin.token").read_text().strip()

    def begin(self, name: str = "web") -> None:
        """Starts a job, and waits until its endpoints are there."""
        spec = {"name": name, "runtime": "process", "ports": ["web", "deaf"]}
        spec |= {"command": ["/usr/bin/python3", "-c", TASK], "resources": {"cpu_millis": 100, "memory_bytes": 1 << 28}}
        self.job = self.house.client.call("POST", f"{BASE}/jobs", body=spec)["job_id"]
        self.house.until(lambda: len(self.endpoints()) == 2)
        self.paths = {each["name"]: self.path(each) for each in self.endpoints()}
        self.address = next(each["address"] for each in self.endpoints() if each["name"] == "web")

    def end(self) -> None:
        self.house.client.call("POST", f"{BASE}/jobs/{self.job}/cancel")
        self.house.finished(self.job)

    def endpoints(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.house.client.call("GET", f"{BASE}/endpoints")["items"]
        return [each for each in listed if each["operation_id"] == self.job]

    def path(self, endpoint: dict[str, Any]) -> str:
        return f"{BASE}/endpoints/{endpoint['task_id']}/{endpoint['endpoint_id']}/proxy"

    def http(self, token: str = "") -> httpx.Client:
        headers = {"authorization": f"Bearer {token or self.token}"}
        return httpx.Client(base_url=self.house.ports.server, headers=headers, trust_env=False, timeout=40)

    def ask(self, path: str = "/echo", method: str = "GET", token: str = "", **more: Any) -> httpx.Response:
        with self.http(token) as http:
            return http.request(method, self.paths["web"] + path, **more)

    def echo(self, path: str = "/echo", **more: Any) -> dict[str, Any]:
        answer = self.ask(path, **more)
        assert answer.status_code == 200, answer.text
        said: dict[str, Any] = answer.json()
        return said

    def forwards(self) -> list[dict[str, Any]]:
        """Operations behind connections, newest first."""
        listed = self.house.client.call("GET", f"{BASE}/operations", page_size="200")["items"]
        return [each for each in listed if each["operation_type"] == "job.task.forward"]

    def principal(self, name: str, role: str, org: str = ORG, project: str = PROJECT) -> str:
        body = {"name": name, "role": role, "org_id": org, "project_id": project}
        token: str = self.house.client.call("POST", "/api/v1/admin/principals", body=body)["token"]
        return token

    def cli(self, *arguments: str, data: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        settings = ("--server", self.house.ports.server, "--token-file", str(self.house.home / "admin.token"))
        command = [program("hostler"), *settings, "--project", PROJECT, "endpoints", *arguments]
        return subprocess.run(command, input=data, capture_output=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with open_house() as house:
        house.serve()
        house.enrol("a")
        house.start("a")
        made = Place(house)
        made.begin()
        yield made


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, str(answer.json().get("error_code", ""))


def breaks_off(answer: httpx.Response, end: float) -> bool:
    try:
        for _ in answer.iter_raw():
            assert time.monotonic() < end
    except httpx.HTTPError:
        return True
    return False


def stands_still(place: Place) -> bool:
    """Whether the flood has stopped; before, it fills what lies between it and its reader."""
    first = int(place.ask("/flooded").text)
    time.sleep(1.5)
    return int(place.ask("/flooded").text) == first


def rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


# -- what it is for -----------------------------------------------------------------------------------


def test_TE_22_a_task_is_asked_and_answers(place: Place) -> None:
    said = place.echo("/some%2Fpath/x?a=1&b=%20two&b=3", headers={"x-own": "kept", "cookie": "session=secret"})
    assert (said["method"], said["path"]) == ("GET", "/some%2Fpath/x?a=1&b=%20two&b=3"), "byte for byte"
    headers = said["headers"]
    assert headers["x-own"] == "kept"
    assert headers["host"] == place.address
    assert "authorization" not in headers
    assert "cookie" not in headers
    assert place.token not in json.dumps(said)
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert place.echo(method=method, content=b"body")["method"] == method
    head = place.ask(method="HEAD")
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "0")


def test_TE_22_where_it_came_from_is_said_by_us_alone(place: Place) -> None:
    lies = {
        "x-forwarded-for": "6.6.6.6",
        "forwarded": "for=6.6.6.6",
        "x-real-ip": "6.6.6.6",
        "x-forwarded-user": "root",
    }
    headers = place.echo(headers=lies)["headers"]
    assert "6.6.6.6" not in json.dumps(headers)
    assert "x-forwarded-user" not in headers
    server = place.house.ports.server.removeprefix("http://")
    assert headers["forwarded"] == f'for=127.0.0.1;host="{server}";proto=http'
    assert (headers["x-forwarded-for"], headers["x-forwarded-host"]) == ("127.0.0.1", server)
    assert headers["x-forwarded-prefix"] == place.paths["web"]


def test_TE_22_headers_of_a_connection_end_with_it(place: Place) -> None:
    said = place.echo(
        headers={"connection": "close, x-mine", "x-mine": "1", "te": "trailers", "keep-alive": "timeout=5"}
    )
    assert not {"x-mine", "te", "keep-alive", "connection"} & set(said["headers"])


def test_TE_22_what_a_task_serves_has_no_part_in_our_origin(place: Place) -> None:
    answer = place.ask("/odd")
    assert not {"set-cookie", "access-control-allow-origin"} & set(answer.headers)
    assert answer.headers["content-security-policy"] == "sandbox"
    assert answer.headers["via"] == "1.1 hostler"
    assert answer.headers["location"] == f"{place.paths['web']}/to"


def test_TE_22_many_requests_share_a_connection_and_each_connection_has_a_receipt(place: Place) -> None:
    peers = {place.echo()["peer"] for _ in range(5)}
    assert len(peers) == 1
    newest = place.forwards()[0]["operation_id"]
    ended = place.house.finished(newest)
    outputs = ended["tasks"][0]["steps"][0]["outputs"]
    assert outputs["bytes_out"] > 500
    assert ended["status"] == "succeeded", "it was closed for want of requests, as it should be"
    (receipt,) = place.house.receipts(newest)
    assert receipt["operation_id"] == newest
    listed = place.house.client.call("GET", "/api/v1/admin/audit-logs", page_size="200")["items"]
    assert any(newest in json.dumps(line) for line in listed if line["action"] == "endpoint.proxy")
    assert place.echo()["peer"] not in peers, "what was idle is closed"


def test_TE_22_large_bodies_go_both_ways_in_pieces(place: Place) -> None:
    data = os.urandom(20_000_000)
    digest = hashlib.sha256(data).hexdigest()
    assert place.ask("/up", "POST", content=data).text == digest
    assert place.ask("/up", "POST", content=iter([data[:7], data[7:]])).text == digest, "chunked"
    assert len(place.ask("/big?30000000").content) == 30_000_000


def test_TE_22_events_come_as_they_are_sent(place: Place) -> None:
    seen: list[float] = []
    with place.http() as http, http.stream("GET", place.paths["web"] + "/events") as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        seen.extend(time.monotonic() for line in answer.iter_lines() if line.startswith("data:"))
    assert len(seen) == 3
    assert seen[2] - seen[0] > 0.1, "they were kept back"  # sent in 0.6 s; we may hear the first one late


def test_TE_22_a_body_is_answered_while_it_comes(place: Place) -> None:
    def slowly() -> Iterator[bytes]:
        for number in range(4):
            yield b"piece %d\n" % number
            time.sleep(0.1)

    assert place.ask("/twice", "POST", content=slowly()).text == "".join(f"piece {n}\n" for n in range(4))


def test_TE_22_from_the_command_line(place: Place, tmp_path: Path) -> None:
    done = place.cli("get", "web", "/x?y=1")
    assert (done.returncode, json.loads(done.stdout)["path"]) == (0, "/x?y=1"), done.stderr
    done = place.cli("get", "web", "/up", "-d", "@-", "-i", data=b"from a pipe")
    assert hashlib.sha256(b"from a pipe").hexdigest().encode() in done.stdout
    assert done.stdout.startswith(b"HTTP/1.1 200")
    done = place.cli("get", "nobody")
    assert (done.returncode, b"not_found" in done.stderr) == (1, True)


# -- what goes wrong ----------------------------------------------------------------------------------


def test_TE_22_nobody_listens(place: Place) -> None:
    with place.http() as http:
        answer = http.get(place.paths["deaf"] + "/")
    assert code_of(answer) == (502, "endpoint_unreachable")
    assert "port" in answer.json()["detail"]


def test_TE_22_an_upgrade_is_refused_and_says_so(place: Place) -> None:
    assert code_of(place.ask(headers={"upgrade": "h2c", "connection": "upgrade"})) == (501, "upgrade_unsupported")
    address = place.house.ports.server.replace("http", "ws", 1) + place.paths["web"] + "/socket"
    with pytest.raises(InvalidStatus) as refused:
        connect(address, additional_headers={"authorization": f"Bearer {place.token}"}, proxy=None)
    assert refused.value.response.status_code == 501


def test_TE_22_a_slow_reader_stops_the_task_and_fills_no_memory(place: Place) -> None:
    """Gigabytes are there to be read and nobody does: what is under way stays below a few windows."""
    before = {name: rss(place.house.pids[name]) for name in ("control", "a")}
    with place.http() as http, http.stream("GET", place.paths["web"] + "/flood"):
        place.house.until(lambda: stands_still(place), limit_s=60)  # until it waits for its reader
        for name, bytes_before in before.items():
            assert rss(place.house.pids[name]) - bytes_before < 30 << 20, name
    assert place.echo()["method"] == "GET"


def test_TE_22_a_client_that_goes_takes_its_connection_with_it(place: Place) -> None:
    with place.http() as http, http.stream("GET", place.paths["web"] + "/flood"):
        newest = place.forwards()[0]["operation_id"]
    place.house.until(lambda: place.house.operation(newest)["status"] == "failed", limit_s=10)


def test_TE_22_a_revoked_principal_loses_its_answers(place: Place) -> None:
    token = place.principal("eva", "project_admin")
    begun = time.monotonic()
    with place.http(token) as http, http.stream("GET", place.paths["web"] + "/flood") as answer:
        place.house.client.call("DELETE", "/api/v1/admin/principals/eva")
        assert breaks_off(answer, begun + 8)
    assert code_of(place.ask(token=token))[0] == 401


def test_S2_nobody_of_another_tenant_gets_near(place: Place) -> None:
    foreign = place.principal("rival", "tenant_admin", "rival", "")
    answer = place.ask(token=foreign)
    assert code_of(answer) == (404, "not_found")
    lab = place.principal("labber", "project_admin", "rival", "lab")
    elsewhere = place.paths["web"].replace(f"/{PROJECT}/", "/lab/")
    with place.http(lab) as http:
        assert code_of(http.get(elsewhere + "/")) == (404, "not_found")
    assert code_of(place.ask(token="hsb1_wrong"))[0] == 401


def test_AZ_04_AZ_05_viewers_and_members(place: Place) -> None:
    assert code_of(place.ask(token=place.principal("vera", "project_viewer"))) == (403, "scope_denied")
    assert code_of(place.ask(token=place.principal("max", "project_member"))) == (403, "scope_denied")


def test_TE_22_nobody_names_a_port_by_hand(place: Place) -> None:
    """And if one could: the node looks into its book (tests/unit/agent/containers/test_forward.py)."""
    task = place.house.operation(place.job)["tasks"][0]
    control = int(place.house.ports.server.rpartition(":")[2])
    inputs = {"task_id": task["task_id"], "attempt_uid": task["attempt_uid"], "relay_id": "rly_none", "port": control}
    with pytest.raises(HostlerError) as refused:
        place.house.submit("job.task.forward@v1", inputs)
    assert refused.value.code == "invalid_request"


def test_TE_22_a_silent_node_ends_the_answer(place: Place) -> None:
    agent = place.house.pids["a"]
    with place.http() as http, http.stream("GET", place.paths["web"] + "/flood") as answer:
        os.kill(agent, signal.SIGSTOP)
        outside = [int(each) for each in Path(f"/proc/{agent}/task/{agent}/children").read_text().split()]
        for pid in outside:
            os.kill(pid, signal.SIGSTOP)
        begun = time.monotonic()
        try:
            assert breaks_off(answer, begun + 15)
        finally:
            for pid in (agent, *outside):
                os.kill(pid, signal.SIGCONT)
    place.house.until(lambda: place.house.node("a")["connection"] == "connected", limit_s=40)
    place.house.until(lambda: place.ask().status_code == 200, limit_s=40)


def test_K2_an_agent_that_is_killed_ends_connections_and_the_task_goes_on(place: Place) -> None:
    peer = place.echo()["peer"]
    newest = place.forwards()[0]["operation_id"]
    place.house.kill("a")
    place.house.restart("a")
    ended = place.house.finished(newest)
    assert (ended["status"], ended["tasks"][0]["error_code"]) == ("failed", "relay_closed")
    place.house.until(lambda: place.ask().status_code == 200, limit_s=40)
    assert place.echo()["peer"] != peer


def test_TE_22_a_task_that_ends_in_the_midst_is_seen_to_have_broken_off(place: Place) -> None:
    """Last: the job is over then."""
    with place.http() as http, http.stream("GET", place.paths["web"] + "/die") as answer:
        assert answer.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()
    place.house.finished(place.job)
    assert code_of(place.ask()) in ((404, "not_found"), (502, "endpoint_unreachable"))
    done = place.cli("get", "web")
    assert done.returncode == 1
