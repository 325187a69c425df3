"""Network interfaces of this node's own network namespace, asked of the kernel in a short-lived process."""

import asyncio
import sys
from collections.abc import Sequence

import msgspec

from hostler.base.errors import error

_COMMAND = (sys.executable, "-I", "-X", "utf8", "-m", "hostler.agent.host.link_dump")
_MOST_BYTES = 262_144


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    up: as it was configured.
    state: what it does: UP, DOWN, LOWERLAYERDOWN, UNKNOWN and so on (RFC 2863).
    mtu: in bytes.
    """

    name: str
    up: bool
    state: str
    mtu: int


async def links(names: Sequence[str]) -> dict[str, Link]:
    """Those of `names` that are there. The caller bounds the time; the process ends with it.

    Raises:
        HostlerError: `file_error` when the kernel could not be asked.
    """
    process = await asyncio.create_subprocess_exec(
        *_COMMAND,
        *names,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        cwd="/",
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        said = await process.stdout.read(_MOST_BYTES)
        while more := await process.stdout.read(_MOST_BYTES):
            said += more
            if len(said) > _MOST_BYTES:
                break
        status = await process.wait() if len(said) <= _MOST_BYTES else 1
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        found = msgspec.json.decode(said, type=list[Link]) if status == 0 else None
    except msgspec.MsgspecError:
        found = None
    if found is None:
        raise error("file_error", "the kernel's network interfaces cannot be read", hint="is pyroute2 installed?")
    return {link.name: link for link in found}
