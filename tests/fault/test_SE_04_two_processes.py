"""SE-04: the part of the agent that faces the network holds no privilege, and taking it over gains nothing."""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from hostler.agent.outside import frames
from hostler.agent.outside.frames import Answer, Ended, Ready, Received, Tls
from hostler.agent.outside.outside import Outside, Streams
from hostler.agent.outside.spawn import NOBODYS_ID, PROXIES, Listener
from hostler.base.envelope import TASK_TYPE, Envelope, Signature
from hostler.base.errors import HostlerError
from hostler.cli.demo_files import program
from hostler.wire.node import Tasks
from support.house import House, open_house
from support.workloads import until

UNITS = Path(__file__).parents[2] / "agent" / "systemd"
SLEEP = "node.smoke.sleep@v1"
NOOP = "node.smoke.noop@v1"


@pytest.fixture
def house() -> Iterator[House]:
    with open_house() as made:
        made.serve()
        made.enrol("a")
        made.start("a")
        yield made


def is_session(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):  # it has just ended
        return process.status() != psutil.STATUS_ZOMBIE and "hostler.agent.outside.process" in process.cmdline()
    return False


def session_of(house: House, name: str = "a") -> psutil.Process:
    def found() -> list[psutil.Process]:
        return [child for child in psutil.Process(house.pids[name]).children() if is_session(child)]

    seen: list[psutil.Process] = []
    house.until(lambda: bool(seen.extend(found()) or seen), name)
    return seen[0]


def word(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))


def test_SE_04_the_session_process_has_no_privilege_and_the_other_no_network(house: House) -> None:
    session = session_of(house)
    wanted = NOBODYS_ID if os.geteuid() == 0 else os.geteuid()
    assert word(session.pid, "Uid").split() == [str(wanted)] * 4
    assert word(session.pid, "NoNewPrivs") == "1"
    if os.geteuid() == 0:
        assert {int(word(session.pid, f"Cap{which}"), 16) for which in ("Prm", "Eff", "Bnd", "Amb")} == {0}
        assert word(session.pid, "Groups") == ""
    assert set(session.environ()) <= set(PROXIES)
    inner = psutil.Process(house.pids["a"])
    assert list(inner.net_connections("inet")) == [], "the part with privileges talks to nobody"
    assert {c.status for c in session.net_connections("inet")} == {psutil.CONN_ESTABLISHED}, "it opens no port"
    state = str(house.home / "a" / "state")
    held = {str(fd.readlink()) for fd in Path(f"/proc/{session.pid}/fd").iterdir()}
    assert not [path for path in held if path.startswith(state)]


def test_SE_04_work_goes_on_while_the_session_process_is_killed_and_is_reported_once(house: House) -> None:
    operation_id = house.submit(SLEEP, {"seconds": 2})
    house.until(lambda: house.operation(operation_id)["status"] == "running")
    for _ in range(3):
        killed = session_of(house)
        killed.send_signal(signal.SIGKILL)
        house.until(lambda killed=killed: not is_session(killed), "a")
        house.until(lambda: house.node("a")["connection"] == "connected", "a")
    assert house.finished(operation_id)["status"] == "succeeded"
    assert house.follow(operation_id)["operation.completed"] == 1
    assert len(house.receipts(operation_id)) == 1


class Taken:
    """A network process in hostile hands: once it has been asked something, it says whatever the test wants."""

    def __init__(self, *frames_: bytes) -> None:
        self._said = frames_
        self._writers: list[asyncio.StreamWriter] = []
        self._talking: list[asyncio.Task[None]] = []

    async def connect(self) -> Streams:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=theirs)
        self._writers.append(writer)
        self._talking.append(asyncio.create_task(self._talk(reader, writer)))
        return await asyncio.open_unix_connection(sock=ours)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encoded(Ready(uid=1)))
        if await reader.read(1):
            for frame in self._said:
                writer.write(frame)

    async def stop(self) -> None:
        for task in self._talking:
            task.cancel()
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


def encoded(frame: object) -> bytes:
    return framed(msgspec.msgpack.encode(frame))


HOSTILE = {
    "no frame at all": framed(secrets.token_bytes(200)),
    "a frame without end": b"\xff\xff\xff\xff" + bytes(100),
    "half a frame": framed(b"x" * 50)[:20],
    "a frame for the other side": encoded(frames.CloseLink(link=1)),
    "an unknown message": encoded(Received(link=1, name="Shell", value=msgspec.Raw(b"\xa2id"))),
    "fields that are not there": framed(msgspec.msgpack.encode({"type": "Ready", "uid": 1, "root": True})),
    "an answer nobody asked for": encoded(Answer(call=99, response=b"x")),
    "an end of no link": encoded(Ended(link=99, error_code="no_such_code", message="x" * 10_000)),
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_SE_04_whatever_a_taken_over_session_process_says_the_runner_stands(what: str) -> None:
    hostile = Taken(HOSTILE[what])
    outside = Outside(hostile.connect)
    running = asyncio.create_task(outside.run())
    with pytest.raises(HostlerError) as caught:
        await outside.ask(Tls(trust_domain="x", ca_pems=()), "h:1", "Renew", b"", timeout_s=-4.5)
    assert caught.value.code == "controller_unreachable"
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])
    await hostile.stop()
    await asyncio.sleep(0)


