"""One agent a node: whoever runs holds a lock on the state directory (U1).

A record lock, not one that children inherit: it ends with this process, however that ends and whoever outlives it.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hostler.base.errors import error

LOCK = "agent.lock"
WAIT_S = 5.0  # the one before may be on its way out
_LOOK_S = 0.1


@asynccontextmanager
async def alone(state_dir: Path, wait_s: float = WAIT_S) -> AsyncIterator[None]:
    """For as long as the block lasts. Raises `already_running`, and `storage_unhealthy` where no lock can be made."""
    path = state_dir / LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as err:
        raise error("storage_unhealthy", f"{path} cannot be opened: {err.strerror}") from err
    try:
        await _take(descriptor, state_dir, wait_s)
        yield
    finally:
        os.close(descriptor)


async def _take(descriptor: int, state_dir: Path, wait_s: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + wait_s
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            if loop.time() >= end:
                raise error("already_running", f"another agent runs on {state_dir}") from err
        except OSError as err:
            raise error("storage_unhealthy", f"{state_dir} takes no lock: {err.strerror}") from err
        else:
            return
        await asyncio.sleep(_LOOK_S)
