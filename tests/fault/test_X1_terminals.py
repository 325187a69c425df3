"""X1, API-26, OD-08: programs in running tasks, over a control plane and an agent that are real processes.

The runtime below the agent is a fake one whose programs are real; everything from the command line to it is not.
"""

import contextlib
import fcntl
import hashlib
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from hostler.base.digest import digest_of
from hostler.base.errors import HostlerError
from hostler.cli.demo_files import program
from support.house import ORG, PROJECT, House, open_house

pytestmark = [pytest.mark.timeout(90), pytest.mark.xdist_group("terminals")]
SUPPORT = Path(__file__).parents[1] / "support"
DEAD_WITHIN_S = 5.0


def programs(name: str) -> list[str]:
    if name == "hostler-agent":
        return [sys.executable, str(SUPPORT / "terminal_agent.py")]
    return [program(name)]


class Place:
    """A house with one node, and a job that runs on it."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.job = house.submit("node.smoke.sleep@v1", {"seconds": 80})
        house.until(lambda: house.operation(self.job)["tasks"][0]["status"] == "running")

    def command(self, *arguments: str) -> list[str]:
        token = str(self.house.home / "admin.token")
        settings = ("--server", self.house.ports.server, "--token-file", token, "--project", PROJECT)
        return [program("hostler"), *settings, "jobs", *arguments]

    def run(self, *arguments: str, data: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(self.command(*arguments), input=data, capture_output=True, check=False, timeout=40)

    def pids(self) -> list[int]:
        """Programs that were started, whether they run or not."""
        kept = self.house.home / "a" / "pids"
        return [int(line) for line in kept.read_text().split()] if kept.exists() else []

    def ask(self, command: list[str], token: str = "", **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {token or self.token}"}
        with httpx.Client(base_url=self.house.ports.server, headers=headers, trust_env=False) as http:
            return http.post(f"/api/v1/projects/{PROJECT}/jobs/{self.job}/exec", json={"command": command} | more)

    @property
    def token(self) -> str:
        return (self.house.home / "admin.token").read_text().strip()

    def attach(self, path: str, token: str = "") -> Any:
        headers = {"authorization": f"Bearer {token or self.token}"}
        address = self.house.ports.server.replace("http", "ws", 1) + path
        return connect(address, additional_headers=headers, proxy=None, compression=None)

    def principal(self, name: str, role: str, org: str = ORG, project: str = PROJECT) -> str:
        body = {"name": name, "role": role, "org_id": org, "project_id": project}
        token: str = self.house.client.call("POST", "/api/v1/admin/principals", body=body)["token"]
        return token

    def started(self, command: list[str], **more: Any) -> tuple[Any, str, int]:
        """An open socket, the operation behind it, and the program's pid once it runs."""
        before = len(self.pids())
        made = self.ask(command, **more)
        assert made.status_code == 202, made.text
        socket = self.attach(made.json()["path"]).__enter__()
        self.house.until(lambda: len(self.pids()) > before)
        return socket, made.json()["operation_id"], self.pids()[-1]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with open_house(programs=programs) as house:
        house.serve()
        house.enrol("a")
        house.start("a")
        yield Place(house)


