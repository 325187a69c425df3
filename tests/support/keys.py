"""Throwaway trust for tests: a root, its keyset, and a key for every role. Real keys, real signatures."""

import base64
from dataclasses import dataclass, field

from hostler.base.envelope import KEYSET_TYPE
from hostler.pki import dsse
from hostler.pki.keys import FileSigner, new_ed25519, new_p256
from hostler.pki.keyset import KeyRole, Keyset, RoleKeys, encode_key, keyset_payload
from hostler.pki.trust import TrustState, TrustStore

NOW = 1_800_000_000_000
YEAR_MS = 365 * 24 * 3600 * 1000
DOMAIN = "test.hostler"


@dataclass
class Keys:
    """One installation's keys. `keyset` and `trust` are made from what stands in the fields."""

    root: FileSigner = field(default_factory=new_ed25519)
    dispatch: FileSigner = field(default_factory=new_ed25519)
    catalog: FileSigner = field(default_factory=new_ed25519)
    artifact: FileSigner = field(default_factory=new_ed25519)
    node: FileSigner = field(default_factory=new_p256)
    more: tuple[FileSigner, ...] = ()  # in the keyset, without a role
    version: int = 1
    catalog_threshold: int = 1
    catalog_more: tuple[FileSigner, ...] = ()
    update: FileSigner | None = None  # releases of the agent

    def keyset(self, *, expires_ms: int = NOW + YEAR_MS) -> bytes:
        """DSSE JSON, signed by the root."""
        catalogers = (self.catalog, *self.catalog_more)
        updaters = (self.update,) if self.update else ()
        everybody = (self.root, self.dispatch, self.artifact, *catalogers, *self.more, *updaters)
        keyset = Keyset(
            version=self.version,
            trust_domain=DOMAIN,
            issued_ms=NOW,
            expires_ms=expires_ms,
            keys={key.public.key_id: encode_key(key.public) for key in everybody},
            roles={
                KeyRole.ROOT.value: _role(self.root),
                KeyRole.DISPATCH.value: _role(self.dispatch),
                KeyRole.CATALOG.value: _role(*catalogers, threshold=self.catalog_threshold),
                KeyRole.ARTIFACT.value: _role(self.artifact),
                KeyRole.DESTRUCTIVE.value: _role(*catalogers),
            }
            | ({KeyRole.UPDATE.value: _role(*updaters)} if updaters else {}),
            ca_certificates=(),
        )
        return dsse.to_json(dsse.sign(keyset_payload(keyset), KEYSET_TYPE, [self.root]))

    def state(self, *, expires_ms: int = NOW + YEAR_MS) -> TrustState:
        return TrustState(
            trust_domain=DOMAIN,
            root_keys=(base64.b64encode(self.root.public.spki_der).decode(),),
            root_threshold=1,
            keyset=self.keyset(expires_ms=expires_ms),
        )

    def trust(self, *, expires_ms: int = NOW + YEAR_MS) -> TrustStore:
        return TrustStore(self.state(expires_ms=expires_ms), NOW)

    @property
    def thumbprint(self) -> str:
        """Of the node's identity key."""
        return self.node.public.key_id


def _role(*signers: FileSigner, threshold: int = 1) -> RoleKeys:
    return RoleKeys(threshold, tuple(signer.public.key_id for signer in signers))
