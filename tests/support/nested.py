"""Directories one below the other, as somebody makes them who does not want them to be removed."""

import os
from pathlib import Path


def nest(path: Path, depth: int) -> None:
    """With a file in each; a path to the last may be longer than any call takes."""
    path.mkdir(parents=True)
    here = os.open(path, os.O_RDONLY)
    for _ in range(depth):
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
        os.mkdir("down", dir_fd=here)
        below = os.open("down", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
