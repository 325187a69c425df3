"""A directory as a code bundle: the same files give the same bytes, whoever packs them, whenever.

A plain tar: nodes unpack tar already, with every protection; it keeps modes and links, which zip does not; and it is
not compressed, because the bytes of a compressor differ between its versions, and the digest would with them.
"""

import hashlib
import os
import stat
import tarfile
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from hostler.base.errors import HostlerError, error
from hostler.cli.bundle_ignore import FILE, Ignore
from hostler.cli.quantities import shown_bytes

MAX_BYTES = 256 << 20  # the control plane's own default
ALWAYS_OUT = frozenset({".git", ".hg", ".svn", ".jj", "__pycache__", ".venv", ".DS_Store"})
_OURS = ".hostler-"  # names that a node keeps for itself
_MOST_NAME, _MOST_PART = 4000, 255
_MOST_ENTRIES = 200_000
_BIGGEST = 5
_IN_MEMORY = 8 << 20


class Entry(NamedTuple):
    """`name` is relative, with `/`; `target` is a link's."""

    name: str
    path: Path
    found: os.stat_result
    target: str = ""


class Packed(NamedTuple):
    """`file` stands at its beginning; closing it removes it."""

    sha256: str
    size: int
    file: IO[bytes]
    entries: int


def pack(folder: Path, most_bytes: int = MAX_BYTES) -> Packed:
    """Raises `too_large` naming what is biggest, `bundle_content` for what no bundle can carry, `file_error`."""
    if not folder.is_dir():
        raise error("file_error", f"{folder} is no directory")
    entries = sorted(_entries(folder), key=lambda entry: entry.name.encode())
    _check_size(entries, folder, most_bytes)
    _check_names(entries)
    made = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - the caller closes it
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in entries:
            _add(archive, entry)
    size = made.tell()
    made.seek(0)
    digest = hashlib.file_digest(made, "sha256").hexdigest()
    made.seek(0)
    return Packed(digest, size, made, len(entries))


def _entries(folder: Path) -> Iterator[Entry]:
    ignore = _ignore_of(folder)
    waiting = [""]
    while waiting:
        parent = waiting.pop()
        with os.scandir(folder / parent) as found:
            for each in found:
                name = f"{parent}/{each.name}" if parent else each.name
                is_folder = each.is_dir(follow_symlinks=False)
                if each.name in ALWAYS_OUT or ignore.leaves_out(name, folder=is_folder):
                    continue
                if is_folder and (folder / name / "pyvenv.cfg").exists():
                    continue
                yield _entry(name, Path(each.path), folder)
                if is_folder:
                    waiting.append(name)


def _entry(name: str, path: Path, folder: Path) -> Entry:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        target = str(path.readlink())
        if not _stays_inside(name, target):
            raise _cannot(name, f"is a link to {target[:100]!r}, which leads out of {folder}")
        return Entry(name, path, found, target)
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise _cannot(name, "is no file, directory or link")
    return Entry(name, path, found)


def _ignore_of(folder: Path) -> Ignore:
    path = folder / FILE
    try:
        return Ignore(path.read_text().splitlines()) if path.exists() else Ignore(())
    except UnicodeDecodeError as err:
        raise error("file_error", f"{path} is not UTF-8 text") from err


def _add(archive: tarfile.TarFile, entry: Entry) -> None:
    """Everything that differs between two machines is left out: owners, times, the finer bits of the mode."""
    header = tarfile.TarInfo(entry.name)
    header.mtime = 0
    if stat.S_ISDIR(entry.found.st_mode):
        header.type, header.mode = tarfile.DIRTYPE, 0o755
    elif entry.target:
        header.type, header.mode, header.linkname = tarfile.SYMTYPE, 0o777, entry.target
    else:
        header.mode = 0o755 if entry.found.st_mode & 0o111 else 0o644
        with entry.path.open("rb") as content:
            header.size = os.fstat(content.fileno()).st_size
            try:
                archive.addfile(header, content)
            except OSError as err:
                raise error("file_error", f"{entry.path} changed while it was packed") from err
        return
    archive.addfile(header)


def _check_size(entries: list[Entry], folder: Path, most_bytes: int) -> None:
    """Raises `too_large` with what is biggest: a file that was meant to stay out is seen at a glance."""
    if len(entries) > _MOST_ENTRIES:
        raise error("too_large", f"{folder} holds more than {_MOST_ENTRIES} files", hint=f"leave some out: {FILE}")
    files = [entry for entry in entries if stat.S_ISREG(entry.found.st_mode)]
    total = sum(entry.found.st_size for entry in files)
    if total <= most_bytes:
        return
    sizes: Counter[str] = Counter()
    for entry in files:
        top, slash, _ = entry.name.partition("/")
        sizes[top + slash] += entry.found.st_size
    biggest = ", ".join(f"{name} {shown_bytes(size)}" for name, size in sizes.most_common(_BIGGEST))
    raise error(
        "too_large",
        f"{folder} holds {shown_bytes(total)}, and a bundle {shown_bytes(most_bytes)} at most; biggest: {biggest}",
        hint=f"leave out what the job does not need, in {FILE}, or fetch data in the job itself",
    )


def _check_names(entries: list[Entry]) -> None:
    """What the node would refuse is refused here, with its name. Raises `bundle_content`."""
    spelled: dict[str, str] = {}
    for entry in entries:
        name = entry.name
        if not name.isprintable() or "\\" in name or len(name) > _MOST_NAME:
            raise _cannot(name, "has a name that is too long, or holds what cannot be printed")
        for part in name.split("/"):
            if part.startswith(_OURS) or len(part.encode()) > _MOST_PART:
                raise _cannot(name, f"has a name that begins with {_OURS}, or is too long")
        other = spelled.setdefault(unicodedata.normalize("NFKC", name).casefold(), name)
        if other != name:
            raise _cannot(name, f"differs from {other!r} only in how it is spelled")


def _stays_inside(name: str, target: str) -> bool:
    if not target or target.startswith("/") or not target.isprintable() or "\\" in target:
        return False
    depth = name.count("/")
    for part in target.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return False
    return True


def _cannot(name: str, why: str) -> HostlerError:
    shown = "".join(c if c.isprintable() else "?" for c in name)[:200]
    return error("bundle_content", f"{shown!r} {why}")
