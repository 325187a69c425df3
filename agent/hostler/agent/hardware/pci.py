"""The PCI bus as sysfs shows it: vendor, device and class of every function."""

from pathlib import Path
from typing import NamedTuple

from hostler.agent.hardware.tree import entries, number, read

# class code without the programming interface (PCI Code and ID Assignment Specification)
VGA, DISPLAY_3D, DISPLAY_OTHER, BRIDGE_OTHER, ACCELERATOR = 0x0300, 0x0302, 0x0380, 0x0680, 0x1200


class PciDevice(NamedTuple):
    """`address` is domain:bus:device.function as sysfs names it."""

    address: str
    vendor: int
    device: int
    kind: int


def pci_devices(root: Path) -> tuple[PciDevice, ...]:
    """Every function with a whole set of ids, by address."""
    bus = root / "sys/bus/pci/devices"
    found = []
    for address in entries(bus):
        vendor, device, kind = (number(read(bus / address / name, 32)) for name in ("vendor", "device", "class"))
        if 0 <= vendor <= 0xFFFF and 0 <= device <= 0xFFFF and 0 <= kind <= 0xFFFFFF:
            found.append(PciDevice(address, vendor, device, kind >> 8))
    return tuple(found)
