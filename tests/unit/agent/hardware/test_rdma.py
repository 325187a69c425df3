"""SK-11: RDMA ports from sysfs, as the kernel documents them."""

import os
from pathlib import Path

import pytest

from hostler.agent.hardware import rdma
from support.hardware import plant


def test_ports_are_read_whole(tmp_path: Path) -> None:
    up, down = rdma.ports(plant("roce", tmp_path))
    assert (up.name, up.link_layer, up.rate, up.active) == ("mlx5_0/1", "ethernet", 100, True)
    assert up.gids == {"ib_or_roce_v1", "roce_v2"}
    assert up.counters == {"symbol_error": 0, "link_downed": 0, "out_of_sequence": 7}
    assert (down.name, down.state, down.phys_state, down.active) == ("mlx5_1/1", "DOWN", "Disabled", False)
    assert down.gids == frozenset()


def test_a_gid_of_zeros_is_not_set(tmp_path: Path) -> None:
    gids = plant("roce", tmp_path) / "sys/class/infiniband/mlx5_0/ports/1/gids"
    for index in ("0", "3"):
        (gids / index).write_text("0000:0000:0000:0000:0000:0000:0000:0000\n")
    assert rdma.ports(tmp_path)[0].gids == frozenset()


@pytest.mark.parametrize(
    ("name", "content"), [("state", "5"), ("state", "ACTIVE"), ("phys_state", "up"), ("rate", "fast"), ("rate", "-1")]
)
def test_what_the_kernel_does_not_tell_satisfies_nothing(tmp_path: Path, name: str, content: str) -> None:
    port = plant("infiniband", tmp_path) / "sys/class/infiniband/ibp24s1/ports/1"
    (port / name).write_text(content)
    (found,) = [one for one in rdma.ports(tmp_path) if one.device == "ibp24s1"]
    assert (found.rate == -1) if name == "rate" else not found.active


def test_hostile_names_and_files_do_not_stop_the_reading(tmp_path: Path) -> None:
    ports = plant("infiniband", tmp_path) / "sys/class/infiniband/ibp24s1/ports"
    for name in ("x", "-1", "9999", "²"):
        (ports / name).mkdir()
    (ports / "1/counters").mkdir()
    os.mkfifo(ports / "1/counters/symbol_error")
    (ports / "1/counters/link_downed").write_bytes(b"\xff\xfe")
    assert {one.name: one.counters for one in rdma.ports(tmp_path)} == {"ibp24s0/1": {}, "ibp24s1/1": {}}


def test_prerequisites_are_read_from_the_root(tmp_path: Path) -> None:
    assert not rdma.peer_memory(tmp_path)
    assert rdma.free_hugepages(tmp_path) == -1
    plant("nvidia_h100", tmp_path)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1 kB\nHugePages_Free:      512\nHugepagesize: 2048 kB\n")
    assert rdma.peer_memory(tmp_path)
    assert rdma.free_hugepages(tmp_path) == 512
    assert rdma.lockable_bytes() > 0
