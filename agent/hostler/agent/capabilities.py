"""What this node can be required to have (RS-08, OD-29)."""

import os
from pathlib import Path

from hostler.agent.hardware.fabric import fabric
from hostler.agent.hardware.gpu import gpus, series
from hostler.agent.hardware.pci import pci_devices
from hostler.agent.hardware.software import compute_runtime, conda, container_runtime, distro, init, mutation
from hostler.agent.hardware.tpu import tpu_type


def detect(root: Path) -> dict[str, str]:
    """Every key, always: what is not there is `none`, what is none of the named is `other`.

    Reads files below `root` and starts nothing; a few milliseconds. Never raises for what it finds there.
    """
    system = os.uname()
    bus = pci_devices(root)
    found = gpus(root, bus)
    return {
        "os.kernel": system.sysname.lower(),
        "os.machine": system.machine,
        "os.distro": distro(root),
        "host.init": init(root),
        "host.mutation": mutation(root),
        "gpu.vendor": found.vendor,
        "gpu.count": str(found.count),
        "gpu.architecture": found.architecture,
        "gpu.driver_series": series(found.driver),
        "compute.runtime": compute_runtime(root, found),
        "fabric.type": fabric(root, bus),
        "container.runtime": container_runtime(root),
        "tpu.type": tpu_type(bus),
        "python.conda": conda(root),
        "terminal": "none",  # this agent cannot open one
    }


def boot_id() -> str:
    """Changes with every boot of the kernel; "" where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
