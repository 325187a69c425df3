"""Which signatures count, now: a pure machine over bytes and time (after python-tuf's trusted set).

The rules of the machine:
- A keyset is accepted only with enough signatures by the roots in force: the pinned ones for the first, the
  ones its predecessor names from then on. A new keyset must satisfy both the old roots and its own.
- Versions only rise, and so does the control epoch. The same version again is accepted only when it is the
  same bytes.
- Catalogs only rise as well, until the root replaces every catalog key: then nothing signed before counts, and
  the mark starts again. That is the way back from a catalog numbered sky-high (fast-forward, T8).
- An expired keyset is not replaced by an expired one, and verifies nothing.
- A key counts for its own roles only.
"""

import msgspec

from hostler.base.envelope import KEYSET_TYPE, Envelope
from hostler.base.errors import error
from hostler.pki import dsse
from hostler.pki.keys import PublicKey
from hostler.pki.keyset import KeyRole, Keyset, key_of, parse_keyset


class TrustState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a node keeps on disk.

    Attributes:
        root_keys: pinned root keys, base64 SubjectPublicKeyInfo.
        keyset: the newest accepted keyset (DSSE JSON).
        catalog_version: the highest seen under the present catalog keys.
    """

    trust_domain: str
    root_keys: tuple[str, ...]
    root_threshold: int
    keyset: bytes
    keyset_version: int = 0
    catalog_version: int = 0


class TrustStore:
    """Holds one accepted keyset and answers for its roles. No file, socket or clock inside."""

    def __init__(self, state: TrustState, now_ms: int) -> None:
        """Takes up a saved state; the keyset in it is verified again from the pins.

        Raises:
            HostlerError: `keyset_untrusted`, `keyset_rollback`. An expired keyset is taken up, so that a
                fresher one can follow, but verifies nothing.
        """
        self._state = state
        keyset = self._verified(state.keyset, _pins(state), state.root_threshold)
        if keyset.version < state.keyset_version:
            raise error("keyset_rollback", f"keyset {keyset.version} is older than {state.keyset_version}")
        self._take(keyset, state.keyset)
        self._last_seen_ms = now_ms

    @property
    def state(self) -> TrustState:
        """What to save."""
        return self._state

    @property
    def keyset(self) -> Keyset:
        return self._keyset

    def update_keyset(self, dsse_json: bytes, now_ms: int) -> bool:
        """Accepts a newer keyset; False when it is the one in use.

        Raises:
            HostlerError: `keyset_untrusted`, `bad_signature`, `untrusted_key`, `keyset_rollback`,
                `keyset_stale`.
        """
        if dsse_json == self._state.keyset:
            return False
        roots = self.keys(KeyRole.ROOT)
        keyset = self._verified(dsse_json, roots, self.threshold(KeyRole.ROOT))
        if keyset.version <= self._keyset.version:
            raise error("keyset_rollback", f"keyset {keyset.version} is not above {self._keyset.version}")
        if keyset.expires_ms <= now_ms:
            raise error("keyset_stale", f"keyset {keyset.version} has expired")
        if keyset.control_epoch < self._keyset.control_epoch:
            raise error("keyset_rollback", f"epoch {keyset.control_epoch} is below {self._keyset.control_epoch}")
        own = tuple(key_of(keyset, keyid) for keyid in keyset.roles[KeyRole.ROOT].keyids)
        self._verified(dsse_json, own, keyset.roles[KeyRole.ROOT].threshold)
        before = {key.key_id for key in self.keys(KeyRole.CATALOG)}
        self._take(keyset, dsse_json)
        if before.isdisjoint(key.key_id for key in self.keys(KeyRole.CATALOG)):
            self._state = msgspec.structs.replace(self._state, catalog_version=0)
        return True

    def note_catalog(self, version: int) -> None:
        """From now on no lower catalog is accepted. Save `state` afterwards."""
        if version > self._state.catalog_version:
            self._state = msgspec.structs.replace(self._state, catalog_version=version)

    @property
    def control_epoch(self) -> int:
        """The one epoch whose tasks count; only the root moves it."""
        return self._keyset.control_epoch

    def keys(self, role: KeyRole) -> tuple[PublicKey, ...]:
        """The keys of `role`; empty when the keyset has none."""
        return self._by_role.get(role, ())

    def threshold(self, role: KeyRole) -> int:
        """How many of them must sign; a role that is absent can never be satisfied."""
        return self._keyset.roles[role].threshold if role in self._keyset.roles else 1

    def check_fresh(self, now_ms: int) -> None:
        """Raises `keyset_stale` once the keyset has expired (freeze)."""
        if self._keyset.expires_ms <= now_ms:
            raise error("keyset_stale", f"keyset {self._keyset.version} has expired")

    def verify(self, envelope: Envelope, payload_type: str, role: KeyRole, now_ms: int) -> bytes:
        """The payload of `envelope`, signed by enough keys of `role`.

        Raises:
            HostlerError: `keyset_stale`, `malformed_envelope`, `untrusted_key`, `bad_signature`.
        """
        self.check_fresh(now_ms)
        return dsse.verify(envelope, payload_type, self.keys(role), self.threshold(role))

    def _verified(self, dsse_json: bytes, roots: tuple[PublicKey, ...], threshold: int) -> Keyset:
        payload = dsse.verify(dsse.from_json(dsse_json), KEYSET_TYPE, roots, threshold)
        keyset = parse_keyset(payload)
        if keyset.trust_domain != self._state.trust_domain:
            raise error("keyset_untrusted", f"the keyset is for trust domain {keyset.trust_domain!r}")
        return keyset

    def _take(self, keyset: Keyset, dsse_json: bytes) -> None:
        self._keyset = keyset
        self._by_role = {
            KeyRole(name): tuple(key_of(keyset, keyid) for keyid in dict.fromkeys(role.keyids))
            for name, role in keyset.roles.items()
        }
        own = self._by_role[KeyRole.ROOT]
        self._state = msgspec.structs.replace(
            self._state,
            keyset=dsse_json,
            keyset_version=keyset.version,
            root_keys=tuple(keyset.keys[key.key_id] for key in own),
            root_threshold=keyset.roles[KeyRole.ROOT].threshold,
        )


def _pins(state: TrustState) -> tuple[PublicKey, ...]:
    import base64

    return tuple(PublicKey(base64.b64decode(key)) for key in state.root_keys)
