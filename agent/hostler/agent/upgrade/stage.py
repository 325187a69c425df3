"""A signed release onto this node's disk, whole, beside the version that runs and without touching it (LC-12, LC-13).

metadata ─▶ verified by the update keys ─▶ the release named ─▶ may it be installed here ─▶ room ─▶ package by
digest ─▶ a directory of its own ─▶ compared with its manifest ─▶ bytecode ─▶ synced ─▶ renamed ─▶ marked as ready
"""

import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from hostler.agent.fetch.blob import Owner, Wanted, pull
from hostler.agent.fetch.document import Question, read
from hostler.agent.fetch.partial import partial_name
from hostler.agent.host.swap import sync_file_system
from hostler.agent.host.threads import start
from hostler.agent.upgrade import records, slots
from hostler.agent.upgrade.installed import Installed
from hostler.agent.upgrade.offered import Known, known
from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.agent.upgrade.slots import Found
from hostler.agent.upgrade.unpack import unpack
from hostler.base.errors import error
from hostler.base.logs import get_logger
from hostler.base.version import __version__
from hostler.catalog.params.upgrade import Stage
from hostler.pki.manifest import Manifest
from hostler.pki.releases import MAX_DOCUMENT_BYTES, Release, may_install, parse_metadata, verify_releases
from hostler.pki.storage import sync_directory

_log = get_logger("hostler.agent.upgrade.stage")
ROOM_FACTOR = 3  # the package, what it unpacks to, its bytecode
_BY_SIZE = 8  # what a package unpacks to, with its bytecode, in its own sizes; measured: 6


class Staged(NamedTuple):
    slot: Found
    changed: bool


