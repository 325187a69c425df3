"""Layers into a directory that we own, and not a byte beside it (A5, A6).

Each name is walked one component at a time from a descriptor, without following links. What an archive has no
business bringing is refused, not skipped: names that leave the root, links that lead out of it, devices, pipes,
set-id bits, two names that look alike. Owners are not taken over: everything is the agent's.
"""

import hashlib
import os
import shutil
import stat
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Protocol, cast

from hostler.base.errors import error
from hostler.pki.archive import MOST_HEADER, BoundedInfo, Seen, link_inside, parts_of, refused

READ_BYTES = 256 * 1024
RATIO_FREE_BYTES = 16 * 1024 * 1024  # below, any ratio is harmless
MOST_RATIO = 250
_GZIP_ONLY = 31  # zlib's word for the largest window and a gzip header
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
GZIP = ("application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.docker.image.rootfs.diff.tar.gzip")
PLAIN = ("application/vnd.oci.image.layer.v1.tar", "application/vnd.docker.image.rootfs.diff.tar")
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class Budget:
    """What all layers together may take. `check` is asked now and then: the disk, cancellation, the deadline."""

    most_bytes: int
    most_entries: int
    check: Callable[[], None]
    bytes: int = 0
    entries: int = 0

    def take(self, count: int) -> None:
        self.bytes += count
        if self.bytes > self.most_bytes:
            raise error("too_large", f"the layers unpack to more than {self.most_bytes} bytes")

    def entry(self) -> None:
        self.entries += 1
        if self.entries > self.most_entries:
            raise error("too_large", f"the layers hold more than {self.most_entries} entries")


class Inflated:
    """The bytes of a layer, decompressed, counted and hashed as they are read."""

    def __init__(self, source: int, media_type: str, budget: Budget) -> None:
        base = media_type.partition(";")[0]
        if base not in GZIP + PLAIN:
            raise error("bad_response", f"a layer of the media type {media_type[:100]!r} cannot be unpacked")
        self._source, self._budget = source, budget
        self._zip = zlib.decompressobj(_GZIP_ONLY) if base in GZIP else None
        self._packed = self._unpacked = 0
        self._rest = b""
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        return f"sha256:{self._digest.hexdigest()}"

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; b"" at the end."""
        if size > MOST_HEADER:
            raise error("unsafe_archive", "a header of the archive is longer than any name could be")
        self._budget.check()
        data = self._some(size)
        self._unpacked += len(data)
        self._digest.update(data)
        self._budget.take(len(data))
        if self._unpacked > RATIO_FREE_BYTES and self._unpacked > self._packed * MOST_RATIO:
            raise error("too_large", f"a layer unpacks to more than {MOST_RATIO} times its length")
        return data

    def _some(self, size: int) -> bytes:
        if self._zip is None:
            return self._packed_bytes(size)
        while True:
            if self._zip.eof:
                self._rest = self._zip.unused_data or self._packed_bytes(READ_BYTES)
                if not self._rest:
                    return b""
                self._zip = zlib.decompressobj(_GZIP_ONLY)  # a further member
            packed = self._rest or self._packed_bytes(READ_BYTES)
            try:
                data = self._zip.decompress(packed, size)
            except zlib.error as err:
                raise error("bad_response", "a layer is not gzip, though it says so") from err
            self._rest = self._zip.unconsumed_tail
            if data:
                return data
            if not packed and not self._zip.eof:
                raise error("bad_response", "a layer ends in the middle of its gzip stream")

    def _packed_bytes(self, size: int) -> bytes:
        data = os.read(self._source, size)
        self._packed += len(data)
        return data

    def drain(self) -> None:
        """Reads what stands behind the archive's end: it belongs to the digest."""
        while self.read(READ_BYTES):
            pass


class Stream(Protocol):
    """The bytes of a tar; `drain` reads what stands behind the archive's end."""

    def read(self, size: int) -> bytes: ...

    def drain(self) -> None: ...


