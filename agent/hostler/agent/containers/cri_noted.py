"""What the keeper of containers has seen and containerd may forget: a file for each container, written whole."""

import contextlib
import re
from pathlib import Path

import msgspec

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
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

    def forget(self, container: str) -> None:
        with contextlib.suppress(OSError):
            self._path(container).unlink(missing_ok=True)

    def forget_old(self, now_ms: int) -> None:
        """Of containers that somebody else has removed."""
        for path in self._place.glob("*.json"):
            with contextlib.suppress(OSError):
                if now_ms / 1000 - path.stat().st_mtime > _KEPT_S:
                    path.unlink(missing_ok=True)

    def _path(self, container: str) -> Path:
        """An id is one plain name, whoever says it."""
        if not _ID.fullmatch(container):
            raise FileNotFoundError(container)
        return self._place / f"{container}.json"
