"""The keyset: which keys may do what, versioned and expiring, signed by the offline root."""

import base64
import binascii
from enum import StrEnum

import msgspec

from hostler.base.digest import canonical_json
from hostler.base.errors import error
from hostler.base.strict import convert, decode_canonical
from hostler.pki.keys import PublicKey


class KeyRole(StrEnum):
    """What a key may sign. `ROOT` names the keys that may sign the next keyset."""

    ROOT = "root"
    DISPATCH = "dispatch"
    CATALOG = "catalog"
    CA = "ca"
    UPDATE = "update"
    ARTIFACT = "artifact"
    WITNESS = "witness"


class RoleKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    threshold: int
    keyids: tuple[str, ...]


class Keyset(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Canonical JSON inside a DSSE envelope of type `KEYSET_TYPE`.

    Attributes:
        keys: key id to base64 of the SubjectPublicKeyInfo (DER).
        roles: role name to its keys and how many of them must sign.
        ca_certificates: PEM certificates that may issue identities.
    """

    version: int
    trust_domain: str
    issued_ms: int
    expires_ms: int
    keys: dict[str, str]
    roles: dict[str, RoleKeys]
    ca_certificates: tuple[str, ...]


def keyset_payload(keyset: Keyset) -> bytes:
    return canonical_json(msgspec.to_builtins(keyset))


def parse_keyset(payload: bytes) -> Keyset:
    """The keyset in `payload`, checked against itself.

    Raises:
        HostlerError: `keyset_untrusted` for anything our own maker would not write: another form, a key
            under a name that is not its own, a role without its keys, a threshold out of reach.
    """
    value = decode_canonical(payload, code="keyset_untrusted", what="keyset")
    keyset = convert(value, Keyset, code="keyset_untrusted", what="keyset")
    for keyid in keyset.keys:
        key_of(keyset, keyid)
    for name, role in keyset.roles.items():
        _check_role(keyset, name, role)
    if KeyRole.ROOT not in keyset.roles:
        raise error("keyset_untrusted", "the keyset names no root keys for its successor")
    return keyset


def key_of(keyset: Keyset, keyid: str) -> PublicKey:
    """The key named `keyid`; a name that is not the key's own digest is refused (T7)."""
    try:
        key = PublicKey(base64.b64decode(keyset.keys[keyid], validate=True))
    except (binascii.Error, KeyError) as err:
        raise error("keyset_untrusted", f"key {keyid[:16]} of the keyset cannot be read") from err
    if key.key_id != keyid:
        raise error("keyset_untrusted", f"key {keyid[:16]} is filed under a name that is not its own")
    return key


def encode_key(key: PublicKey) -> str:
    return base64.b64encode(key.spki_der).decode()


def _check_role(keyset: Keyset, name: str, role: RoleKeys) -> None:
    if name not in set(KeyRole):
        raise error("keyset_untrusted", f"the keyset has an unknown role {name!r}")
    missing = [keyid for keyid in role.keyids if keyid not in keyset.keys]
    if missing:
        raise error("keyset_untrusted", f"role {name} names key {missing[0][:16]}, which is not in the keyset")
    if not 1 <= role.threshold <= len(set(role.keyids)):
        raise error("keyset_untrusted", f"role {name} asks for {role.threshold} of {len(role.keyids)} keys")
