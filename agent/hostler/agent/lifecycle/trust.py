"""What this node trusts, kept up to date: keysets and catalogs, each checked before it counts.

Reads what the session received, emits a new trust store or catalog; a refused update leaves the old one.
"""

from pathlib import Path

from hostler.agent.journal.journal import Journal
from hostler.base.clock import Clock
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.catalog.manifest import Catalog, open_catalog
from hostler.pki.trust import TrustStore
from hostler.pki.trust_files import load_trust, save_trust
from hostler.wire.node import CatalogUpdate, KeysetUpdate

_log = get_logger("hostler.agent.lifecycle.trust")


def trust_path(state_dir: Path) -> Path:
    return state_dir / "trust.json"


class Trusted:
    """The trust store and catalog in force. One owner, read by admission and runner."""

    def __init__(self, state_dir: Path, journal: Journal, clock: Clock) -> None:
        self._path = trust_path(state_dir)
        self._journal = journal
        self._clock = clock
        self.store = TrustStore(load_trust(self._path), clock.now_ms())
        self.catalog: Catalog | None = None
        self.refused = ""  # error_code of the last refused update, for the heartbeat

    @property
    def catalog_version(self) -> int:
        return self.catalog.version if self.catalog else 0

    async def load(self) -> None:
        """Takes up the epoch and the stored catalog; one that no longer verifies is not used."""
        await self._journal.begin_epoch(self.store.control_epoch)
        await self.look()

    async def look(self) -> None:
        """The same, and the epoch is left alone: for whoever only asks."""
        stored = await self._journal.load_catalog()
        if stored is not None:
            self._use(*stored)

    def _use(self, manifest: bytes, documents: tuple[bytes, ...]) -> bool:
        """Opens a catalog under the trust in force; without one, nothing runs."""
        floor = self.store.state.catalog_version
        try:
            self.catalog = open_catalog(manifest, documents, self.store, self._clock.now_ms(), floor)
        except HostlerError as err:
            self.catalog, self.refused = None, err.code
            _log.warning("catalog.refused", error=err)
            return False
        self.store.note_catalog(self.catalog.version)
        return True

    async def take_catalog(self, update: CatalogUpdate) -> bool:
        """Whether the update is in force now; the old catalog stays when it is refused."""
        try:
            floor = self.store.state.catalog_version
            fresh = open_catalog(update.manifest, update.documents, self.store, self._clock.now_ms(), floor)
            _refuse_fork(self.catalog, fresh)
        except HostlerError as err:
            self.refused = err.code
            _log.warning("catalog.refused", error=err, current_version=self.catalog_version)
            return False
        await self._journal.save_catalog(fresh.manifest_envelope, fresh.documents)
        self.store.note_catalog(fresh.version)
        save_trust(self._path, self.store.state)
        self.catalog, self.refused = fresh, ""
        _log.info("catalog.accepted", version=fresh.version)
        return True

    async def take_keyset(self, update: KeysetUpdate) -> bool:
        """The same for a keyset. What its predecessor vouched for has to stand before the new one."""
        try:
            changed = self.store.update_keyset(update.keyset, self._clock.now_ms())
        except HostlerError as err:
            self.refused = err.code
            _log.warning("keyset.refused", error=err, current_version=self.store.keyset.version)
            return False
        if changed:
            save_trust(self._path, self.store.state)
            self.refused = ""
            await self._journal.begin_epoch(self.store.control_epoch)
            if self.catalog is not None:
                self._use(self.catalog.manifest_envelope, self.catalog.documents)
            _log.info("keyset.accepted", version=self.store.keyset.version, epoch=self.store.control_epoch)
        return changed


def _refuse_fork(current: Catalog | None, fresh: Catalog) -> None:
    """Raises `catalog_rollback` for a second catalog of the version in force: one number, one content."""
    if current is not None and fresh.version == current.version and fresh.manifest != current.manifest:
        raise error("catalog_rollback", f"there is a catalog {fresh.version} already, with another content")
