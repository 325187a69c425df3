"""What schedulers count with: processors, memory and disk, less what a control group leaves of them."""

import socket
from pathlib import Path

import msgspec
import pytest

from hostler.agent.capabilities import detect
from hostler.agent.containers.present import present_runtimes
from hostler.agent.containers.settings import ContainerSettings
from hostler.agent.hardware.size import cpu_millis, disk_bytes, memory_bytes


def put(root: Path, path: str, text: str) -> Path:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    return root


def test_a_control_group_bounds_what_there_is(tmp_path: Path) -> None:
    assert cpu_millis(tmp_path) >= 1000
    assert cpu_millis(put(tmp_path, "sys/fs/cgroup/cpu.max", "max 100000\n")) >= 1000
    assert cpu_millis(put(tmp_path, "sys/fs/cgroup/cpu.max", "50000 100000\n")) == 500
    whole = memory_bytes(tmp_path)
    assert whole > 1 << 28, "a root that steps work below says nothing of the machine's memory"
    assert memory_bytes(put(tmp_path, "sys/fs/cgroup/memory.max", "max\n")) == whole
    assert memory_bytes(put(tmp_path, "sys/fs/cgroup/memory.max", "1048576\n")) == 1_048_576


@pytest.mark.parametrize("text", ["", "-4", "much", "\0"])
def test_a_limit_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    assert memory_bytes(put(tmp_path, "sys/fs/cgroup/memory.max", text)) > 1 << 28
    put(tmp_path, "sys/fs/cgroup/cpu.max", text)
    assert cpu_millis(tmp_path) >= 1000


def test_disk_is_that_of_scratch_space(tmp_path: Path) -> None:
    assert disk_bytes(tmp_path, "") > 0


def test_RN_04_RN_05_a_node_says_which_runtimes_it_has(tmp_path: Path) -> None:
    settings = ContainerSettings(containerd_socket="/c.sock", docker_socket="/d.sock")

    def present(**changes: object) -> tuple[str, ...]:
        return present_runtimes(tmp_path, msgspec.structs.replace(settings, **changes))

    assert present() == ()
    assert detect(tmp_path, settings)["workload.runtimes"] == "none"
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(str(tmp_path / "d.sock"))
        assert present() == ("docker",)
        other.bind(str(tmp_path / "c.sock"))
        assert present() == ("containerd", "docker")
        assert present(runtime="docker") == ("docker",)
        assert present(runtime="none") == present(runtime="process") == ()
        assert present(allow_process=True) == ("containerd", "docker", "process")
        assert detect(tmp_path, settings)["workload.runtimes"] == "containerd,docker"
    assert detect(tmp_path)["workload.runtimes"] == "none", "who says nothing of containers runs none"