class Stager:
    """One staging.

    Args:
        allowed: whether a URL may be asked; each redirect is put to it too.
        compile_: writes the bytecode of the tree in a directory, as it will be called at its final place.
    """

    def __init__(
        self,
        installed: Installed,
        wanted: Stage,
        owner: Owner,
        allowed: Callable[[str], bool],
        compile_: Callable[[Path, Path], Awaitable[None]],
    ) -> None:
        self._installed = installed
        self._places: Places = installed.places
        self._wanted = wanted
        self._owner = owner
        self._allowed = allowed
        self._compile = compile_

    async def run(self) -> Staged:
        """Raises `release_untrusted`, `release_rollback`, `release_stale`, `release_unknown`, `downgrade_denied`,
        `digest_mismatch`, `disk_full`, and what fetching and unpacking raise."""
        async with self._installed.staging:
            slots.prepare(self._places)
            release = await self.release()
            there = await start(lambda: staged(self._places, release), "upgrade-look")
            if there is not None:
                return Staged(there, changed=False)
            slots.prune(self._places, frozenset())
            self._clear_fetched(release)
            self._check_room(release)
            await self._fetch(release)
            try:
                return Staged(await self._put(release), changed=True)
            finally:
                self._package(release).unlink(missing_ok=True)

    async def release(self) -> Release:
        """What the update keys say of the version that is wanted, if it may be installed here and now."""
        question = Question(url=self._wanted.metadata_url, most=MAX_DOCUMENT_BYTES, allowed=self._allowed)
        document = await read(question, self._owner)
        if document.answer.status != 200:
            raise error("bad_response", f"the releases' metadata was answered with status {document.answer.status}")
        now_ms, trust = self._owner.clock.now_ms(), self._installed.trust()
        trust.check_fresh(now_ms)
        before = known(self._places).trusted
        verified = verify_releases(parse_metadata(document.body), trust.keyset, before, now_ms)
        records.write(self._places.releases, Known(trusted=verified.trusted))
        release = verified.find(self._wanted.version, self._wanted.suite)
        if (release.sha256, release.size) != (self._wanted.sha256, self._wanted.size_bytes):
            raise error("release_untrusted", f"the package asked for is not the one signed as {release.version}")
        may_install(release, __version__)
        self._check_suite()
        return release

    def _check_suite(self) -> None:
        """A package of another Debian release has another Python's libraries."""
        mine = slots.found(self._places, self._installed.running)
        if mine is not None and mine.suite != self._wanted.suite:
            raise error("release_unknown", f"this node runs {mine.suite}, the release is for {self._wanted.suite}")

    def _check_room(self, release: Release) -> None:
        status = os.statvfs(self._places.base)
        free, reserve = status.f_bavail * status.f_frsize, self._owner.settings.disk_reserve_bytes
        needed = max(ROOM_FACTOR, _BY_SIZE) * release.size + reserve
        if free < needed:
            raise error("disk_full", f"{self._places.base} has {free} bytes free, and a version needs {needed}")

    def _clear_fetched(self, release: Release) -> None:
        """Of stages that were killed or given up, what this one cannot go on with: nobody vouches for it any more."""
        for path in self._places.fetched.iterdir():
            if path.name != partial_name(release.sha256):
                path.unlink()

    def _package(self, release: Release) -> Path:
        return self._places.fetched / f"{release.sha256}.deb"

    async def _fetch(self, release: Release) -> None:
        """Whole and of that digest, or not there; a broken transfer goes on where it stood."""
        path = self._package(release)
        with slots.opened(path.parent) as directory:
            wanted = Wanted(
                url=self._wanted.url,
                sha256=release.sha256,
                directory=directory,
                name=path.name,
                mode=0o600,
                size=release.size,
                allowed=self._allowed,
                identity=f"sha256:{release.sha256}",
            )
            await pull(wanted, self._owner)

    async def _put(self, release: Release) -> Found:
        slot = slots.free_name(self._places, release.version, release.commit)
        scratch, final = self._places.slots / f"{slots.NEW}{slot}", self._places.home(slot)
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            manifest = await start(lambda: self._unpacked(release, scratch), "upgrade-unpack")
            _check_manifest(manifest, release)
            await self._compile(scratch, final)
            slots.forget_ready(self._places, slot)
            slots.note_release(self._places, slot, release)
            await start(lambda: _settle(scratch, final), "upgrade-settle")
            slots.note_ready(self._places, slot)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        _log.info("upgrade.staged", version=release.version, slot=slot)
        found = slots.found(self._places, slot)
        assert found is not None
        return found

    def _unpacked(self, release: Release, scratch: Path) -> Manifest:
        scratch.mkdir(mode=0o700)
        scratch.chmod(0o755)
        source = os.open(self._package(release), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with slots.opened(scratch) as target:
                return unpack(source, target, self._check)
        finally:
            os.close(source)

    def _check(self) -> None:
        if self._owner.cancelled.is_set():
            raise error("canceled", "the stage was cancelled")
        if self._owner.deadline.passed():
            raise error("timeout", "the package was not unpacked in time")


def staged(places: Places, release: Release) -> Found | None:
    """The slot that holds this very release, whole; slot zero too, where dpkg has installed the same build."""
    for one in slots.every(places):
        if (one.version, one.commit, one.suite) != (release.version, release.commit, release.suite):
            continue
        signed = slots.release_of(places, one.name)
        same = one.name == PACKAGED or (signed is not None and signed.sha256 == release.sha256)
        if same and not slots.damage(places, one.name):
            return one
    return None


def _check_manifest(manifest: Manifest, release: Release) -> None:
    """The package says of itself what was signed of it."""
    said = manifest.version, manifest.commit, manifest.suite
    if said != (release.version, release.commit, release.suite):
        raise error("release_untrusted", f"the package is version {manifest.version}, signed is {release.version}")


def _settle(scratch: Path, final: Path) -> None:
    """By one rename, after everything is on disk (K7). It is for the session's user too, whatever our umask."""
    try:
        for path in scratch.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
            elif path.suffix == ".pyc":
                path.chmod(0o644)
        with slots.opened(scratch) as descriptor:
            sync_file_system(descriptor)
        scratch.rename(final)
        sync_directory(final.parent)
    except OSError as err:
        raise error("file_error", f"{final} cannot be put in place: {err.strerror}") from err
