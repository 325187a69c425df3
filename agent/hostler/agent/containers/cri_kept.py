"""The agent's end of the keeper of containers: starts one where there is none, and asks it (`cri_keeper`)."""

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

from hostler.agent.containers.cri_noted import Noted, Notes
from hostler.agent.containers.groups import leave_service
from hostler.agent.containers.process_link import Link
from hostler.base.errors import HostlerError, error

_LOOKS, _LOOK_S = 1000, 0.02
_SETTLE_S = 10.0
_LOOK_AGAIN_S = 1.0
_COMMAND = (sys.executable, "-I", "-X", "utf8", "-m", "hostler.agent.containers.cri_keeper")


class Kept:
    """Args:
    socket: containerd's.
    place: the keeper's directory; root's alone.
    """

    def __init__(self, socket: Path, place: Path) -> None:
        self._socket, self._place = socket, place
        self._notes = Notes(place)
        self._spawning = asyncio.Lock()
        self._pid = 0
        self._keeper, self._looked_s = 0, 0.0

    def keeper(self) -> int:
        """Process id of the one there is, looked for once a second at most; 0 for none, -1 for one that is busy."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= _LOOK_AGAIN_S:
            self._keeper, self._looked_s = Link.listener(self._place), now_s
        return self._keeper

    async def begin(self) -> None:
        """So that the first start waits for no keeper."""
        with contextlib.suppress(HostlerError):
            await self._ready()

    async def start(self, container: str, log: str) -> None:
        """Goes on when this agent dies. Raises what containerd says, and `runtime_unavailable`."""
        await self._ask("start", container, log)

    async def hold(self, container: str, log: str) -> None:
        """For one that runs already. The worst that comes of a failure is a line that is missing."""
        with contextlib.suppress(HostlerError):
            await self._ask("hold", container, log)

    async def settled(self, container: str) -> None:
        """Until all that an ended container said stands in its log. Where no keeper is, nothing is held."""
        with contextlib.suppress(HostlerError, TimeoutError, OSError):
            async with asyncio.timeout(_SETTLE_S), Link(self._place) as link:
                await _answered(link, "settled", container)

    def noted(self, container: str) -> Noted:
        return self._notes.of(container)

    def writes(self, container: str) -> bool:
        """Whether its log is written by its keeper, and not by containerd."""
        return self._notes.has_pipes(container)

    def forget(self, container: str) -> None:
        self._notes.forget(container)

    def pids(self) -> frozenset[int]:
        """The keeper, where it is a child of this process."""
        if self._pid:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(self._pid, os.WNOHANG) == (0, 0):
                    return frozenset((self._pid,))
            self._pid = 0
        return frozenset()

    async def _ask(self, do: str, container: str, log: str) -> None:
        try:
            link = await self._linked()
            try:
                await _answered(link, do, container, log)
            finally:
                link.close()
            self._looked_s = 0.0
        except OSError as err:
            raise error("runtime_unavailable", f"the keeper of {container} went away") from err

    async def _linked(self) -> Link:
        """With the keeper that is there, or else a new one."""
        with contextlib.suppress(OSError):
            return await Link(self._place).__aenter__()
        await self._ready()
        return await Link(self._place).__aenter__()

    async def _ready(self) -> None:
        async with self._spawning:
            if not Link.answers(self._place):
                await self._spawn()

    async def _spawn(self) -> None:
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.pids()
        said = str(self._place / "said")
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        ]
        argv = [*_COMMAND, str(self._socket), str(self._place)]
        self._pid = os.posix_spawn(sys.executable, argv, {}, file_actions=actions, setsid=True)  # noqa: ASYNC221 - vfork
        if os.geteuid() == 0:
            leave_service(self._pid)
        for _ in range(_LOOKS):
            if Link.answers(self._place):
                return
            await asyncio.sleep(_LOOK_S)
        raise error("runtime_unavailable", f"the keeper of containers does not begin; see {said}")


async def _answered(link: Link, do: str, container: str, log: str = "") -> None:
    await link.order({"do": do, "id": container, "log": log})
    said, _ = await link.answer()
    if not said.get("done"):
        code, why = said.get("code", "runtime_unavailable"), said.get("message", f"the keeper of {container} died")
        raise error(str(code), str(why))
