"""What an archive may hold: names that become files below a directory that we own, headers of a bounded length.
Pure; every name here is hostile (A6)."""

import tarfile
import unicodedata
from typing import Any

from hostler.base.errors import HostlerError, error

OURS = ".hostler-"
MAX_NAME, MAX_PART = 4000, 255
MAX_DEPTH = 200  # whoever walks or removes a tree has a file open, and is a call deeper, for each
MOST_HEADER = 1024 * 1024
MOST_HEADERS = 8  # before one entry; the library goes down one call deeper for each
_LONG = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)


def refused(name: str, why: str) -> HostlerError:
    shown = "".join(c if c.isprintable() else "?" for c in name)[:200]
    return error("unsafe_archive", f"the entry {shown!r} {why}")


def parts_of(name: str) -> tuple[str, ...]:
    """The components of a relative path.

    Raises:
        HostlerError: `unsafe_archive` for one that is absolute, leaves the root, is no text, or is not plain.
    """
    if name.startswith("/"):
        raise refused(name, "has an absolute name")
    if not name or len(name) > MAX_NAME or not name.isprintable() or "\\" in name:
        raise refused(name, "has a name that is empty, too long or not printable")
    parts = tuple(name.split("/"))
    if len(parts) > MAX_DEPTH:
        raise refused(name, f"lies more than {MAX_DEPTH} directories deep")
    if ".." in parts:
        raise refused(name, "leaves the directory it belongs in")
    for part in parts:
        if part in ("", ".") or len(part.encode()) > MAX_PART:
            raise refused(name, "has a name that is not in normal form")
        if part.startswith(OURS):
            raise refused(name, "has a name that is kept for ourselves")
    return parts


def link_inside(name: str, target: str) -> None:
    """Raises `unsafe_archive` for a symbolic link that leads, by its text alone, out of the directory."""
    if not target or target.startswith("/") or not target.isprintable() or "\\" in target:
        raise refused(name, "is a link to an absolute or unprintable name")
    depth = name.count("/")
    for part in target.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            raise refused(name, "is a link that leads out of the directory")


class BoundedInfo(tarfile.TarInfo):
    """Headers that the library reads whole into memory are bounded before it does, and so is their number."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type not in _LONG:
            return super()._proc_member(archive)  # type: ignore[misc]
        if self.size > MOST_HEADER:
            raise error("unsafe_archive", "a header of the archive is longer than any name could be")
        before: int = getattr(archive, "headers_before", 0)
        if before >= MOST_HEADERS:
            raise error("unsafe_archive", f"an entry of the archive has more than {MOST_HEADERS} headers before it")
        archive.headers_before = before + 1  # type: ignore[attr-defined]
        try:
            return super()._proc_member(archive)  # type: ignore[misc]
        finally:
            archive.headers_before = before  # type: ignore[attr-defined]


class Seen:
    """The names given out so far. Two that a reader could take for one are refused: other spellings of the same
    characters, other case. What one archive may replace of an earlier one is the caller's to say."""

    def __init__(self) -> None:
        self._spelled: dict[str, str] = {}

    def take(self, parts: tuple[str, ...]) -> None:
        """Raises `unsafe_archive`."""
        for end in range(1, len(parts) + 1):
            name = "/".join(parts[:end])
            spelled = self._spelled.setdefault(unicodedata.normalize("NFKC", name).casefold(), name)
            if spelled != name:
                raise refused(name, f"differs from {spelled[:200]!r} only in how it is spelled")
