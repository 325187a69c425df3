"""RDMA ports as sysfs shows them (kernel ABI document `sysfs-class-infiniband`), and what collectives need besides."""

import re
import resource
from dataclasses import dataclass, field
from pathlib import Path

from hostler.agent.hardware.tree import entries, is_there, number, read

_RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) Gb/sec\b")
_STATE = re.compile(r"[0-9]{1,2}: (\w{1,32})")
_GID_TYPES = {"IB/RoCE v1": "ib_or_roce_v1", "RoCE v2": "roce_v2"}
_UNLIMITED = 1 << 63
_HUGEPAGES = re.compile(r"^HugePages_Free:\s+([0-9]{1,15})$", re.MULTILINE)


@dataclass(frozen=True)
class Port:
    """One port. What the kernel does not tell in its form is "" or -1, which satisfies nothing.

    Attributes:
        state: ACTIVE, DOWN, INIT, ARMED.
        phys_state: LinkUp, Disabled, Polling and so on.
        rate: in Gb/s.
        gids: types of the GIDs that are set; `unknown` for one that says nothing else.
    """

    device: str
    port: int
    link_layer: str = ""
    state: str = ""
    phys_state: str = ""
    rate: float = -1
    gids: frozenset[str] = frozenset()
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As the rdma tool writes it: device/port."""
        return f"{self.device}/{self.port}"

    @property
    def active(self) -> bool:
        return self.state == "ACTIVE" and self.phys_state == "LinkUp"


def ports(root: Path) -> tuple[Port, ...]:
    """Every port of every device, by name."""
    devices = root / "sys/class/infiniband"
    return tuple(
        _port(devices / device / "ports" / name, device, int(name))
        for device in entries(devices)
        for name in entries(devices / device / "ports")
        if re.fullmatch(r"[0-9]{1,3}", name)
    )


def peer_memory(root: Path) -> bool:
    """Whether a driver has announced the devices' memory to the RDMA core."""
    modules = ("sys/module/nvidia_peermem", "sys/module/nv_peer_mem", "sys/kernel/mm/memory_peers/amdkfd")
    return any(is_there(root / path) for path in modules)


def lockable_bytes() -> int:
    """How much memory this process, and what it starts, may lock."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def free_hugepages(root: Path) -> int:
    """Of the default size; -1 where the kernel does not tell."""
    match = _HUGEPAGES.search(read(root / "proc/meminfo", 8192))
    return int(match[1]) if match else -1


def _port(path: Path, device: str, name: int) -> Port:
    rate = _RATE.match(read(path / "rate", 64))
    return Port(
        device=device,
        port=name,
        link_layer=read(path / "link_layer", 32).lower(),
        state=_state(path / "state"),
        phys_state=_state(path / "phys_state"),
        rate=float(rate[1]) if rate else -1,
        gids=_gids(path),
        counters=_counters(path / "hw_counters") | _counters(path / "counters"),
    )


def _state(path: Path) -> str:
    match = _STATE.fullmatch(read(path, 64))
    return match[1] if match else ""


def _gids(path: Path) -> frozenset[str]:
    """A GID of zeros is not set."""
    kinds = set()
    for index in entries(path / "gids"):
        if set(read(path / "gids" / index, 64)) - set("0:"):
            said = read(path / "gid_attrs" / "types" / index, 32)
            kinds.add(_GID_TYPES.get(said, "unknown"))
    return frozenset(kinds)


def _counters(path: Path) -> dict[str, int]:
    values = {name: number(read(path / name, 32)) for name in entries(path)}
    return {name: value for name, value in values.items() if value >= 0}
