"""Rotations as pure steps from one keyset to the next: introduce the new key, use it, retire the old one.

    introduce   old and new both count        nodes prove that they hold this keyset
    activate    the new one is used           nothing changes in the keyset
    retire      only the new one counts       for a CA: once every node has a certificate by the new one

Between two steps every signature that a node can meet is good, so no node is ever locked out. A leaked key
skips to `replace`: old and new never overlap, and what the old one vouched for ends there.
"""

import msgspec

from hostler.base.errors import error
from hostler.pki.keys import PublicKey
from hostler.pki.keyset import KeyRole, Keyset, RoleKeys, encode_key

KEYSET_LIFETIME_MS = 365 * 86_400_000
ROTATED = (KeyRole.DISPATCH, KeyRole.CATALOG, KeyRole.CA, KeyRole.ROOT)
# A role whose keys also stand in another: they move together.
_COMPANIONS = {KeyRole.CATALOG: (KeyRole.DESTRUCTIVE, KeyRole.ARTIFACT)}

replace = msgspec.structs.replace


def successor(keyset: Keyset, now_ms: int) -> Keyset:
    """The same content, one version up and fresh for another year."""
    return replace(keyset, version=keyset.version + 1, issued_ms=now_ms, expires_ms=now_ms + KEYSET_LIFETIME_MS)


def introduce(keyset: Keyset, role: KeyRole, key: PublicKey, ca_pem: str = "") -> Keyset:
    """`key` counts for `role` beside those that do already."""
    roles = dict(keyset.roles)
    for each in _with_companions(keyset, role):
        roles[each] = replace(roles[each], keyids=(*roles[each].keyids, key.key_id))
    keys = keyset.keys | {key.key_id: encode_key(key)}
    cas = (*keyset.ca_certificates, ca_pem) if ca_pem else keyset.ca_certificates
    return replace(keyset, keys=keys, roles=roles, ca_certificates=cas)


def grant(keyset: Keyset, role: KeyRole, key: PublicKey) -> Keyset:
    """`key` counts for a role that people hold for themselves: approvers, witnesses, artifact and update signers.

    Raises:
        HostlerError: `invalid_request` for the roles that are rotated, and for a key that holds the role already.
    """
    if role in ROTATED:
        raise error("invalid_request", f"a {role} key is rotated, not granted", hint="hostler pki rotate")
    known = keyset.roles.get(role, RoleKeys(1, ()))
    if key.key_id in known.keyids:
        raise error("invalid_request", f"the key is a {role} key already")
    roles = keyset.roles | {str(role): replace(known, keyids=(*known.keyids, key.key_id))}
    return replace(keyset, keys=keyset.keys | {key.key_id: encode_key(key)}, roles=roles)


def retire(keyset: Keyset, role: KeyRole, key_id: str, ca_pem: str = "") -> Keyset:
    """`key_id` no longer counts for `role`.

    Raises:
        HostlerError: `invalid_request` when the role would be left without enough keys.
    """
    roles = dict(keyset.roles)
    for each in _with_companions(keyset, role):
        left = tuple(keyid for keyid in roles[each].keyids if keyid != key_id)
        if len(left) < roles[each].threshold:
            raise error(
                "invalid_request", f"role {each} would be left with {len(left)} keys", hint="introduce one first"
            )
        roles[each] = replace(roles[each], keyids=left)
    cas = tuple(ca for ca in keyset.ca_certificates if ca.strip() != ca_pem.strip())
    return _pruned(replace(keyset, roles=roles, ca_certificates=cas))


def replace_role(keyset: Keyset, role: KeyRole, keys: tuple[PublicKey, ...], threshold: int = 0) -> Keyset:
    """Only `keys` count for `role` from now on: for the root, and for a key that has leaked."""
    old = set(keyset.roles[role].keyids)
    roles = dict(keyset.roles)
    for each in _with_companions(keyset, role):
        stay = () if each == role else tuple(keyid for keyid in roles[each].keyids if keyid not in old)
        wanted = (threshold if each == role else 0) or roles[each].threshold
        roles[each] = RoleKeys(wanted, (*(key.key_id for key in keys), *stay))
    added = {key.key_id: encode_key(key) for key in keys}
    return _pruned(replace(keyset, keys=keyset.keys | added, roles=roles))


def open_epoch(keyset: Keyset) -> Keyset:
    """The root's word that a restored control plane is the right one."""
    return replace(keyset, control_epoch=keyset.control_epoch + 1)


def _with_companions(keyset: Keyset, role: KeyRole) -> list[KeyRole]:
    """The roles that change together with `role`: those that share a key with it."""
    if role not in keyset.roles:
        raise error("invalid_request", f"the keyset has no role {role}")
    mine = set(keyset.roles[role].keyids)
    sharing = [each for each in _COMPANIONS.get(role, ()) if each in keyset.roles]
    return [role, *(each for each in sharing if mine & set(keyset.roles[each].keyids))]


def _pruned(keyset: Keyset) -> Keyset:
    """Without keys that no role names."""
    named = {keyid for role in keyset.roles.values() for keyid in role.keyids}
    return replace(keyset, keys={keyid: key for keyid, key in keyset.keys.items() if keyid in named})
