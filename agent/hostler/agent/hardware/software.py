"""What runs on the hardware: compute and container runtimes, conda, the operating system."""

import os
import re
from pathlib import Path

from hostler.agent.hardware.gpu import Gpus
from hostler.agent.hardware.tree import entries, is_socket, is_there, read
from hostler.agent.host.conda_places import CONDA_PLACES

_LIBRARIES = (
    "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib",
    "usr/local/lib", "usr/local/nvidia/lib64", "opt/rocm/lib",
)  # fmt: skip
_BINARIES = ("usr/bin", "usr/sbin", "usr/local/bin", "usr/local/sbin")
# vendor: what the runtime is called, its library, what the driver shows once it can compute
_RUNTIMES = {
    "nvidia": ("cuda", ("libcuda.so.1",), ("sys/module/nvidia", "proc/driver/nvidia/version")),
    "amd": ("rocm", ("libhsa-runtime64.so.1",), ("sys/class/kfd/kfd",)),
    "intel": ("level_zero", ("libze_intel_gpu.so.1",), ("sys/module/xe", "sys/module/i915")),
}
_DOCKER = (("run/docker.sock", "var/run/docker.sock"), ("dockerd",))
_CONTAINERD = (("run/containerd/containerd.sock", "run/k3s/containerd/containerd.sock"), ("containerd",))
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]{0,63}")
_OS_RELEASE = re.compile(r"""^(ID|VERSION_ID)=(?:"([^"\n]*)"|'([^'\n]*)'|(\S*))\s*$""", re.MULTILINE)


def compute_runtime(root: Path, found: Gpus) -> str:
    """What the node's own GPU can be programmed with: library and driver are both there, else `none`."""
    name, libraries, driver = _RUNTIMES.get(found.vendor, ("none", (), ()))
    if not found.count or not any(is_there(root / sign) for sign in driver):
        return "none"
    return name if any(_library(root, library) for library in libraries) else "none"


def container_runtime(root: Path) -> str:
    """`docker` where it is, because it brings a containerd of its own; `other` also where there is neither."""
    for name, (sockets, binaries) in (("docker", _DOCKER), ("containerd", _CONTAINERD)):
        if any(is_socket(root / path) for path in sockets) or any(_binary(root, binary) for binary in binaries):
            return name
    return "other"


def conda(root: Path) -> str:
    """`present` where `python.env.create` would find it, and nowhere else."""
    return "present" if any(is_there(root / place.lstrip("/")) for place in CONDA_PLACES) else "none"


def distro(root: Path) -> str:
    """ID-VERSION_ID of os-release(5), `unknown` where it says nothing that can be used."""
    text = read(root / "etc/os-release") or read(root / "usr/lib/os-release")
    said = {match[1]: next(filter(None, match.groups()[1:]), "") for match in _OS_RELEASE.finditer(text)}
    words = [said.get(name, "") for name in ("ID", "VERSION_ID")]
    kept = [word for word in words if _WORD.fullmatch(word)]
    return "-".join(kept) if _WORD.fullmatch(words[0]) else "unknown"


def init(root: Path) -> str:
    """sd_booted(3): the directory is there while systemd is the first process."""
    return "systemd" if is_there(root / "run/systemd/system") else "other"


def mutation(root: Path) -> str:
    """`full` for root on a node whose /usr can be written to, else `none`: kinds that change hosts stay away (X14)."""
    try:
        fixed = bool(os.statvfs(root / "usr").f_flag & os.ST_RDONLY)
    except OSError:
        fixed = False
    return "none" if os.geteuid() != 0 or fixed else "full"


def _library(root: Path, name: str) -> bool:
    if any(is_there(root / place / name) for place in _LIBRARIES):
        return True
    versions = (place for place in entries(root / "opt") if place.startswith("rocm"))
    return any(is_there(root / "opt" / place / "lib" / name) for place in versions)


def _binary(root: Path, name: str) -> bool:
    return any(is_there(root / place / name) for place in _BINARIES)
