"""GPUs: whose they are, of which generation, under which driver.

Ids are those of the PCI ID Repository (pci-ids.ucw.cz); graphics targets those of LLVM's AMDGPU backend. Tables
are kept short: what they lack is `unknown`, never guessed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hostler.agent.hardware.pci import ACCELERATOR, DISPLAY_3D, DISPLAY_OTHER, VGA, PciDevice
from hostler.agent.hardware.tree import entries, is_there, read

NVIDIA, AMD, INTEL, GOOGLE = 0x10DE, 0x1002, 0x8086, 0x1AE0
_VENDORS = {NVIDIA: "nvidia", AMD: "amd", INTEL: "intel"}
_COMPUTE = (DISPLAY_3D, DISPLAY_OTHER, ACCELERATOR)

# NVIDIA numbers a chip's boards in one block: first id, last id, generation
_NVIDIA_BLOCKS = (
    (0x1D80, 0x1DFF, "volta"),
    (0x1E00, 0x1FFF, "turing"),
    (0x2180, 0x21FF, "turing"),
    (0x2080, 0x20FF, "ampere"),
    (0x2200, 0x223F, "ampere"),
    (0x2400, 0x25FF, "ampere"),
    (0x2300, 0x23FF, "hopper"),
    (0x2680, 0x28FF, "ada"),
    (0x2900, 0x29FF, "blackwell"),
    (0x2B80, 0x2DFF, "blackwell"),
    (0x2F00, 0x2FFF, "blackwell"),
    (0x3180, 0x31FF, "blackwell"),
)
_AMD_BOARDS = {
    0x738C: "cdna1", 0x738E: "cdna1",
    0x7408: "cdna2", 0x740C: "cdna2", 0x740F: "cdna2",
    0x74A0: "cdna3", 0x74A1: "cdna3", 0x74A2: "cdna3", 0x74A5: "cdna3", 0x74A9: "cdna3", 0x74B5: "cdna3",
    0x75A0: "cdna4", 0x75A3: "cdna4",
}  # fmt: skip
_INTEL_BLOCKS = (
    (0x0BD0, 0x0BDF, "xe_hpc"),
    (0x4F80, 0x4F8F, "xe_hpg"),
    (0x5690, 0x56BF, "xe_hpg"),
    (0x56C0, 0x56CF, "xe_hpg"),
    (0xE200, 0xE2FF, "xe2"),
)
_VERSION = re.compile(r"(\d{1,5})\.(\d{1,5})(?:\.\d{1,5}){0,3}(?![\d.])")


@dataclass(frozen=True)
class Gpus:
    """`vendor` is that of most value to a resolver when a node mixes them: compute boards come before displays.

    Attributes:
        architecture: `unknown` for an id that no table holds, `none` without a device.
        driver: version as the kernel tells it; "" where no driver is loaded, `unknown` where it tells none.
        devices: those of that vendor.
    """

    vendor: str
    architecture: str = "none"
    driver: str = ""
    devices: tuple[PciDevice, ...] = ()

    @property
    def count(self) -> int:
        return len(self.devices)


NONE = Gpus("other")


def gpus(root: Path, devices: Sequence[PciDevice]) -> Gpus:
    """What a workload could compute on. Displays of other makers, such as a server's own console, are not counted."""
    found = _devices(devices)
    if not found:
        return NONE
    vendor = min((one.vendor for one in found), key=_rank)
    own = tuple(one for one in found if one.vendor == vendor)
    name = _VENDORS.get(vendor, "other")
    return Gpus(name, _architecture(own), _driver(root, name), own)


def series(driver: str) -> str:
    """Major and minor number of a driver: 535.161.08 is of series 535.161."""
    if not driver:
        return "none"
    match = _VERSION.match(driver)
    return f"{match[1]}.{match[2]}" if match else "unknown"


def _devices(devices: Sequence[PciDevice]) -> list[PciDevice]:
    """Compute boards if there are any, else displays of a maker whose displays compute."""
    boards = [one for one in devices if one.kind in _COMPUTE and one.vendor != GOOGLE]
    known = [one for one in boards if one.vendor in _VENDORS]
    displays = [one for one in devices if one.kind == VGA and one.vendor in _VENDORS]
    return known or displays or boards


def _rank(vendor: int) -> int:
    order = tuple(_VENDORS)
    return order.index(vendor) if vendor in order else len(order)


def _architecture(devices: Sequence[PciDevice]) -> str:
    """One name if all agree; a node of two generations promises neither."""
    names = {_generation(one) for one in devices}
    return names.pop() if len(names) == 1 else "mixed"


def _generation(one: PciDevice) -> str:
    if one.vendor == AMD:
        return _AMD_BOARDS.get(one.device, "unknown")
    blocks = {NVIDIA: _NVIDIA_BLOCKS, INTEL: _INTEL_BLOCKS}.get(one.vendor, ())
    return next((name for first, last, name in blocks if first <= one.device <= last), "unknown")


def _driver(root: Path, vendor: str) -> str:
    if vendor == "nvidia":
        return _nvidia_driver(root)
    modules = {"amd": ("amdgpu",), "intel": ("xe", "i915")}.get(vendor, ())
    loaded = next((root / "sys/module" / name for name in modules if is_there(root / "sys/module" / name)), None)
    if loaded is None:
        return ""
    return read(loaded / "version", 64) or "unknown"  # a module of the kernel's own tree has no version file


def _nvidia_driver(root: Path) -> str:
    """From /sys/module, else from the first line of /proc/driver/nvidia/version."""
    said = read(root / "sys/module/nvidia/version", 64)
    if said:
        return said
    first = read(root / "proc/driver/nvidia/version").partition("\n")[0]
    match = re.search(r"Kernel Module(?: for \S+)?\s+(\d[\d.]{0,30})\s", first + " ")
    if match:
        return match[1]
    return "unknown" if first or entries(root / "proc/driver/nvidia/gpus") else ""
