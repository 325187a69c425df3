"""What a leaked key could do, and what it could not, from the keyset alone."""

import msgspec

from hostler.base.errors import error
from hostler.pki.keyset import KeyRole, Keyset

# role → (with enough keys of the role, what remains out of reach, what to do)
_REACH: dict[KeyRole, tuple[str, str, str]] = {
    KeyRole.ROOT: (
        "sign a keyset, and with it everything: name itself dispatch, catalog and CA key on every node",
        "read a node's key, or change a receipt that was witnessed",
        "hostler pki rotate root --leaked",
    ),
    KeyRole.DISPATCH: (
        "sign tasks for any node: approved definitions, with inputs that fit their schemas, within local authority",
        "run anything that the catalog keys have not signed; open an epoch; make an identity",
        "hostler pki rotate dispatch --leaked",
    ),
    KeyRole.CATALOG: (
        "approve new definitions and command profiles; a dispatch key is still needed to run one",
        "send a task; approve what destroys or runs as root without the other approvers",
        "hostler pki rotate catalog --leaked, then publish a catalog signed by the new key",
    ),
    KeyRole.DESTRUCTIVE: (
        "approve definitions that destroy or run as root; catalog and dispatch keys are still needed",
        "publish a catalog; send a task",
        "replace the approver in a new keyset",
    ),
    KeyRole.CA: (
        "pass as the control plane towards nodes: withhold tasks, learn what nodes report",
        "make a node run anything; pass as a node, since the control plane knows every certificate it issued",
        "hostler pki rotate ca, and retire the old one as soon as the nodes have proved the new one",
    ),
    KeyRole.ARTIFACT: (
        "sign artifacts that nodes accept where a signature is required",
        "change what a definition says of the artifact's digest",
        "replace the key in a new keyset",
    ),
    KeyRole.UPDATE: (
        "sign agent versions",
        "install one without a task: an update is an operation like any other",
        "hostler pki rotate update --leaked, then a new release repository: see docs/releases.md",
    ),
    KeyRole.WITNESS: (
        "countersign a false checkpoint of the audit",
        "change a receipt: those are signed by the nodes",
        "replace the key in a new keyset",
    ),
}


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """One role of the key. `alone`: the key suffices; else `others` more of the role are needed."""

    role: str
    threshold: int
    alone: bool
    others: int
    could: str
    could_not: str
    remedy: str


def find_key(keyset: Keyset, name: str) -> str:
    """The id of the key that `name` means: a key id, the beginning of one, or a role that has one key.

    Raises:
        HostlerError: `not_found`, `invalid_request` when several fit.
    """
    if name in keyset.roles:
        found = list(keyset.roles[name].keyids)
    else:
        found = [keyid for keyid in keyset.keys if len(name) >= 8 and keyid.startswith(name.lower())]
    if not found:
        raise error(
            "not_found", f"no key of keyset {keyset.version} is {name!r}", hint="name a role, or 8 digits of an id"
        )
    if len(found) > 1:
        shown = ", ".join(keyid[:16] for keyid in found)
        raise error("invalid_request", f"{name!r} may be any of {shown}")
    return found[0]


def reach_of(keyset: Keyset, key_id: str) -> tuple[Reach, ...]:
    """One entry for each role the key has."""
    reaches = []
    for name, role in keyset.roles.items():
        if key_id not in role.keyids:
            continue
        could, could_not, remedy = _REACH[KeyRole(name)]
        others = role.threshold - 1
        reaches.append(
            Reach(
                role=name,
                threshold=role.threshold,
                alone=others == 0,
                others=others,
                could=could,
                could_not=could_not,
                remedy=remedy,
            )
        )
    return tuple(reaches)
