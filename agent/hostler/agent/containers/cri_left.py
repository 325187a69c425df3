"""What a containerd that was killed has left in the way of its next one, and how to get past it. Imports gRPC."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hostler.agent.containers.cri_client import Client
from hostler.agent.containers.cri_sandboxes import MAKE_S, unless_gone
from hostler.base.errors import HostlerError, error
from hostler.cri.v1 import api_pb2 as cri
from hostler.cri.v1 import tasks_pb2 as tasks

T = TypeVar("T")
_TRIES = 3
_TURNS, _PAUSE_S = 40, 0.05  # for a process to die by SIGKILL
# A directory or a name of something half made, which the failure itself clears away; a sandbox that went meanwhile.
_IN_THE_WAY = ("file exists", "already exists", "is not running", "namespace path: lstat /proc/")


async def past(making: Callable[[], Awaitable[T]]) -> T:
    """Makes something of which nothing runs yet, again where only leftovers were in the way."""
    for _ in range(_TRIES - 1):
        try:
            return await making()
        except HostlerError as err:
            if not _is_in_the_way(err):
                raise
        await asyncio.sleep(_PAUSE_S)
    return await making()


def _is_in_the_way(err: HostlerError) -> bool:
    refused = err.code == "container_failed" and any(words in err.message for words in _IN_THE_WAY)
    return refused or err.code == "container_missing"


async def remove(client: Client, container: str, *, unheard: bool) -> None:
    """
    Args:
        unheard: it has ended, and CRI does not know.

    Raises:
        HostlerError: `container_failed` where CRI will not learn of it, and the runtime's own.
    """
    if unheard:
        await end_left(client, container)  # or the next call would wait for its end
    try:
        await _removed(client, container)
    except HostlerError as err:
        if unheard and "still running" in err.message:
            why = f"containerd was started as {container} ended, missed it, and keeps it until the next start"
            raise error("container_failed", why, hint="restart containerd: what runs in it goes on") from err
        if "running task" not in err.message:
            raise
        await end_left(client, container)
        await _removed(client, container)


async def _removed(client: Client, container: str) -> None:
    request = cri.RemoveContainerRequest(container_id=container)
    await unless_gone(client.call(client.runtime.RemoveContainer, request, f"removing {container}", MAKE_S))


async def end_left(client: Client, container: str) -> None:
    """Ends a process that CRI has lost sight of, and that would live on without it."""
    what = f"ending what is left of {container}"
    kill = tasks.KillRequest(container_id=container, signal=signal.SIGKILL, all=True)
    for _ in range(_TURNS):
        with contextlib.suppress(HostlerError):
            await client.native(client.tasks.Kill, kill, what)
        try:
            await client.native(client.tasks.Delete, tasks.DeleteTaskRequest(container_id=container), what)
        except HostlerError as err:
            if err.code == "container_missing":
                return
            await asyncio.sleep(_PAUSE_S)
        else:
            return
