"""What this node can be required to have. A small set for now; the resolver will detect the rest."""

import os
import platform
from pathlib import Path

from hostler.agent.host.conda_places import CONDA_PLACES


def detect(root: Path) -> dict[str, str]:
    """Capability keys and values (RS-08, OD-29), from the kernel and the file tree under `root`."""
    system = os.uname()
    found = {
        "os.kernel": system.sysname.lower(),
        "os.machine": system.machine,
        "host.mutation": "full" if os.geteuid() == 0 else "limited",
        "python.conda": "true" if any(os.access(place, os.X_OK) for place in CONDA_PLACES) else "false",
        "host.init": "systemd" if (root / "run/systemd/system").is_dir() else "other",
    }
    try:
        release = platform.freedesktop_os_release()
        found["os.distro"] = f"{release.get('ID', 'unknown')}-{release.get('VERSION_ID', '')}".rstrip("-")
    except OSError:
        found["os.distro"] = "unknown"
    return found


def boot_id() -> str:
    """Changes with every boot of the kernel; "" where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
