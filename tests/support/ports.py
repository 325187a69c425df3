"""Ports for tests: below those that the kernel hands to whoever connects, and no two runs on a machine share any.

A run holds blocks of them by the names of abstract sockets: nobody else can take such a name, and it is free again with
the process, however that ended. Within a block a port is looked at before it is given out.
"""

import itertools
import os
import socket
from collections.abc import Iterator

from hostler.cli.demo_files import Ports


class Blocks:
    """The part of `ports` that is this process's own; it grows by a block of `size` whenever one is used up."""

    def __init__(self, ports: range, size: int) -> None:
        self._ports, self._size = ports, size
        self._held: list[int] = []  # descriptors, open until the process ends
        self._pid = 0
        self.own: list[int] = []

    def grow(self) -> bool:
        """One more block. False where others have all."""
        if self._pid != os.getpid():  # a forked child holds its parent's names with it, and may not use them
            self._pid, self.own = os.getpid(), []
        for first in self._ports[:: self._size]:
            name = socket.socket(socket.AF_UNIX)
            try:
                name.bind(f"\0hostler-test-ports-{first}")
            except OSError:
                name.close()
                continue
            self._held.append(name.detach())
            self.own += range(first, first + self._size)
            return True
        return False

    def close(self) -> None:
        """Gives them up."""
        while self._held:
            os.close(self._held.pop())
        self.own = []

    def mine(self) -> list[int]:
        """All of them so far, one block at least."""
        if self._pid != os.getpid() or not self.own:
            assert self.grow(), f"other runs of the tests have all of {self._ports}"
        return self.own


def _servers(blocks: Blocks) -> Iterator[int]:
    place = 0
    while True:
        for _ in range(len(blocks.mine())):
            place = (place + 1) % len(blocks.own)
            if is_free(blocks.own[place]):
                yield blocks.own[place]
                break
        else:
            assert blocks.grow(), "every port of this run is in use"


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


_ports = _servers(Blocks(range(10_000, 20_000), 400))
_nodes = Blocks(range(20_000, 32_000), 1000)
_numbers = itertools.count()


def next_port() -> int:
    """One that nothing listens on, and that this run does not give out again soon."""
    return next(_ports)


def control_ports() -> Ports:
    return Ports(*(next_port() for _ in Ports._fields))


def node_ports() -> tuple[int, int]:
    """First and last of a hundred for the tasks of an agent; the eleventh gets those of the first again."""
    first = _nodes.mine()[next(_numbers) % 10 * 100]
    return first, first + 99