async def test_SE_04_a_frame_longer_than_any_is_refused_before_it_is_read() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data((frames.MAX_FRAME + 1).to_bytes(4) + b"x")
    with pytest.raises(HostlerError) as caught:
        await asyncio.wait_for(frames.read(reader, frames.TO_RUNNER), 2)
    assert caught.value.code == "malformed_envelope"


async def test_SE_04_fields_that_no_frame_has_are_refused() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(HOSTILE["fields that are not there"])
    with pytest.raises(HostlerError):
        await frames.read(reader, frames.TO_RUNNER)


async def test_SE_04_a_code_that_is_none_of_ours_says_only_that_the_call_failed() -> None:
    hostile = Taken(encoded(Answer(call=1, error_code="no_such_code", message="x")))
    outside = Outside(hostile.connect)
    running = asyncio.create_task(outside.run())
    with pytest.raises(HostlerError) as caught:
        await outside.ask(Tls(trust_domain="x", ca_pems=()), "h:1", "Renew", b"", timeout_s=10)
    assert (caught.value.code, caught.value.message) == ("controller_unreachable", "x")
    running.cancel()
    await asyncio.wait([running])
    await hostile.stop()
    await asyncio.sleep(0)


async def test_SE_04_a_task_that_the_session_process_made_up_is_still_judged() -> None:
    """What comes through is an envelope like any other: its signature is checked behind the socket."""
    forged = Tasks((Envelope(b"payload", TASK_TYPE, (Signature("k", b"s"),)),))
    value = frames.value_of(frames.received(1, forged))
    assert value == forged, "passed on as it is: admission refuses it as untrusted_key (T6)"


async def test_N1_a_link_whose_other_end_reads_nothing_ends_and_holds_up_no_call(monkeypatch) -> None:
    from hostler.agent.outside import links, serve
    from support.outside import InProcess

    async def stalled(self: links.Link) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(links.Link, "run", stalled)
    monkeypatch.setattr(serve, "_STALLED_S", 0.1)
    inside = InProcess()
    outside = Outside(inside.connect)
    running = asyncio.create_task(outside.run())
    tls = Tls(trust_domain="x", ca_pems=())
    try:
        async with asyncio.timeout(10), outside.link(tls, "h:1", b"", polls=False) as link:
            for _ in range(10):
                await link.send([b"x"])
            with pytest.raises(HostlerError, match="took nothing"):
                async for _ in link.values():
                    pass
        with pytest.raises(HostlerError, match="there is no call"):
            await outside.ask(tls, "h:1", "Shell", b"")
    finally:
        running.cancel()
        await asyncio.wait([running])
        await asyncio.wait(inside.servers, timeout=5)


def test_a_key_does_not_show_in_what_is_printed() -> None:
    tls = Tls(trust_domain="x", ca_pems=(), key_pem=b"-----BEGIN PRIVATE KEY-----", chain_pem=b"")
    assert "PRIVATE" not in repr(tls)
    assert "PRIVATE" not in repr(frames.OpenLink(link=1, tls=tls, address="a", polls=False, hello=b""))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take up two users")
async def test_SE_04_the_socket_is_for_one_user_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent != Path("/tmp") and str(parent).startswith("/tmp"):
            parent.chmod(0o755)
    listener = Listener(tmp_path / "s.sock", "daemon")
    waiting = asyncio.create_task(listener.connect())
    await until(lambda: (tmp_path / "s.sock").exists())
    assert (tmp_path / "s.sock").stat().st_mode & 0o777 == 0o600
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stranger.setblocking(False)
    stranger.connect(str(tmp_path / "s.sock"))  # root may open anything; it is turned away all the same
    async with asyncio.timeout(10):
        assert await asyncio.get_running_loop().sock_recv(stranger, 1) == b""
    stranger.close()
    assert not waiting.done()
    waiting.cancel()
    listener.stop()
    with pytest.raises(HostlerError):
        Listener(tmp_path / "s.sock", "root")


@pytest.mark.skipif(os.geteuid() != 0, reason="as another user it may start")
def test_SE_04_the_session_process_refuses_to_be_root(tmp_path: Path) -> None:
    command = [program("hostler-agent"), "session", "--session-socket", str(tmp_path / "s.sock")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert "must not run as root" in done.stderr


@pytest.mark.real
def test_SE_04_the_session_unit_is_exposed_less_than_two_and_a_half() -> None:
    unit = UNITS / "hostler-session.service"
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=25", str(unit)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
