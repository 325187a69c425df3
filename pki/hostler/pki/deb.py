"""Reads Debian packages without dpkg. Whatever stands in one is hostile until its digest is known to be signed.

A package is an `ar` archive of three members in this order: `debian-binary`, `control.tar.xz`, `data.tar.xz`. Any
other form is refused: it is not what our build writes.
"""

import hashlib
import lzma
import os
import re
import stat
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BufferedReader
from typing import IO, NamedTuple, cast

from hostler.base.errors import HostlerError, error
from hostler.pki.archive import MOST_HEADER, BoundedInfo, parts_of, refused
from hostler.pki.manifest import HOME, MANIFEST, MAX_MANIFEST_BYTES, PACKAGE, UNITS, Manifest, parse_manifest
from hostler.pki.releases import version_key

_MAGIC = b"!<arch>\n"
_HEADER = re.compile(rb"(.{16})([0-9]{1,12}) *0 +0 +100644 *([0-9]{1,10}) *`\n", re.DOTALL)
_HEADER_BYTES = 60
_MEMBERS = ("debian-binary", "control.tar.xz", "data.tar.xz")
_FORMAT = b"2.0\n"
_READ_BYTES = 64 * 1024
_DECODER_BYTES = 128 * 1024 * 1024  # of memory: the strongest setting of xz takes half of that
_FIELD = re.compile("([A-Za-z][A-Za-z0-9-]{0,63}): ?(.*)", re.ASCII)
_BLOCK = 20 * 512


class Limits(NamedTuple):
    """What a package may take. Sizes in bytes."""

    package: int = 256 * 1024 * 1024
    control: int = 1024 * 1024
    data: int = 1024 * 1024 * 1024
    entries: int = 50_000


LIMITS = Limits()


class _Member(NamedTuple):
    offset: int
    size: int


class Deb:
    """One package behind an open descriptor: the fields that it says of itself, and its files as a tar stream.

    The descriptor stays the caller's; its position is neither used nor moved.
    """

    def __init__(self, source: int, limits: Limits = LIMITS) -> None:
        """Raises `unsafe_archive` for what is no package in form, `too_large` beyond `limits`."""
        self._source, self._limits = source, limits
        self.size = os.fstat(source).st_size
        if self.size > limits.package:
            raise error("too_large", f"the package takes more than {limits.package} bytes")
        self._members = self._walk()
        offset, size = self._members["debian-binary"]
        if size != len(_FORMAT) or os.pread(source, size, offset) != _FORMAT:
            raise error("unsafe_archive", "the package has a format other than 2.0")
        self.control = self._control()

    def _walk(self) -> dict[str, _Member]:
        if os.pread(self._source, len(_MAGIC), 0) != _MAGIC:
            raise error("unsafe_archive", "the file is no Debian package")
        found, offset = {}, len(_MAGIC)
        for name in _MEMBERS:
            header = _HEADER.fullmatch(os.pread(self._source, _HEADER_BYTES, offset))
            if header is None or header[1].rstrip(b" ") != name.encode():
                raise error("unsafe_archive", f"the package has no {name} where it belongs")
            found[name] = _Member(offset + _HEADER_BYTES, int(header[3]))
            offset += _HEADER_BYTES + int(header[3]) + int(header[3]) % 2
        if offset != self.size:
            raise error("unsafe_archive", "the package is longer or shorter than its parts")
        return found

    def _control(self) -> dict[str, str]:
        """Fields of the control file, by their names in lower case."""
        texts: list[bytes] = []

        def visit(member: tarfile.TarInfo, content: BufferedReader | None) -> None:
            if _plain(member.name) == "control" and content is not None:
                texts.append(content.read(self._limits.control))

        walk(Tar(self._source, self._members["control.tar.xz"], self._limits.control, lambda: None), 100, visit)
        if len(texts) != 1:
            raise error("unsafe_archive", "the package has no control file, or two")
        fields: dict[str, str] = {}
        for line in texts[0].decode("utf-8", "replace").rstrip("\n").split("\n"):
            if line.startswith((" ", "\t")):
                continue  # a description goes on; nobody asks for it here
            found = _FIELD.fullmatch(line)
            if found is None or found[1].lower() in fields:
                raise error("unsafe_archive", "the package's control file cannot be read")
            fields[found[1].lower()] = found[2].strip()
        if "package" not in fields or "version" not in fields:
            raise error("unsafe_archive", "the package does not say its name and version")
        return fields

    def data(self, check: Callable[[], None] = lambda: None) -> "Tar":
        """The decompressed `data.tar`, from its beginning. `check` is called now and then, and may raise."""
        return Tar(self._source, self._members["data.tar.xz"], self._limits.data, check)


class Tar:
    """A decompressed tar, as a stream for `tarfile.open(mode="r|", fileobj=...)` and for the agent's unpacker."""

    def __init__(self, source: int, member: _Member, most: int, check: Callable[[], None]) -> None:
        self._source, self._offset, self._end = source, member.offset, member.offset + member.size
        self._most, self._check = most, check
        self._xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_DECODER_BYTES)
        self._given = 0

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; b"" at the end. Raises `bad_response`, `too_large`, and what `check` raises."""
        if size > MOST_HEADER:
            raise error("unsafe_archive", "a header of the archive is longer than any name could be")
        self._check()
        data = self._some(size)
        self._given += len(data)
        if self._given > self._most:
            raise error("too_large", f"the package unpacks to more than {self._most} bytes")
        return data

    def _some(self, size: int) -> bytes:
        while not self._xz.eof:
            packed = b""
            if self._xz.needs_input:
                packed = os.pread(self._source, min(_READ_BYTES, self._end - self._offset), self._offset)
                self._offset += len(packed)
                if not packed:
                    raise error("bad_response", "the package ends in the middle of its xz stream")
            try:
                data = self._xz.decompress(packed, size)
            except lzma.LZMAError as err:
                raise error("bad_response", f"the package cannot be decompressed: {err}") from err
            if data:
                return data
        if self._xz.unused_data or self._offset != self._end:
            raise error("bad_response", "something stands behind the package's xz stream")
        return b""

    def drain(self) -> None:
        """Reads what stands behind the archive's end."""
        while self.read(_READ_BYTES):
            pass