def alive(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def dead_in(pid: int, limit_s: float = DEAD_WITHIN_S) -> float:
    """Seconds until it had ended; fails when that takes longer."""
    begun = time.monotonic()
    while alive(pid):
        assert time.monotonic() - begun < limit_s, f"process {pid} still runs after {limit_s} s"
        time.sleep(0.02)
    return time.monotonic() - begun


def keep_alive(socket: Any, until: Any) -> None:
    """Beats, as a client does, until something is so."""
    end = time.monotonic() + 20
    while not until():
        assert time.monotonic() < end
        socket.send('{"type":"beat"}')
        with contextlib.suppress(TimeoutError):
            socket.recv(timeout=0.2)


# -- what it is for -----------------------------------------------------------------------------------


def test_API_26_a_program_runs_in_the_task_and_its_exit_code_is_the_commands_own(place: Place) -> None:
    done = place.run("exec", place.job, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_API_26_standard_input_is_passed_on_and_its_end_is_told(place: Place) -> None:
    data = os.urandom(3_000_000)
    done = place.run("exec", "-i", place.job, "--", "sh", "-c", "sha256sum | cut -c1-64", data=data)
    assert (done.returncode, done.stdout.decode().strip()) == (0, hashlib.sha256(data).hexdigest()), done.stderr


def test_API_26_what_a_session_did_stands_in_a_receipt(place: Place) -> None:
    command = ["sh", "-c", "printf 'a\\033[31mb\\n'; exit 3"]
    done = place.run("exec", place.job, "--", *command)
    assert done.stdout == b"a\x1b[31mb\n", "raw on the wire"
    listed = place.house.client.call("GET", f"/api/v1/projects/{PROJECT}/operations")["items"]
    (operation_id,) = [each["operation_id"] for each in listed if each["operation_type"] == "job.task.exec"][:1]
    ended = place.house.finished(operation_id)
    outputs = ended["tasks"][0]["steps"][0]["outputs"]
    wanted = {"exit_code": 3, "bytes_in": 0, "bytes_out": 8, "output_sha256": hashlib.sha256(done.stdout).hexdigest()}
    assert outputs == wanted
    (receipt,) = place.house.receipts(operation_id)
    assert (receipt["argv_digest"], receipt["exit_status"]) == (digest_of(command), 3)
    lines = place.house.client.call("GET", f"/api/v1/projects/{PROJECT}/operations/{operation_id}/logs")["items"]
    assert [line["text"] for line in lines if line["stream"] == "stdout"] == ["a\\x1b[31mb"], "harmless in the log"


def test_API_26_a_terminal_of_this_size_and_ctrl_c_as_a_byte(place: Place) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 97, 0, 0))
    shell = "stty size; trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done"
    child = subprocess.Popen(
        place.command("exec", "-it", place.job, "--", "sh", "-c", shell),
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while b"ready" not in seen:
        seen += os.read(ours, 4096)
    os.write(ours, b"\x03")
    with contextlib.suppress(OSError):
        while chunk := os.read(ours, 4096):
            seen += chunk
    assert child.wait(20) == 9, seen
    assert b"31 97" in seen
    assert b"caught" in seen


def test_API_26_profile_says_what_the_processes_did(place: Place) -> None:
    done = place.run("profile", place.job, "--seconds", "1", "--kind", "threads", "--output", "json")
    assert done.returncode == 0, done.stderr
    assert b'"samples"' in done.stdout
    for kind in ("cpu", "memory"):
        assert place.run("profile", place.job, "--seconds", "1", "--kind", kind).returncode == 0


# -- what must not happen -----------------------------------------------------------------------------


def test_X1_a_client_that_vanishes_takes_its_program_with_it(place: Place) -> None:
    """Killed without a word; and cut off without even a FIN, which only its silence tells."""
    socket, _, pid = place.started(["sleep", "600"])
    socket.socket.shutdown(2)
    dead_in(pid)
    socket, operation_id, pid = place.started(["sleep", "600"])
    dead_in(pid, DEAD_WITHIN_S + 1)  # nobody beats on this socket, and nobody closes it
    assert place.house.finished(operation_id)["tasks"][0]["error_code"] == "relay_closed"
    with contextlib.suppress(Exception):
        socket.close()


def test_X1_a_control_plane_that_falls_silent_costs_the_program_its_life(place: Place) -> None:
    socket, _, pid = place.started(["sleep", "600"])
    control = place.house.pids["control"]
    os.kill(control, signal.SIGSTOP)
    try:
        dead_in(pid, DEAD_WITHIN_S)
    finally:
        os.kill(control, signal.SIGCONT)
    with contextlib.suppress(Exception):
        socket.close()
    place.house.until(lambda: place.house.node("a")["connection"] == "connected", limit_s=40)


def test_X1_a_second_user_and_a_second_socket_are_refused(place: Place) -> None:
    other = place.principal("ben", "project_admin")
    made = place.ask(["sleep", "600"]).json()
    with pytest.raises(InvalidStatus) as refused:
        place.attach(made["path"], other)
    assert refused.value.response.status_code == 404
    before = len(place.pids())
    with place.attach(made["path"]) as socket:
        place.house.until(lambda: len(place.pids()) > before)  # else it begins in the midst of the next test
        with pytest.raises(InvalidStatus) as taken:
            place.attach(made["path"])
        assert taken.value.response.status_code == 409
        assert b"relay_taken" in taken.value.response.body
        socket.send('{"type":"beat"}')


def test_X1_a_revoked_principal_loses_its_session(place: Place) -> None:
    token = place.principal("eva", "project_admin")
    before = len(place.pids())
    made = place.ask(["sleep", "600"], token).json()
    with place.attach(made["path"], token) as socket:
        place.house.until(lambda: len(place.pids()) > before)
        place.house.client.call("DELETE", "/api/v1/admin/principals/eva")
        begun = time.monotonic()
        with contextlib.suppress(ConnectionClosed):
            keep_alive(socket, lambda: not alive(place.pids()[-1]))
        dead_in(place.pids()[-1], begun + DEAD_WITHIN_S - time.monotonic())


def test_X1_a_cancelled_operation_ends_its_program(place: Place) -> None:
    socket, operation_id, pid = place.started(["sleep", "600"])
    place.house.client.call("POST", f"/api/v1/projects/{PROJECT}/operations/{operation_id}/cancel")
    keep_alive(socket, lambda: not alive(pid))
    assert place.house.finished(operation_id)["status"] == "canceled"


def test_X1_a_flood_of_sizes_leaves_the_last_one(place: Place) -> None:
    shell = ["sh", "-c", 'until stty size | grep -qx "55 66"; do sleep 0.1; done; sleep 0.3; stty size; read y']
    socket, _, pid = place.started(shell, tty=True)
    for rows in range(1, 900):
        socket.send(f'{{"type":"resize","rows":{rows},"columns":80}}')
    socket.send('{"type":"resize","rows":55,"columns":66}')
    seen = b""
    end = time.monotonic() + 20
    while b"55 66" not in seen:
        assert time.monotonic() < end, seen
        socket.send('{"type":"beat"}')
        with contextlib.suppress(TimeoutError):
            message = socket.recv(timeout=0.2)
            seen += message[1:] if isinstance(message, bytes) else b""
    socket.close()
    dead_in(pid)


def test_X1_a_slow_reader_stops_the_program_and_fills_no_memory(place: Place) -> None:
    """A gigabyte is there to be read and nobody does: what is under way stays below a few windows."""
    socket, operation_id, pid = place.started(["sh", "-c", "head -c 1000000000 /dev/zero"])
    socket.recv_bufsize = 4096
    before = {name: rss(place.house.pids[name]) for name in ("control", "a")}
    for _ in range(20):
        socket.send('{"type":"beat"}')
        time.sleep(0.2)
    assert alive(pid), "it waits for its reader"
    for name, bytes_before in before.items():
        assert rss(place.house.pids[name]) - bytes_before < 20 << 20, name
    socket.socket.shutdown(2)
    dead_in(pid)
    assert place.house.finished(operation_id)["status"] == "failed"


def test_X1_the_agent_dies_and_says_afterwards_that_the_session_was_cut(place: Place) -> None:
    socket, operation_id, pid = place.started(["sleep", "600"])
    place.house.kill("a")
    place.house.restart("a")
    ended = place.house.finished(operation_id)
    assert (ended["status"], ended["tasks"][0]["error_code"]) == ("failed", "relay_closed")
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # the fake runtime has no keeper; real ones end what nobody holds
    with contextlib.suppress(Exception):
        socket.close()


def test_K2_a_profile_goes_on_after_a_restart(place: Place) -> None:
    path = f"/api/v1/projects/{PROJECT}/jobs/{place.job}/profile"
    operation_id = place.house.client.call("POST", path, body={"seconds": 2})["operation_id"]
    place.house.until(lambda: place.house.operation(operation_id)["status"] == "running")
    place.house.kill("a")
    place.house.restart("a")
    assert place.house.finished(operation_id)["status"] == "succeeded"


def rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


# -- who may ------------------------------------------------------------------------------------------


def test_S2_nobody_of_another_tenant_gets_near(place: Place) -> None:
    foreign = place.principal("rival", "tenant_admin", "rival", "")
    assert place.ask(["id"], foreign).status_code == 404
    made = place.ask(["sleep", "600"]).json()
    with pytest.raises(InvalidStatus) as refused:
        place.attach(made["path"], foreign)
    assert refused.value.response.status_code == 404
    for token in ("", "hsb1_wrong"):
        with pytest.raises(InvalidStatus) as unknown:
            place.attach(made["path"], token or "x")
        assert unknown.value.response.status_code == 401


def test_AZ_05_viewers_look_and_do_not_touch(place: Place) -> None:
    viewer = place.principal("vera", "project_viewer")
    assert place.ask(["id"], viewer).status_code == 403
    member = place.principal("max", "project_member")
    assert place.ask(["id"], member).json()["error_code"] == "scope_denied", "it is not its own job"


@pytest.mark.parametrize(
    ("ref", "more"),
    [("job.task.exec@v1", {"relay_id": "rly_none", "command": ["id"]}), ("job.task.profile@v1", {})],
)
def test_AZ_04_what_looks_inside_is_not_to_be_had_around_the_route_that_asks_whose_job_it_is(
    place: Place, ref: str, more: dict[str, Any]
) -> None:
    inputs = {"task_id": "tsk_other", "attempt_uid": "att_other"} | more
    with pytest.raises(HostlerError, match="never asked for by itself"):
        place.house.submit(ref, inputs)


def test_a_job_that_has_ended_cannot_be_entered(place: Place) -> None:
    over = place.house.submit("node.smoke.noop@v1")
    place.house.finished(over)
    done = place.run("exec", over, "--", "id")
    assert done.returncode == 1
    assert b"task_not_running" in done.stderr
