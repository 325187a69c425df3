"""Which container runtimes this node has, and which one is preferred."""

import asyncio
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from hostler.agent.containers.runtime import ContainerRuntime
from hostler.base.errors import HostlerError, error

PREFERENCE = ("containerd", "docker", "process")
_ANSWER_S = 5.0


def listening(socket: Path) -> bool:
    """Whether there is a socket. Whether anything answers there is another question: daemons restart."""
    try:
        return stat.S_ISSOCK(socket.stat().st_mode)
    except OSError:
        return False


def present(sockets: Mapping[str, Path], *, processes: bool) -> tuple[str, ...]:
    """Names in order of preference.

    Args:
        sockets: of `containerd` and `docker`, as far as they are to be used.
        processes: plain processes are allowed; tests and local mode (RN-05).
    """
    found = {name for name, socket in sockets.items() if listening(socket)} | ({"process"} if processes else set())
    return tuple(name for name in PREFERENCE if name in found)


def capability(names: Iterable[str]) -> str:
    """What a node reports as `workload.runtimes`."""
    return ",".join(names) or "none"


async def choose(runtimes: Mapping[str, ContainerRuntime], name: str = "") -> ContainerRuntime:
    """The one that was named, or the first in order of preference that answers.

    Raises:
        HostlerError: `runtime_unavailable`, with what each said.
    """
    if name:
        if name not in runtimes:
            raise error("runtime_unavailable", f"this node has no container runtime {name!r}")
        return runtimes[name]
    said = []
    for each in (runtimes[known] for known in PREFERENCE if known in runtimes):
        try:
            async with asyncio.timeout(_ANSWER_S):
                await each.available()
        except HostlerError as err:
            said.append(f"{each.name}: {err}")
        except TimeoutError:
            said.append(f"{each.name}: no answer in time")
        else:
            return each
    raise error("runtime_unavailable", f"no container runtime of this node answers: {'; '.join(said) or 'it has none'}")
