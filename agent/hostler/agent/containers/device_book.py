"""Which devices of this node are given to whom: named by CDI where there is a specification, else by their nodes.

The node keeps its own books: the scheduler counts, the node chooses, and what it chose stands on the container.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hostler.agent.containers.cdi import cdi_devices
from hostler.agent.hardware.tree import entries, is_there
from hostler.base.errors import error

GPU, TPU = "gpu", "tpu"
# Per kind: where single devices show, and what each of them needs besides. The first place that has any counts.
_PLACES: dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    GPU: (
        ("dev", r"nvidia(\d+)", ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")),
        ("dev/dri", r"renderD(\d+)", ("/dev/kfd",)),
    ),
    TPU: (("dev", r"accel(\d+)", ()), ("dev/vfio", r"(\d+)", ("/dev/vfio/vfio",))),
}


@dataclass(frozen=True)
class Given:
    """One device. `cdi` is its qualified name, "" where it has none; `nodes` are those that a container gets.

    Attributes:
        own: the nodes that are there while the device is (K8).
    """

    kind: str
    name: str
    cdi: str
    nodes: tuple[str, ...]
    own: tuple[str, ...]


class Devices(Protocol):
    """None is given twice while it is held."""

    def take(self, attempt_uid: str, kind: str, count: int) -> tuple[Given, ...]:
        """The same ones again for an attempt that holds some. Raises `incompatible`, `devices_exhausted`."""

    def hold(self, attempt_uid: str, label: str) -> tuple[Given, ...]:
        """What an adopted container has already, by its label; those that are still here."""

    def free(self, attempt_uid: str) -> None: ...


def found(root: Path) -> tuple[Given, ...]:
    """Every GPU and TPU below a root."""
    named = [Given(one.class_, one.name, one.qualified, (), one.nodes) for one in cdi_devices(root)]
    missing = [kind for kind in (GPU, TPU) if not any(one.kind == kind for one in named)]
    rest = [one for kind in missing for one in _by_node(root, kind)]
    return (*(one for one in named if one.kind in _PLACES), *rest)


def _by_node(root: Path, kind: str) -> tuple[Given, ...]:
    for place, pattern, besides in _PLACES[kind]:
        matches = [match for name in entries(root / place) if (match := re.fullmatch(pattern, name))]
        if matches:
            shared = tuple(path for path in besides if is_there(root / path.lstrip("/")))
            each = sorted(matches, key=lambda match: int(match[1]))
            return tuple(Given(kind, m[1], "", (f"/{place}/{m[0]}", *shared), (f"/{place}/{m[0]}",)) for m in each)
    return ()


class DeviceBook:
    """Who holds which device. `look` finds those of this node; asked each time, for devices come and go."""

    def __init__(self, look: Callable[[], tuple[Given, ...]]) -> None:
        self._look = look
        self._held: dict[str, frozenset[str]] = {}

    def take(self, attempt_uid: str, kind: str, count: int) -> tuple[Given, ...]:
        here = [one for one in self._look() if one.kind == kind]
        if attempt_uid in self._held:
            return tuple(one for one in here if _word(one) in self._held[attempt_uid])
        if len(here) < count:
            raise error("incompatible", f"this node has {len(here)} {kind} devices, {count} are asked for")
        held = frozenset[str]().union(*self._held.values())
        free = [one for one in here if _word(one) not in held]
        if len(free) < count:
            raise error("devices_exhausted", f"{len(free)} of this node's {len(here)} {kind} devices are free")
        given = tuple(free[:count])
        self._held[attempt_uid] = frozenset(map(_word, given))
        return given

    def hold(self, attempt_uid: str, label: str) -> tuple[Given, ...]:
        words = frozenset(label.split())
        if words:
            self._held[attempt_uid] = words
        return tuple(one for one in self._look() if _word(one) in words)

    def free(self, attempt_uid: str) -> None:
        self._held.pop(attempt_uid, None)


def label_of(given: tuple[Given, ...]) -> str:
    """As `hold` reads it."""
    return " ".join(map(_word, given))


def _word(one: Given) -> str:
    return f"{one.kind}={one.name}"
