"""RN-04, RN-05: which runtimes a node has."""

from pathlib import Path

import pytest

from hostler.agent.containers.choose import open_runtimes
from hostler.agent.containers.containerd import Containerd
from hostler.agent.containers.docker import Docker
from hostler.agent.containers.settings import ContainerSettings
from hostler.base.errors import HostlerError


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({}, ["containerd", "docker"]),
        ({"allow_process": True}, ["containerd", "docker", "process"]),
        ({"runtime": "docker"}, ["docker"]),
        ({"runtime": "process"}, []),
        ({"runtime": "process", "allow_process": True}, ["process"]),
        ({"runtime": "none", "allow_process": True}, []),
    ],
)
def test_RN_04_RN_05_a_node_has_what_its_root_admits(said: dict[str, object], names: list[str], tmp_path: Path) -> None:
    made = open_runtimes(ContainerSettings(**said), tmp_path, "nod_1")  # type: ignore[arg-type]
    assert list(made) == names
    assert [runtime.name for runtime in made.values()] == names


async def test_every_call_to_a_daemon_that_is_away_says_so(tmp_path: Path) -> None:
    for runtime in (Containerd(tmp_path / "c.sock", tmp_path, tmp_path), Docker(tmp_path / "d.sock", "nod_1")):
        calls = [
            runtime.available(), runtime.has_image("x"), runtime.pull(f"x/y@sha256:{'0' * 64}"), runtime.start("x"),
            runtime.status("x"), runtime.stats("x"), runtime.exec("x", ("/bin/true",), 1), runtime.stop("x", 0),
            runtime.remove("x"), runtime.list({}), runtime.attach("x", ("/bin/true",), tty=None),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(HostlerError) as refused:
                await call
            assert refused.value.code == "runtime_unavailable"
        with pytest.raises(HostlerError) as tagged:
            await runtime.pull("x/y:latest")
        assert tagged.value.code == "digest_required"
        await runtime.close()
