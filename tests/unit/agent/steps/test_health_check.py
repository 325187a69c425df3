"""SK-12: one passing and one failing case for each check that needs no network; the rest is in tests/real."""

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.host.host import Host
from hostler.agent.steps import health_check
from hostler.agent.steps.contract import Outcome, Truth
from hostler.agent.steps.health_check import KIND
from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.params.health import HealthCheck
from support.steps import Told, context_of

TCP = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1\n"
    "   1: 0100007F:9C40 0100007F:1F91 01 00000000:00000000 00:00000000 00000000     0        0 101 1\n"
)
TCP6 = (
    "  sl  local_address                         remote_address                        st\n"
    "   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 0 0 0 0 0 0\n"
)
MOUNTS = (
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
    "23 22 0:21 / /srv/my\\040models ro,relatime shared:2 master:1 - tmpfs tmpfs ro\n"
    "24 22 0:22 / /mnt rw - nfs4 nas:/a rw\n"
    "25 22 0:23 / /mnt ro - overlay overlay ro\n"
    "garbage\n"
)


def process(root: Path, pid: int, comm: str, exe: str = "", state: str = "S") -> None:
    directory = root / "proc" / str(pid)
    directory.mkdir(parents=True)
    (directory / "stat").write_text(f"{pid} ({comm}) {state} 1 1 1 0")
    if exe:
        (directory / "exe").symlink_to(exe)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    net = tmp_path / "proc/1/net"
    net.mkdir(parents=True)
    (net / "tcp").write_text(TCP)
    (net / "tcp6").write_text(TCP6)
    (tmp_path / "proc/1/mountinfo").write_text(MOUNTS)
    process(tmp_path, 10, "python3", "/usr/bin/python3.11")
    process(tmp_path, 11, "model (server) x", "/opt/model/bin/model-server-with-a-long-name")
    process(tmp_path, 12, "model-server-wi")
    process(tmp_path, 13, "nginx", "/usr/sbin/nginx (deleted)")
    process(tmp_path, 14, "nginx", "/usr/sbin/nginx", state="Z")
    (tmp_path / "proc/15").mkdir()
    (tmp_path / "srv").mkdir()
    (tmp_path / "srv/model.bin").write_bytes(b"weights")
    (tmp_path / "srv/model.bin").chmod(0o640)
    (tmp_path / "srv/link").symlink_to(tmp_path / "srv/model.bin")
    return tmp_path


async def run(root: Path, *checks: dict[str, Any], told: Told | None = None, **given: Any) -> Outcome:
    params = convert({"checks": checks, **given}, HealthCheck)
    return await KIND.apply(context_of(params, Host(root=root), told or Told()))


async def green(root: Path, **check: Any) -> str:
    outcome = await run(root, check)
    (result,) = outcome.outputs["results"]
    assert result["ok"]
    assert result["type"] == check["type"]
    assert result["duration_ms"] >= 0
    assert not outcome.changed
    return str(result["detail"])


async def red(root: Path, **check: Any) -> str:
    with pytest.raises(HostlerError) as caught:
        await run(root, check)
    assert caught.value.code == "health_red"
    return caught.value.message


@pytest.mark.parametrize("port", [8080, 22])
async def test_SK_12_port_passes_where_something_listens(root: Path, port: int) -> None:
    assert await green(root, type="port", port=port) == "listens"


@pytest.mark.parametrize("port", [40000, 8081])
async def test_SK_12_port_fails_where_nothing_listens_whatever_is_connected(root: Path, port: int) -> None:
    assert f"port {port}" in await red(root, type="port", port=port)


async def test_SK_12_port_fails_where_there_is_no_socket_table(tmp_path: Path) -> None:
    assert "no socket table" in await red(tmp_path, type="port", port=22)


@pytest.mark.parametrize(
    ("executable", "minimum"),
    [("python3.11", 1), ("python3", 1), ("model-server-with-a-long-name", 2), ("nginx", 1)],
)
async def test_SK_12_process_passes_by_file_or_own_name(root: Path, executable: str, minimum: int) -> None:
    await green(root, type="process", executable=executable, minimum=minimum)


@pytest.mark.parametrize(("executable", "minimum"), [("nginx", 2), ("apache2", 1), ("model", 1), ("python", 1)])
async def test_SK_12_process_fails_when_too_few_live(root: Path, executable: str, minimum: int) -> None:
    assert "running" in await red(root, type="process", executable=executable, minimum=minimum)


async def test_SK_12_file_passes_by_digest_size_and_mode(root: Path) -> None:
    digest = hashlib.sha256(b"weights").hexdigest()
    await green(root, type="file", path="/srv/model.bin", sha256=digest, min_bytes=7, mode="0640")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"path": "/srv/absent"}, "no such file"),
        ({"path": "/absent/absent"}, "no such file"),
        ({"path": "/srv"}, "no such file"),
        ({"path": "/srv/link"}, "no such file"),
        ({"path": "/srv/../srv/model.bin"}, "not a plain absolute path"),
        ({"path": "/srv/model.bin", "min_bytes": 8}, "7 bytes"),
        ({"path": "/srv/model.bin", "mode": "0600"}, "mode 0640"),
        ({"path": "/srv/model.bin", "sha256": "0" * 64}, "sha256"),
    ],
)
async def test_SK_12_file_fails_and_says_why(root: Path, wanted: dict[str, Any], said: str) -> None:
    assert said in await red(root, type="file", **wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        {"path": "/"},
        {"path": "/srv/my models", "fs_type": "tmpfs", "read_only": True},
        {"path": "/srv/my models/"},
        {"path": "/mnt", "fs_type": "overlay"},
        {"path": "/", "read_only": False},
    ],
)
async def test_SK_12_mount_passes(root: Path, wanted: dict[str, Any]) -> None:
    await green(root, type="mount", **wanted)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"path": "/srv"}, "nothing is mounted"),
        ({"path": "/mnt", "fs_type": "nfs4"}, "a overlay is mounted"),
        ({"path": "/mnt", "read_only": False}, "read-only"),
        ({"path": "/", "read_only": True}, "writable"),
    ],
)
async def test_SK_12_mount_fails_and_says_why(root: Path, wanted: dict[str, Any], said: str) -> None:
    assert said in await red(root, type="mount", **wanted)


