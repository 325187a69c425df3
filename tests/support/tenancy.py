"""Roots of hosts as directories, and a node's core that keeps what it knows of allocations beside its journal."""

from pathlib import Path
from typing import Any

PASSWD = "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
SHADOW = "root:*:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n"
GROUP = "root:x:0:\ndaemon:x:1:\nvideo:x:44:\n"
MOUNTINFO = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
STATUS = "Name:\tinit\nState:\tS (sleeping)\nPid:\t1\nPPid:\t0\nUid:\t0\t0\t0\t0\n"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1n0cSyVb9X0yT3pZ1q8mY2n0cSyVb9X0yT3pZ1q8mY tenant@example"


def plant(root: Path, files: dict[str, Any]) -> Path:
    """Writes files below `root`; a value of bytes or text, a mode with it as a pair."""
    for path, content in files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        data, mode = content if isinstance(content, tuple) else (content, 0o644)
        target.write_bytes(data.encode() if isinstance(data, str) else data)
        target.chmod(mode)
    return root


def machine_root(root: Path) -> Path:
    """As little of a host as every family needs."""
    for folder in ("tmp", "home", "srv", "dev", "var/tmp", "run"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    return plant(
        root,
        {
            "/etc/passwd": PASSWD,
            "/etc/shadow": (SHADOW, 0o640),
            "/etc/group": GROUP,
            "/etc/hostname": "host\n",
            "/proc/1/mountinfo": MOUNTINFO,
            "/proc/1/stat": "1 (init) S 0 1 1 0 -1\n",
            "/proc/1/status": STATUS,
        },
    )
