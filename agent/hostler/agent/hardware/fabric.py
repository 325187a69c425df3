"""Which network a node's devices talk over: InfiniBand, RoCE, NVLink, plain Ethernet, or none."""

from collections.abc import Sequence
from pathlib import Path

from hostler.agent.hardware.gpu import NVIDIA
from hostler.agent.hardware.pci import BRIDGE_OTHER, PciDevice
from hostler.agent.hardware.tree import entries, is_there, read

_ETHERNET = "1"  # ARPHRD_ETHER


def fabric(root: Path, devices: Sequence[PciDevice]) -> str:
    """The first of them that is there: what spans nodes comes before what joins the devices of one."""
    layers = _link_layers(root)
    if "InfiniBand" in layers:
        return "infiniband"
    if "Ethernet" in layers:
        return "roce"
    if _nvlink(root, devices):
        return "nvlink"
    return "ethernet" if _ethernet(root) else "none"


def _link_layers(root: Path) -> set[str]:
    """Of every port of every RDMA device."""
    rdma = root / "sys/class/infiniband"
    ports = [rdma / name / "ports" / port for name in entries(rdma) for port in entries(rdma / name / "ports")]
    return {read(port / "link_layer", 32) for port in ports}


def _nvlink(root: Path, devices: Sequence[PciDevice]) -> bool:
    """An NVSwitch, on the bus or under its driver. Boards that are joined without a switch do not show here."""
    switches = any(one.vendor == NVIDIA and one.kind == BRIDGE_OTHER for one in devices)
    return switches or bool(entries(root / "proc/driver/nvidia-nvswitch/devices"))


def _ethernet(root: Path) -> bool:
    """A network interface with a device behind it; bridges and tunnels have none."""
    net = root / "sys/class/net"
    return any(is_there(net / name / "device") and read(net / name / "type", 16) == _ETHERNET for name in entries(net))
