"""Releases on disk: the signed metadata in force, and packages by their digest.

    packages_dir/metadata.json     as `hostler releases publish` sent it, verified against the keyset before
    packages_dir/SHA256            a package that this metadata names, whole and verified

    packages_dir/.NAME.…           one of the two while it is written, or what a crash left of it

Nothing is written before the update keys have vouched for it: a package is taken only if verified metadata names it.
"""

import asyncio
import contextlib
import os
import re
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from hostler.base.digest import same_digest
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.control.bundles.files import STALE_S, Upload
from hostler.control.bundles.settings import BundleSettings
from hostler.control.delivery import host_files
from hostler.control.delivery.settings import UpdateSettings
from hostler.pki.keyset import Keyset
from hostler.pki.releases import Release, VerifiedReleases, parse_metadata, verify_releases
from hostler.pki.storage import write_public

_log = get_logger("hostler.control.delivery")
METADATA = "metadata.json"
_SCRATCH = re.compile(r"[.](?:[0-9a-f]{64}[.][0-9a-f]{16}|metadata[.]json[.][0-9]+[.]new)", re.ASCII)
MOST_UPLOADS = 2
_DIGITS = 64  # of a package's name, its SHA-256


class Packages:
    """`placing` is held while metadata is judged and put in force. `for_hosts`: for those that are installed anew."""

    def __init__(self, folder: Path, settings: UpdateSettings) -> None:
        self._folder = folder
        self.settings = settings
        self.for_hosts = host_files.read(settings)
        self.placing = asyncio.Lock()
        self._named: dict[str, Release] = {}  # by digest, of the metadata that was verified last
        self._uploads = 0
        self._sending = 0
        self._document: bytes | None = None  # in force; None before the first look

    def judge(self, document: bytes, keyset: Keyset, now_ms: int) -> VerifiedReleases:
        """What the document offers, if the update keys vouch for it and it is not older than the one in force.

        Raises:
            HostlerError: `release_untrusted`, `release_rollback`, `release_stale`; `too_large` for a package that
                this control plane does not take.
        """
        known = self.metadata()
        trusted = parse_metadata(known) if known else {}
        verified = verify_releases(parse_metadata(document), keyset, trusted, now_ms)
        for release in verified.releases:
            if release.size > self.settings.package_bytes:
                raise error("too_large", f"package {release.file} is larger than {self.settings.package_bytes} bytes")
        self._named = {release.sha256: release for release in verified.releases}
        return verified

    def missing(self, verified: VerifiedReleases) -> list[Release]:
        """Packages that have to be sent."""
        return [release for release in verified.releases if not self.has(release)]

    def has(self, release: Release) -> bool:
        try:
            return self.path(release.sha256).stat().st_size == release.size
        except OSError:
            return False

    def path(self, sha256: str) -> Path:
        return self._folder / sha256

    def drop_withdrawn(self, verified: VerifiedReleases) -> None:
        """Removes packages that the metadata in force does not name: each version takes tens of megabytes."""
        named = {release.sha256 for release in verified.releases}
        for path in self._folder.iterdir():
            is_package = len(path.name) == _DIGITS and path.name.isalnum()
            if is_package and path.name not in named:
                path.unlink(missing_ok=True)

    def named(self, sha256: str) -> Release:
        """Raises `release_unknown` for a package that no verified metadata names."""
        release = self._named.get(sha256)
        if release is None:
            raise error(
                "release_unknown",
                f"no verified metadata names a package {sha256[:64]!r}",
                hint="send the metadata first: 'hostler releases publish' does both",
            )
        return release

    async def receive(self, release: Release, chunks: AsyncIterator[bytes]) -> None:
        """Keeps the package, if the bytes are the ones that were signed.

        Raises:
            HostlerError: `too_large`, `digest_mismatch`, `disk_full`, `rate_limited`, `store_unavailable`.
        """
        if self._uploads >= MOST_UPLOADS:
            raise error("rate_limited", f"{MOST_UPLOADS} packages are being sent already")
        self._uploads += 1
        limits = BundleSettings(max_bytes=release.size, reserve_bytes=self.settings.reserve_bytes)
        upload = Upload(self.path(release.sha256), limits, what="package")
        try:
            await upload.take(chunks)
            if upload.size != release.size or not same_digest(upload.sha256, release.sha256):
                raise error("digest_mismatch", f"the {upload.size} bytes sent are not the signed {release.file}")
            await asyncio.to_thread(upload.keep)
        finally:
            self._uploads -= 1
            await asyncio.to_thread(upload.discard)

    def metadata(self) -> bytes:
        """The document in force, b"" for none. One copy, however many read it slowly.

        Raises:
            HostlerError: `store_unavailable` for a file that nobody can have published.
        """
        if self._document is None:
            path = self._folder / METADATA
            try:
                found = path.read_bytes()
                parse_metadata(found)
            except FileNotFoundError:
                found = b""
            except (OSError, HostlerError) as err:
                _log.error("packages.metadata_unreadable", path=str(path), error=err)
                raise error(
                    "store_unavailable",
                    f"{METADATA} in the packages directory cannot be read as metadata of releases",
                    hint=f"put {METADATA} back from a backup, or remove it and run 'hostler releases publish' again",
                ) from err
            self._document = found
        return self._document

    def put_metadata(self, document: bytes) -> None:
        """Whole or not at all. Raises `store_unavailable`; the one before is in force then."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_public(self._folder / METADATA, document)
        except OSError as err:
            _log.error("packages.metadata_not_written", path=str(self._folder / METADATA), error=err)
            raise error("store_unavailable", f"{METADATA} cannot be written: {err.strerror}") from err
        self._document = document

    def sweep(self, now_ms: int) -> int:
        """Removes what is left of uploads that a crash cut short; → how many. A file that grows still is younger."""
        gone, before = 0, now_ms / 1000 - STALE_S
        with contextlib.suppress(FileNotFoundError):
            for path in self._folder.iterdir():
                with contextlib.suppress(OSError):
                    found = path.lstat()
                    if _SCRATCH.fullmatch(path.name) and stat.S_ISREG(found.st_mode) and found.st_mtime < before:
                        path.unlink()
                        gone += 1
        return gone

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """Raises `rate_limited` while as many packages are sent as may be."""
        if self._sending >= self.settings.downloads:
            raise error("rate_limited", f"{self._sending} packages are being sent; come again in a moment")
        self._sending += 1
        try:
            yield
        finally:
            self._sending -= 1

    def size(self, sha256: str) -> int:
        """Raises `not_found`."""
        try:
            return self.path(sha256).stat().st_size
        except OSError as err:
            raise error("not_found", "the package is not here") from err

    def open(self, sha256: str) -> int:
        """A descriptor to read from; the caller closes it."""
        return os.open(self.path(sha256), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
