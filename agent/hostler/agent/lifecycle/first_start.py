"""The first start of an installed agent: it waits for its token, enrols, and removes the token (PG-04)."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from hostler.agent.lifecycle import identity
from hostler.base import systemd
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger

_log = get_logger("hostler.agent.lifecycle.first_start")
_LOOK_S = 1.0
_AGAIN_S = 15.0


def enrolled(state_dir: Path) -> bool:
    return (identity.directory(state_dir) / "node.json").exists()


async def until_enrolled(
    state_dir: Path, token_file: Path, enroll: Callable[[str], Awaitable[None]], read: Callable[[Path], str]
) -> None:
    """Returns when this node has an identity. A token that is refused is left where it is, and not tried again
    until the file changes; a control plane that cannot be reached is asked again.

    Args:
        read: of the token file; refuses one that others may read.
    """
    if enrolled(state_dir):
        _remove(token_file)  # the power failed right after it had enrolled: it is spent
        return
    systemd.notify(f"READY=1\nSTATUS=waiting for an enrolment token in {token_file}")
    _log.info("node.waits_for_token", path=str(token_file))
    refused = 0
    while not enrolled(state_dir):
        systemd.notify("WATCHDOG=1")
        written = _written(token_file)
        if not written or written == refused:
            await asyncio.sleep(_LOOK_S)
            continue
        try:
            await enroll(read(token_file))
        except HostlerError as err:
            _log.error("node.not_enrolled", error=err, path=str(token_file))
            systemd.notify(f"STATUS=not enrolled: {err.message}")
            if err.code == "controller_unreachable":
                await asyncio.sleep(_AGAIN_S)
            else:
                refused = written
    _remove(token_file)
    systemd.notify("STATUS=")


def _written(path: Path) -> int:
    """When the file was last written, in nanoseconds; 0 while there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