class Inspected(NamedTuple):
    """What a package is, every file of it compared with its own manifest."""

    control: dict[str, str]
    manifest: Manifest
    size: int
    sha256: str


def inspect(source: int, limits: Limits = LIMITS) -> Inspected:
    """Reads all of a package of the agent.

    Raises:
        HostlerError: `unsafe_archive`, `too_large`, `bad_response`; `release_untrusted` where the package is not
            one of the agent, or its files are not those of its manifest.
    """
    deb = Deb(source, limits)
    if deb.control["package"] != PACKAGE:
        raise error("release_untrusted", f"the package is {deb.control['package'][:100]!r}, not {PACKAGE}")
    found = _Found()
    walk(deb.data(), limits.entries, lambda member, content: _note(found, member, content))
    manifest = parse_manifest(found.manifest)
    _compare(found.digests, manifest)
    try:
        version_key(manifest.version)
    except HostlerError as err:
        raise error("release_untrusted", err.message) from err
    if not deb.control["version"].startswith(f"{manifest.version}-"):
        said = f"version {deb.control['version'][:100]!r}"
        raise error("release_untrusted", f"the package says {said} and its manifest {manifest.version}")
    return Inspected(deb.control, manifest, deb.size, _sha256(source, deb.size))


@dataclass
class _Found:
    digests: dict[str, str] = field(default_factory=dict)
    manifest: bytes = b""


def _note(found: _Found, member: tarfile.TarInfo, content: BufferedReader | None) -> None:
    name = _plain(member.name)
    if member.isdir():
        return
    if name in found.digests:
        raise refused(name, "stands twice in the package")
    if name == f"{HOME}/{MANIFEST}" and content is not None:
        found.manifest, found.digests[name] = content.read(MAX_MANIFEST_BYTES + 1), ""
    elif content is not None:
        found.digests[name] = hashlib.file_digest(content, "sha256").hexdigest()
    else:
        found.digests[name] = f"-> {member.linkname}"


def _compare(found: dict[str, str], manifest: Manifest) -> None:
    wanted = {f"{HOME}/{MANIFEST}": ""} | {f"{HOME}/{path}": digest for path, digest in manifest.files.items()}
    wanted |= {f"{HOME}/{path}": f"-> {leads}" for path, leads in manifest.links.items()}
    wanted |= {f"{UNITS}/{name}": digest for name, digest in manifest.units.items()}
    present = {path: digest for path, digest in found.items() if path.startswith((f"{HOME}/", f"{UNITS}/"))}
    wrong = sorted(path for path in wanted.keys() | present.keys() if wanted.get(path) != present.get(path))
    if wrong:
        raise error("release_untrusted", f"{len(wrong)} files are not as the manifest says, such as {wrong[0][:200]}")


def walk(stream: Tar, most: int, visit: Callable[[tarfile.TarInfo, BufferedReader | None], None]) -> None:
    """Shows `visit` what a tar holds, each regular file with its content, which it reads there and then.

    Raises:
        HostlerError: `unsafe_archive` for what a package has no business bringing, `too_large`, `bad_response`.
    """
    count = 0
    try:
        file = cast("IO[bytes]", stream)
        with tarfile.open(mode="r|", fileobj=file, bufsize=_BLOCK, tarinfo=BoundedInfo) as archive:
            for member in archive:
                count += 1
                if count > most:
                    raise error("too_large", f"the package holds more than {most} entries")
                check_kind(member)
                visit(member, cast("BufferedReader", archive.extractfile(member)) if member.isreg() else None)
                archive.members = []  # type: ignore[attr-defined]  # the library keeps every entry it has seen
        stream.drain()
    except (tarfile.TarError, UnicodeError, ValueError) as err:
        raise error("bad_response", "the package's files cannot be read") from err


def check_kind(member: tarfile.TarInfo) -> None:
    """Raises `unsafe_archive` for anything but plain files, directories and symbolic links."""
    if member.mode & (stat.S_ISUID | stat.S_ISGID):
        raise refused(member.name, "has a set-user-id or set-group-id bit")
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE):
        raise refused(member.name, "is no file, directory or symbolic link")
    if getattr(member, "sparse", None) is not None:
        raise refused(member.name, "has holes, and could be of any length")


def _plain(name: str) -> str:
    """Without the `./` that dpkg-deb writes; "" for the root itself."""
    short = name.removeprefix("./").rstrip("/") if name not in (".", "./") else ""
    if short:
        parts_of(short)
    return short


def _sha256(source: int, size: int) -> str:
    digest, offset = hashlib.sha256(), 0
    while offset < size and (data := os.pread(source, 1024 * 1024, offset)):
        digest.update(data)
        offset += len(data)
    return digest.hexdigest()