@dataclass
class Unpacker:
    """Layers in order, into one open directory. Without `whiteouts` a name like theirs is a file's.

    Attributes:
        place: a name in the archive → the one it is unpacked under; "" leaves it out.
    """

    root: int
    budget: Budget
    seen: Seen = field(default_factory=Seen)
    whiteouts: bool = True
    place: Callable[[str], str] = str

    def layer(self, source: int, media_type: str) -> str:
        """Unpacks one; returns the digest of its decompressed bytes.

        Raises:
            HostlerError: `unsafe_archive`, `too_large`, `bad_response`, `file_error`, and what `check` raises.
        """
        stream = Inflated(source, media_type, self.budget)
        self.archive(stream)
        return stream.digest

    def archive(self, stream: Stream) -> None:
        """The same for a tar whose bytes are counted already."""
        mine: set[str] = set()
        try:
            file = cast("IO[bytes]", stream)
            with tarfile.open(mode="r|", fileobj=file, bufsize=20 * 512, tarinfo=BoundedInfo) as archive:
                for member in archive:
                    self.budget.entry()
                    self._entry(archive, member, mine)
                    archive.members = []  # type: ignore[attr-defined]  # the library keeps every entry it has seen
            stream.drain()
        except tarfile.TarError as err:
            raise error("bad_response", "a layer is no tar archive") from err
        except (OSError, UnicodeError) as err:
            why = getattr(err, "strerror", None) or "a name that is no text"
            raise error("file_error", f"a layer cannot be unpacked: {why}") from err
        except ValueError as err:  # a number in a header that is none
            raise error("bad_response", "a layer is no tar archive") from err

    def _entry(self, archive: tarfile.TarFile, member: tarfile.TarInfo, mine: set[str]) -> None:
        name = member.name.removeprefix("./").rstrip("/") if member.name not in (".", "./") else ""
        if not name:
            return  # the root itself, which is ours
        parts_of(name)
        name = self.place(name)
        if not name:
            return
        parts = parts_of(name)
        kind = member.type
        if member.mode & (stat.S_ISUID | stat.S_ISGID):
            raise refused(name, "has a set-user-id or set-group-id bit")
        if kind not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE):
            raise refused(name, "is no file, directory or link")
        if getattr(member, "sparse", None) is not None:
            raise refused(name, "has holes, and could be of any length")
        if name in mine and kind != tarfile.DIRTYPE:
            raise refused(name, "stands twice in one layer")
        mine.add(name)
        directory = self._walk(parts[:-1], name)
        try:
            if self.whiteouts and parts[-1].startswith(WHITEOUT):
                self._whiteout(directory, parts, name)
                return
            self.seen.take(parts)
            self._make(archive, member, directory, parts[-1], name)
        finally:
            os.close(directory)

    def _make(self, archive: tarfile.TarFile, member: tarfile.TarInfo, directory: int, last: str, name: str) -> None:
        mode = member.mode & 0o777
        if member.type == tarfile.DIRTYPE:
            self._directory(directory, last, mode | 0o700)
            return
        self._remove(directory, last)
        if member.type == tarfile.SYMTYPE:
            link_inside(name, member.linkname)
            os.symlink(member.linkname, last, dir_fd=directory)
        elif member.type == tarfile.LNKTYPE:
            self._hard_link(directory, last, member.linkname)
        else:
            self._file(archive, member, directory, last, mode)

    def _walk(self, folders: tuple[str, ...], name: str) -> int:
        """A directory below the root; a link on the way is refused, whatever it leads to."""
        fd = os.dup(self.root)
        try:
            for part in folders:
                try:
                    below = os.open(part, _OPEN, dir_fd=fd)
                except FileNotFoundError:
                    os.mkdir(part, 0o755, dir_fd=fd)
                    below = os.open(part, _OPEN, dir_fd=fd)
                except OSError as err:
                    raise refused(name, f"goes through {part!r}, which is no directory") from err
                os.close(fd)
                fd = below
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _directory(self, directory: int, last: str, mode: int) -> None:
        try:
            fd = os.open(last, _OPEN, dir_fd=directory)
        except FileNotFoundError:
            os.mkdir(last, 0o700, dir_fd=directory)
            fd = os.open(last, _OPEN, dir_fd=directory)
        except OSError:
            os.unlink(last, dir_fd=directory)
            os.mkdir(last, 0o700, dir_fd=directory)
            fd = os.open(last, _OPEN, dir_fd=directory)
        os.fchmod(fd, mode)
        os.close(fd)

    def _file(self, archive: tarfile.TarFile, member: tarfile.TarInfo, directory: int, last: str, mode: int) -> None:
        content = archive.extractfile(member)
        fd = os.open(last, _CREATE, 0o600, dir_fd=directory)
        try:
            while content is not None and (data := content.read(READ_BYTES)):
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(fd, rest) :]
            os.fchmod(fd, mode)
        finally:
            os.close(fd)

    def _hard_link(self, directory: int, last: str, target: str) -> None:
        """To a regular file of this very tree, found as every other name is."""
        parts = parts_of(self.place(target.removeprefix("./")))
        there = self._walk(parts[:-1], target)
        try:
            found = os.stat(parts[-1], dir_fd=there, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode):
                raise refused(target, "is linked to and is no regular file")
            os.link(parts[-1], last, src_dir_fd=there, dst_dir_fd=directory, follow_symlinks=False)
        finally:
            os.close(there)

    def _whiteout(self, directory: int, parts: tuple[str, ...], name: str) -> None:
        if parts[-1] == OPAQUE:
            with os.scandir(directory) as entries:
                below = [entry.name for entry in entries]
            for one in below:
                self._remove(directory, one)
            return
        hidden = parts[-1].removeprefix(WHITEOUT)
        if hidden in ("", ".", ".."):
            raise refused(name, "takes away a name that is none")
        self._remove(directory, hidden)

    def _remove(self, directory: int, name: str) -> None:
        try:
            os.unlink(name, dir_fd=directory)
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError):
            shutil.rmtree(name, dir_fd=directory)
