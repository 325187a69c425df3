"""The control plane's keys, as `hostler pki init` made them. Missing ones stop the start (PK-11)."""

import msgspec

from hostler.base.clock import SystemClock
from hostler.base.errors import error
from hostler.control.config import ControlConfig
from hostler.pki.ceremony import load_signer
from hostler.pki.keys import X509Signer
from hostler.pki.keyset import KeyRole
from hostler.pki.storage import read_private, read_public
from hostler.pki.trust import TrustStore
from hostler.pki.trust_files import load_trust


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """Private parts stay inside the signers."""

    dispatch: X509Signer
    ca: X509Signer
    ca_pem: bytes
    server_key_pem: bytes
    server_chain_pem: bytes
    keyset: bytes
    keyset_history: tuple[bytes, ...] = ()
    trust: TrustStore


def load_keys(config: ControlConfig) -> Keys:
    """Raises `invalid_config` naming the file that is absent, broken, open to others or not in the keyset."""
    folder = config.keys
    state = load_trust(folder / "trust.json")
    trust = TrustStore(state, SystemClock().now_ms())
    keyset = read_public(folder / "keyset.json")
    if keyset != state.keyset:
        trust.update_keyset(keyset, SystemClock().now_ms())
    trust.check_fresh(SystemClock().now_ms())
    keys = Keys(
        dispatch=load_signer(folder / "dispatch.key"),
        ca=load_signer(folder / "ca.key"),
        ca_pem=read_public(folder / "ca.pem"),
        server_key_pem=read_private(folder / "server.key"),
        server_chain_pem=read_public(folder / "server.pem"),
        keyset=keyset,
        keyset_history=() if keyset == state.keyset else (state.keyset,),
        trust=trust,
    )
    for role, signer in ((KeyRole.DISPATCH, keys.dispatch), (KeyRole.CA, keys.ca)):
        if signer.public.key_id not in {key.key_id for key in trust.keys(role)}:
            raise error("invalid_config", f"the {role} key in {folder} is not in the keyset")
    return keys
