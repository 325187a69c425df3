"""What this node trusts, kept up to date: keysets and catalogs, each checked before it counts.

Reads what the session received, emits a new trust store or catalog; a refused update leaves the old one.
"""

from pathlib import Path

from hostler.agent.journal.journal import Journal
from hostler.base.clock import Clock
from hostler.base.errors import HostlerError
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
        """Takes up the stored catalog; one that no longer verifies is not used."""
        stored = await self._journal.load_catalog()
        if stored is None:
            return
        try:
            self.catalog = open_catalog(*stored, self.store, self._clock.now_ms())
        except HostlerError as err:
            self.refused = err.code
            _log.warning("catalog.refused", error=err)

    async def take_catalog(self, update: CatalogUpdate) -> bool:
        """Whether the update is in force now; the old catalog stays when it is refused."""
        try:
            fresh = open_catalog(
                update.manifest, update.documents, self.store, self._clock.now_ms(), self.catalog_version
            )
        except HostlerError as err:
            self.refused = err.code
            _log.warning("catalog.refused", error=err, current_version=self.catalog_version)
            return False
        await self._journal.save_catalog(fresh.manifest_envelope, fresh.documents)
        self.catalog, self.refused = fresh, ""
        _log.info("catalog.accepted", version=fresh.version)
        return True

    async def take_keyset(self, update: KeysetUpdate) -> bool:
        """The same for a keyset."""
        try:
            changed = self.store.update_keyset(update.keyset, self._clock.now_ms())
        except HostlerError as err:
            self.refused = err.code
            _log.warning("keyset.refused", error=err, current_version=self.store.keyset.version)
            return False
        if changed:
            save_trust(self._path, self.store.state)
            _log.info("keyset.accepted", version=self.store.keyset.version)
        return changed
