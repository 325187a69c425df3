"""RN-04: which runtime is taken."""

import socket
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.containers.choose import capability, choose, present
from hostler.agent.containers.containerd import Containerd
from hostler.agent.containers.docker import Docker
from hostler.agent.containers.process import Process
from hostler.base.errors import HostlerError


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A socket's name is short."""
    monkeypatch.chdir(tmp_path)
    return Path()


def test_RN_04_only_sockets_that_are_there_count_in_order_of_preference(short: Path) -> None:
    sockets = {"docker": short / "d.sock", "containerd": short / "c.sock"}
    assert present(sockets, processes=False) == ()
    with socket.socket(socket.AF_UNIX) as docker, socket.socket(socket.AF_UNIX) as containerd:
        docker.bind("d.sock")
        assert present(sockets, processes=True) == ("docker", "process")
        containerd.bind("c.sock")
        assert present(sockets, processes=False) == ("containerd", "docker")
    (short / "c.sock").unlink()
    (short / "c.sock").write_text("no socket")
    assert present(sockets, processes=False) == ("docker",)


def test_what_a_node_reports() -> None:
    assert capability(("containerd", "process")) == "containerd,process"
    assert capability(()) == "none"


async def test_RN_04_the_first_that_answers_is_taken_and_a_named_one_always(tmp_path: Path) -> None:
    away: dict[str, Any] = {
        "containerd": Containerd(tmp_path / "c.sock", tmp_path, tmp_path),
        "docker": Docker(tmp_path / "d.sock"),
    }
    runtimes = away | {"process": Process(tmp_path / "p")}
    try:
        assert (await choose(runtimes)).name == "process"
        assert (await choose(runtimes, "docker")).name == "docker"
        for wanted in (({"process": runtimes["process"]}, "docker"), (away, ""), ({}, "")):
            with pytest.raises(HostlerError) as refused:
                await choose(*wanted)
            assert refused.value.code == "runtime_unavailable"
    finally:
        for each in runtimes.values():
            await each.close()


async def test_every_call_to_a_daemon_that_is_away_says_so(tmp_path: Path) -> None:
    for runtime in (Containerd(tmp_path / "c.sock", tmp_path, tmp_path), Docker(tmp_path / "d.sock")):
        calls = [
            runtime.available(), runtime.has_image("x"), runtime.pull(f"x/y@sha256:{'0' * 64}"), runtime.start("x"),
            runtime.status("x"), runtime.stats("x"), runtime.exec("x", ("/bin/true",), 1), runtime.stop("x", 0),
            runtime.remove("x"), runtime.list({}), runtime.attach("x", ("/bin/true",), tty=True),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(HostlerError) as refused:
                await call
            assert refused.value.code == "runtime_unavailable"
        with pytest.raises(HostlerError) as tagged:
            await runtime.pull("x/y:latest")
        assert tagged.value.code == "digest_required"
        await runtime.close()
