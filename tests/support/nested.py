"""Directories one below the other, as somebody makes them who does not want them to be removed."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def nested(path: Path, depth: int) -> Iterator[None]:
    """With a file in each; a path to the last may be longer than any call takes. All of it is gone afterwards."""
    path.mkdir(parents=True)
    here = os.open(path, os.O_RDONLY)
    for _ in range(depth):
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
        os.mkdir("down", dir_fd=here)
        below = os.open("down", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    try:
        yield
    finally:
        subprocess.run(["rm", "-rf", str(path)], check=True)  # pytest cannot
