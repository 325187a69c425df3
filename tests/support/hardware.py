"""Plants the recorded hardware of `tests/fixtures/hardware` below a root."""

import os
import socket
from pathlib import Path
from typing import Any

import yaml

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "hardware"
NAMES = tuple(sorted(path.stem for path in FIXTURES.glob("*.yaml")))


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FIXTURES / f"{name}.yaml").read_text())
    return found


def plant(name: str, root: Path) -> Path:
    """The tree of one fixture below `root`, which is given back."""
    tree = recorded(name)
    for path, content in tree.get("files", {}).items():
        _parent(root / path).write_text(str(content) + "\n")
    for path, target in tree.get("links", {}).items():
        _parent(root / path).symlink_to(target)
    for path in tree.get("directories", ()):
        (root / path).mkdir(parents=True, exist_ok=True)
    for path in tree.get("sockets", ()):
        _bind(_parent(root / path))
    for address, ids in tree.get("pci", {}).items():
        device = root / "sys/bus/pci/devices" / address
        device.mkdir(parents=True)
        for name_, value in zip(("vendor", "device", "class"), ids.split(), strict=True):
            (device / name_).write_text(value + "\n")
    return root


def _parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _bind(path: Path) -> None:
    """By way of its directory's descriptor: a socket's own name has to be short."""
    directory = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
