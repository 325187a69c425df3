"""Shared memory of containers that have no /dev/shm of a runtime's making."""

import os
import stat
from pathlib import Path

from hostler.base.errors import error


def shm_of(directory: Path, name: str) -> Path:
    """On the node's own /dev/shm: its pages count as memory of the container, whose limit bounds them.

    Everybody may write there, so the directory above is looked at: nobody else may have made it.

    Raises:
        HostlerError: `container_failed` where it is somebody else's.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    said = directory.lstat()
    if not stat.S_ISDIR(said.st_mode) or said.st_uid != os.geteuid() or said.st_mode & 0o022:
        raise error("container_failed", f"{directory} is not the agent's own directory, so {name} was not made")
    path = directory / name
    path.mkdir(mode=0o700, exist_ok=True)
    path.chmod(0o1777)
    return path
