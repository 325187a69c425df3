"""What others signed and this control plane holds: keysets of the root, and the catalogs that count under them.

Reads bytes; says what they prove to be. Must not: sign, or decide what follows from it; the kernel does.
"""

import sqlite3

from hostler.base.envelope import CATALOG_TYPE
from hostler.base.errors import HostlerError, error
from hostler.catalog.manifest import Catalog, open_catalog
from hostler.control.kernel.commands import RegisterCatalog
from hostler.control.kernel.rows import CatalogRow
from hostler.pki import dsse
from hostler.pki.keyset import KeyRole, Keyset, parse_keyset
from hostler.pki.trust import TrustStore

_UNSIGNED = ("bad_signature", "untrusted_key", "malformed_envelope")
_FILE = "INSERT OR IGNORE INTO keysets (version, control_epoch, keyset, published_at_ms) VALUES (?, ?, ?, ?)"
_ALL = "SELECT version, keyset FROM keysets ORDER BY version"


class Published:
    """Attributes:
    trust: the newest keyset, published ones included.
    keysets: (version, DSSE JSON) of all there have been, oldest first.
    ca_in_use: CA certificates (PEM) without which this control plane would be cut off.
    """

    def __init__(self, trust: TrustStore, dispatch_keyid: str) -> None:
        self.trust = trust
        self.keysets: list[tuple[int, bytes]] = []
        self.ca_in_use: frozenset[str] = frozenset()
        self._dispatch_keyid = dispatch_keyid

    def load(self, db: sqlite3.Connection, older: tuple[bytes, ...], now_ms: int) -> None:
        """Files what the keys directory holds, and follows what was published since."""
        for data in (*older, self.trust.state.keyset):
            keyset = parse_keyset(dsse.from_json(data).payload)
            db.execute(_FILE, (keyset.version, keyset.control_epoch, data, now_ms))
        for version, data in db.execute(_ALL).fetchall():
            self.keysets.append((version, data))
            if version > self.trust.keyset.version:
                self.trust.update_keyset(data, now_ms)

    def check_dispatch(self) -> None:
        """Raises `untrusted_key` when no node would accept what we sign (P2)."""
        if self._dispatch_keyid not in {key.key_id for key in self.trust.keys(KeyRole.DISPATCH)}:
            raise error("untrusted_key", "the dispatch key is not in the keyset, so nodes would refuse every task")

    def take_up_epoch(self, stored: int | None, *, recovering: bool) -> int:
        """The store's epoch, which must be the keyset's: the root alone says which memory is the right one (P1).

        Raises:
            HostlerError: `controller_rollback`.
        """
        signed = self.trust.control_epoch
        stored = signed if stored is None else stored
        if stored > signed or (stored < signed and not recovering):
            raise error(
                "controller_rollback",
                f"the store is of epoch {stored}, the newest keyset of epoch {signed}",
                hint="after a restore run 'hostler-control recover'; else put back the newer store or keyset",
            )
        return stored

    def open_catalog(self, command: RegisterCatalog, current: CatalogRow | None, now_ms: int) -> Catalog:
        """The catalog that the bytes prove to be.

        Raises:
            HostlerError: `catalog_unsigned`, and what else `manifest.open_catalog` refuses.
        """
        try:
            catalog = open_catalog(
                command.manifest, command.documents, self.trust, now_ms, self._catalog_floor(current, now_ms)
            )
            for name in catalog.resolvers:
                catalog.check_resolver(name)
        except HostlerError as err:
            code = "catalog_unsigned" if err.code in _UNSIGNED else err.code
            raise error(code, err.message, hint=err.hint) from err
        return catalog

    def _catalog_floor(self, current: CatalogRow | None, now_ms: int) -> int:
        """The version in use, unless the root has taken its signers' word away (T8)."""
        if current is None:
            return 0
        try:
            self.trust.verify(dsse.from_json(current.manifest), CATALOG_TYPE, KeyRole.CATALOG, now_ms)
        except HostlerError:
            return 0
        return current.version

    def open_keyset(self, data: bytes, epoch: int, now_ms: int) -> Keyset:
        """The keyset that the bytes prove to be. Checked against a copy: see `take`.

        Raises:
            HostlerError: what `TrustStore.update_keyset` refuses; `controller_rollback`, `untrusted_key` and
                `certificate_invalid` for one under which this control plane could not go on.
        """
        if any(data == keyset for _, keyset in self.keysets):
            return parse_keyset(dsse.from_json(data).payload)
        after = TrustStore(self.trust.state, now_ms)
        after.update_keyset(data, now_ms)
        keyset = after.keyset
        if keyset.control_epoch != epoch:
            raise error(
                "controller_rollback",
                f"the keyset opens epoch {keyset.control_epoch}, which is for a restored store",
                hint="stop the control plane and run 'hostler-control recover'",
            )
        if self._dispatch_keyid not in {key.key_id for key in after.keys(KeyRole.DISPATCH)}:
            raise error(
                "untrusted_key",
                "the keyset lacks the dispatch key that this control plane signs with",
                hint="activate the new dispatch key first ('hostler pki rotate'), or start with both files replaced",
            )
        lost = set(self.trust.keyset.ca_certificates) - set(keyset.ca_certificates)
        if self.ca_in_use & lost:
            raise error(
                "certificate_invalid",
                "the keyset drops the CA that this control plane and its nodes use now",
                hint="activate the new CA first: 'hostler pki rotate ca'",
            )
        return keyset

    def take(self, data: bytes, now_ms: int) -> None:
        """A keyset that is on disk now is in force. One that a higher one overtook on the way is kept for nodes."""
        version = parse_keyset(dsse.from_json(data).payload).version
        if version > self.trust.keyset.version:
            self.trust.update_keyset(data, now_ms)
        self.keysets = sorted([*self.keysets, (version, data)])