async def test_SK_12_disk_passes_with_room(root: Path) -> None:
    assert "bytes free" in await green(root, type="disk", path="/srv", min_free_bytes=1)


@pytest.mark.parametrize(
    "wanted",
    [
        {"path": "/srv", "min_free_bytes": 1 << 60},
        {"path": "/srv", "min_free_percent": 100.1},
        {"path": "/gone"},
    ],
)
async def test_SK_12_disk_fails_without(root: Path, wanted: dict[str, Any]) -> None:
    assert "disk /" in await red(root, type="disk", **wanted)


async def test_SK_12_unit_fails_clearly_where_there_is_no_systemd(root: Path) -> None:
    assert "no systemd answers" in await red(root, type="unit", unit="ssh.service")


async def test_the_first_red_check_is_named_and_all_are_logged(root: Path) -> None:
    told = Told()
    checks = (
        {"type": "disk", "path": "/srv", "name": "room"},
        {"type": "port", "port": 1, "name": "web"},
        {"type": "port", "port": 2},
    )
    with pytest.raises(HostlerError) as caught:
        await run(root, *checks, told=told)
    assert caught.value.message == "check web did not pass: nothing listens there, and 1 more of 3"
    assert [line.split(":")[0] for line in told.lines] == [
        "check room passed",
        "check web failed",
        "check port 2 failed",
    ]
    assert told.progress[-1] == (3, 3, "checks")


async def test_a_check_is_tried_again_until_it_passes(root: Path) -> None:
    async def heal() -> None:
        await asyncio.sleep(0.03)
        (root / "srv/late").write_bytes(b"x")

    async with asyncio.TaskGroup() as group:
        group.create_task(heal())
        check = {"type": "file", "path": "/srv/late"}
        outcome = await run(root, check, within_seconds=5, interval_seconds=0.05)
    assert outcome.outputs["results"][0]["ok"]


async def test_time_for_a_red_check_ends_with_within_seconds(root: Path) -> None:
    started = time.monotonic()
    with pytest.raises(HostlerError):
        await run(root, {"type": "port", "port": 1}, within_seconds=0.12, interval_seconds=0.05)
    assert 0.1 < time.monotonic() - started < 10


async def test_the_steps_deadline_bounds_the_tries(root: Path) -> None:
    params = convert({"checks": [{"type": "port", "port": 1}], "within_seconds": 3600}, HealthCheck)
    started = time.monotonic()
    with pytest.raises(HostlerError) as caught:
        await KIND.apply(context_of(params, Host(root=root), Told(), deadline_s=0.05))
    assert caught.value.code == "health_red"
    assert time.monotonic() - started < 30


async def test_cancelling_ends_the_checks_at_once(root: Path) -> None:
    params = convert({"checks": [{"type": "port", "port": 1}], "within_seconds": 3600}, HealthCheck)
    cancelled = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, cancelled.set)
    started = time.monotonic()
    with pytest.raises(HostlerError) as caught:
        await KIND.apply(context_of(params, Host(root=root), Told(), cancelled=cancelled))
    assert caught.value.code == "canceled"
    assert time.monotonic() - started < 30


async def test_K5_a_hung_file_system_holds_one_thread_however_often_it_is_tried(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    answers = threading.Event()

    def hung(check: Any, host: Host) -> health_check.Seen:
        calls.append(check)
        answers.wait(60)
        return health_check.Seen(True, "late")

    looks: dict[type, Callable[[Any, Host], health_check.Seen]] = dict(health_check._BLOCKS)
    for kind in looks:
        monkeypatch.setitem(health_check._BLOCKS, kind, hung)
    with pytest.raises(HostlerError) as caught:
        await run(
            root,
            {"type": "disk", "path": "/srv"},
            within_seconds=0.2,
            interval_seconds=0.05,
            check_timeout_seconds=0.03,
        )
    answers.set()
    assert "no answer in 0.03 s" in caught.value.message
    assert len(calls) == 1


async def test_plan_lists_the_checks_and_probe_looks_anew(root: Path) -> None:
    params = convert(
        {
            "checks": [
                {"type": "http", "url": "https://x.test:8443/ready?token=secret"},
                {"type": "port", "port": 1},
            ]
        },
        HealthCheck,
    )
    context = context_of(params, Host(root=root), Told())
    plan = await KIND.plan(context)
    assert [(change.action, change.detail) for change in plan.changes] == [
        ("check", "http https://x.test:8443/ready"),
        ("check", "port 1"),
    ]
    assert (await KIND.probe(context)).truth is Truth.NOT_DONE
