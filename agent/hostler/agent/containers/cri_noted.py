"""What the keeper of containers has seen and containerd may forget: a file for each container, written whole."""

import contextlib
import os
import re
from pathlib import Path

import msgspec

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
STREAMS = ("stdout", "stderr")
_KEPT_S = 7 * 24 * 3600.0


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    cut: containerd went away in the middle of its start.
    begun: its program was seen to run then.
    unbegun: runc has said, in its place, that it could not be let go.
    gone: containerd has no process of it, and never told an end.
    ended_at_ms, exit_code: its end, once its shim has told it; 0 before.
    """

    cut: bool = False
    begun: bool = False
    unbegun: bool = False
    gone: bool = False
    ended_at_ms: int = 0
    exit_code: int = 0


class Notes:
    """Args:
    place: a directory of root's alone.
    """

    def __init__(self, place: Path) -> None:
        self._place = place

    def of(self, container: str) -> Noted:
        """Nothing seen where nothing can be read."""
        try:
            return msgspec.json.decode(self._path(container).read_bytes(), type=Noted)
        except (OSError, msgspec.DecodeError):
            return Noted()

    def add(self, container: str, **seen: bool | int) -> None:
        """What cannot be written was not seen."""
        noted = msgspec.structs.replace(self.of(container), **seen)
        with contextlib.suppress(OSError):
            path = self._path(container)
            fresh = path.with_name(f".{container}.new")
            fresh.write_bytes(msgspec.json.encode(noted))
            fresh.rename(path)

    def has_pipes(self, container: str) -> bool:
        """Whether what it says comes to its log by its keeper, and not by containerd."""
        with contextlib.suppress(OSError):
            return any(pipe_of(self._place, container, stream).exists() for stream in STREAMS)
        return False

    def forget(self, container: str) -> None:
        """Of one that was removed."""
        with contextlib.suppress(OSError):
            self._path(container).unlink(missing_ok=True)
            self.forget_pipes(container)

    def forget_pipes(self, container: str) -> None:
        with contextlib.suppress(OSError):
            for stream in STREAMS:
                pipe_of(self._place, container, stream).unlink(missing_ok=True)

    def forget_old(self, now_ms: int) -> None:
        """Of containers that somebody else has removed. Before anything is held."""
        for path in (*self._place.glob("*.json"), *self._place.glob("*.std*")):
            with contextlib.suppress(OSError):
                if now_ms / 1000 - path.stat().st_mtime > _KEPT_S and not _is_open(path):
                    path.unlink(missing_ok=True)

    def _path(self, container: str) -> Path:
        return self._place / f"{_checked(container)}.json"


def pipe_of(place: Path, container: str, stream: str) -> Path:
    """A named pipe that its keeper reads, from its start on until it is removed."""
    return place / f"{_checked(container)}.{stream}"


def _checked(container: str) -> str:
    """An id is one plain name, whoever says it."""
    if not _ID.fullmatch(container):
        raise FileNotFoundError(container)
    return container


def _is_open(path: Path) -> bool:
    """Whether the shim of a container has this pipe open: nobody writes to one that nobody reads."""
    if not path.is_fifo():
        return False
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError:
        return False
    return True
