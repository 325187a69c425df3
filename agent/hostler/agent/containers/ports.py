"""Host ports for tasks: a name gets a number that nobody else here has, and keeps it over restarts (TE-09, TE-21)."""

import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence

import msgspec

from hostler.base.digest import canonical_json
from hostler.base.errors import error


def is_free(port: int) -> bool:
    """Whether something could listen there now, on every address."""
    with contextlib.closing(socket.socket(socket.AF_INET)) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


class PortBook:
    """Who holds which port of a range. `is_free` asks the machine, which knows of others than us.

    A number that was given back comes last again, so that a late packet for the last holder meets nobody.
    """

    def __init__(self, first: int, last: int, is_free: Callable[[int], bool] = is_free) -> None:
        self._first, self._count = first, last - first + 1
        self._next = 0
        self._is_free = is_free
        self._held: dict[str, dict[str, int]] = {}

    def take(self, attempt_uid: str, names: Sequence[str]) -> dict[str, int]:
        """The same ones again for an attempt that holds some. Raises `ports_exhausted`."""
        if attempt_uid in self._held:
            return dict(self._held[attempt_uid])
        taken = {port for ports in self._held.values() for port in ports.values()}
        given: dict[str, int] = {}
        for offset in range(self._count):
            if len(given) == len(names):
                break
            port = self._first + (self._next + offset) % self._count
            if port not in taken and self._is_free(port):
                given[names[len(given)]] = port
        if len(given) < len(names):
            last = self._first + self._count - 1
            raise error("ports_exhausted", f"no free port is left between {self._first} and {last} of this node")
        if given:
            self._next = (max(given.values()) + 1 - self._first) % self._count
            self._held[attempt_uid] = given
        return dict(given)

    def hold(self, attempt_uid: str, ports: dict[str, int]) -> None:
        """What an adopted container has already."""
        if ports:
            self._held[attempt_uid] = dict(ports)

    def held(self, attempt_uid: str) -> dict[str, int]:
        """By name; none for an attempt that has ended."""
        return dict(self._held.get(attempt_uid, {}))

    def free(self, attempt_uid: str) -> None:
        self._held.pop(attempt_uid, None)


def ports_text(ports: Mapping[str, int]) -> str:
    """As a label says them."""
    return canonical_json(dict(ports)).decode()


def ports_in(label: str) -> dict[str, int]:
    """What a label says; none for one that cannot be ours."""
    try:
        return msgspec.json.decode(label, type=dict[str, int])
    except msgspec.MsgspecError:
        return {}
