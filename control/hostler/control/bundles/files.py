"""Bundles on disk: received under a name of their own, checked, and put in place by one rename.

    state_dir/bundles/ORG/PROJECT/SHA256          whole and verified
    state_dir/bundles/ORG/PROJECT/.SHA256.XXXX    an upload that goes on, or was cut

A file without a row is nobody's and is swept away; a row without its file is a bundle that must be uploaded again.
"""

import asyncio
import contextlib
import hashlib
import os
import re
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

from hostler.base.digest import same_digest
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.control.bundles.settings import BundleSettings
from hostler.pki.storage import sync_directory

_log = get_logger("hostler.control.bundles")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_WRITE_BYTES = 1 << 20
MOST_AT_ONCE = 4  # uploads of one project
IDLE_S, WHOLE_S = 60.0, 3600.0
STALE_S = 2 * WHOLE_S
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Key(NamedTuple):
    """Whose bytes, and which."""

    org_id: str
    project_id: str
    sha256: str

    def checked(self) -> "Key":
        """Names become parts of a path. Raises `invalid_request`."""
        if not _SHA256.fullmatch(self.sha256):
            raise error("invalid_request", "a bundle is named by its sha256: 64 lower-case hex digits")
        if not (_NAME.fullmatch(self.org_id) and _NAME.fullmatch(self.project_id)):
            raise error("invalid_request", "a project of that name keeps no bundles")
        return self


class BundleFiles:
    """`placing` is held while a file and its row change together."""

    def __init__(self, folder: Path, settings: BundleSettings) -> None:
        self._folder = folder
        self.settings = settings
        self.placing = asyncio.Lock()
        self._uploads: Counter[tuple[str, str]] = Counter()

    def path(self, key: Key) -> Path:
        return self._folder / key.org_id / key.project_id / key.checked().sha256

    def has(self, key: Key, size: int) -> bool:
        """Whether the bytes are there, as far as a glance can tell; who reads them hashes them."""
        try:
            return self.path(key).stat().st_size == size
        except OSError:
            return False

    @contextlib.asynccontextmanager
    async def received(self, key: Key, chunks: AsyncIterator[bytes]) -> AsyncIterator["Upload"]:
        """An upload, written and verified; `keep` puts it in place, without that nothing of it is left.

        Raises:
            HostlerError: `too_large`, `digest_mismatch`, `disk_full`, `rate_limited`, `timeout`.
        """
        of = (key.org_id, key.project_id)
        path = self.path(key)
        if self._uploads[of] >= MOST_AT_ONCE:
            raise error("rate_limited", f"{MOST_AT_ONCE} bundles of project {key.project_id} are being uploaded")
        self._uploads[of] += 1
        upload = Upload(path, self.settings)
        try:
            await upload.take(chunks)
            if not same_digest(upload.sha256, key.sha256):
                raise error("bundle_digest", f"the {upload.size} bytes sent do not have the digest {key.sha256}")
            yield upload
        finally:
            self._uploads -= Counter([of])
            await asyncio.to_thread(upload.discard)

    def remove(self, key: Key) -> None:
        self.path(key).unlink(missing_ok=True)

    def sweep(self, held: set[tuple[str, str, str]], now_ms: int) -> int:
        """Removes what no row speaks of, a while after it came; → how many."""
        gone, before = 0, now_ms / 1000 - STALE_S
        for path in self._all():
            if (path.parent.parent.name, path.parent.name, path.name) in held:
                continue
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < before:
                    path.unlink()
                    gone += 1
        return gone

    def _all(self) -> Iterator[Path]:
        return (path for path in self._folder.glob("*/*/*") if not path.is_symlink() and path.is_file())


class Upload:
    """One file that grows; the blocking half runs in threads."""

    def __init__(self, path: Path, settings: BundleSettings, what: str = "bundle") -> None:
        self._path = path
        self._what = what
        self._scratch = path.parent / f".{path.name}.{secrets.token_hex(8)}"
        self._settings = settings
        self._digest = hashlib.sha256()
        self._descriptor = -1
        self.size = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    async def take(self, chunks: AsyncIterator[bytes]) -> None:
        await asyncio.to_thread(self._open)
        held = bytearray()
        try:
            async with asyncio.timeout(WHOLE_S):
                async for chunk in _paced(chunks):
                    held += chunk
                    if self.size + len(held) > self._settings.max_bytes:
                        raise error("too_large", f"the {self._what} is larger than {self._settings.max_bytes} bytes")
                    if len(held) >= _WRITE_BYTES:
                        await asyncio.to_thread(self._write, bytes(held))
                        held.clear()
        except TimeoutError as err:
            raise error("invalid_request", "the upload came too slowly, and was given up") from err
        await asyncio.to_thread(self._write, bytes(held))

    def keep(self) -> None:
        """In place for good: data first, then the name, then the directory."""
        with _disk(self._path):
            os.fsync(self._descriptor)
            self._scratch.rename(self._path)
            sync_directory(self._path.parent)

    def discard(self) -> None:
        """Also after `keep`: then only the descriptor goes."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        self._scratch.unlink(missing_ok=True)

    def _open(self) -> None:
        with _disk(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._descriptor = os.open(self._scratch, _CREATE, 0o600)

    def _write(self, data: bytes) -> None:
        with _disk(self._path):
            found = os.fstatvfs(self._descriptor)
            if found.f_bavail * found.f_frsize - len(data) < self._settings.reserve_bytes:
                raise error(
                    "disk_full", f"the control plane has no room for a {self._what}", hint="remove some, or add disk"
                )
            self._digest.update(data)
            self.size += len(data)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]


async def _paced(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Raises `TimeoutError` for a sender that says nothing for a while."""
    while True:
        async with asyncio.timeout(IDLE_S):
            try:
                chunk = await anext(chunks)
            except StopAsyncIteration:
                return
        yield chunk


@contextlib.contextmanager
def _disk(path: Path) -> Iterator[None]:
    try:
        yield
    except HostlerError:
        raise
    except OSError as err:
        _log.error("bundle.not_written", path=str(path), error=err)
        raise error("store_unavailable", f"a file cannot be written: {err.strerror}") from err
