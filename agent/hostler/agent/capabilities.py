"""What this node can be required to have (RS-08, OD-29)."""

import os
from pathlib import Path

from hostler.agent.containers.present import present_runtimes
from hostler.agent.containers.settings import ContainerSettings
from hostler.agent.hardware.fabric import fabric
from hostler.agent.hardware.gpu import gpus, series
from hostler.agent.hardware.pci import pci_devices
from hostler.agent.hardware.size import cpu_millis, disk_bytes, memory_bytes
from hostler.agent.hardware.software import compute_runtime, conda, container_runtime, distro, init, mutation
from hostler.agent.hardware.tpu import tpu_type

NO_CONTAINERS = ContainerSettings(runtime="none")


def detect(root: Path, containers: ContainerSettings = NO_CONTAINERS) -> dict[str, str]:
    """Every key, always: what is not there is `none`, what is none of the named is `other`.

    Args:
        containers: what the agent's configuration says of runtimes; without it there are none.

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
        "workload.runtimes": ",".join(present_runtimes(root, containers)) or "none",
        "cpu.millis": str(cpu_millis(root)),
        "memory.bytes": str(memory_bytes(root)),
        "disk.bytes": str(disk_bytes(root, containers.state_dir)),
    }


def boot_id() -> str:
    """Changes with every boot of the kernel; "" where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
