"""Notices what this node gains and loses while the agent runs (CG-04).

Loop `CapabilityWatch.run`: sleeps until the kernel tells of a change where drivers and runtimes show, or a minute
has passed; looks again in a thread, and calls `changed` with what it found when that is something else.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from hostler.agent.host.inotify import Changes
from hostler.base.logs import get_logger

_log = get_logger("hostler.agent.capability_watch")
# where device nodes, sockets of runtimes and the programs themselves appear and go
PLACES = (
    "dev", "dev/dri", "dev/infiniband", "run", "run/containerd", "run/systemd", "run/k3s/containerd",
    "usr/bin", "usr/local/bin", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu",
)  # fmt: skip
_SETTLED_S = 0.2  # a driver that loads makes many entries; they are one change
_LONGEST_WAIT_S = 60.0  # not everything makes an entry somewhere


class CapabilityWatch:
    """Args:
    detect: what this node is, below `root`; may block.
    known: what it was taken for at the start.
    changed: gets the new picture, on the loop.
    """

    def __init__(
        self,
        root: Path,
        detect: Callable[[Path], dict[str, str]],
        known: Mapping[str, str],
        changed: Callable[[dict[str, str]], None],
        *,
        longest_wait_s: float = _LONGEST_WAIT_S,
    ) -> None:
        self._root = root
        self._detect = detect
        self._known = dict(known)
        self._changed = changed
        self._longest_wait_s = longest_wait_s

    async def run(self) -> None:
        changes = Changes()
        try:
            while True:
                changes.watch(self._root / place for place in PLACES)
                await self._look()
                await self._wait(changes)
        finally:
            changes.close()

    async def _wait(self, changes: Changes) -> None:
        try:
            async with asyncio.timeout(self._longest_wait_s):
                await changes.happened.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_SETTLED_S)
        changes.happened.clear()

    async def _look(self) -> None:
        """A picture that cannot be taken leaves the old one."""
        try:
            found = await asyncio.to_thread(self._detect, self._root)
        except OSError as err:
            _log.warning("capabilities.not_read", reason=str(err))
            return
        if found == self._known:
            return
        keys = sorted(key for key in found | self._known if found.get(key) != self._known.get(key))
        _log.info("capabilities.changed", keys=keys)
        self._known = found
        self._changed(found)
