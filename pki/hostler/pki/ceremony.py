"""The root ceremony: makes a fleet's keys, and signs keysets with the offline root.

DIRECTORY/root/      root keys: offline, they sign keysets only
DIRECTORY/catalog/   catalog key and approvers' keys: offline, they sign profiles
DIRECTORY/update/    update key: offline, it signs releases of the agent
DIRECTORY/control/   what the control plane needs
DIRECTORY/trust.json what every node is given with its enrolment token
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hostler.base.envelope import KEYSET_TYPE
from hostler.base.errors import error
from hostler.pki import dsse
from hostler.pki.authority import Authority, make_ca
from hostler.pki.keys import FileSigner, Signer, X509Signer, new_ed25519, new_p256
from hostler.pki.keyset import KeyRole, Keyset, RoleKeys, encode_key, keyset_payload, parse_keyset
from hostler.pki.names import spiffe_id
from hostler.pki.rotation import KEYSET_LIFETIME_MS
from hostler.pki.storage import read_public, write_private, write_public
from hostler.pki.trust import TrustState
from hostler.pki.trust_files import load_trust, save_trust


class Fresh(NamedTuple):
    """The keys of a new fleet. `catalogers`: the catalog key, then the approvers'."""

    roots: list[FileSigner]
    catalogers: list[FileSigner]
    update: FileSigner
    dispatch: FileSigner
    ca: FileSigner
    server: FileSigner


def init(
    directory: Path,
    *,
    trust_domain: str,
    cluster_id: str,
    hosts: tuple[str, ...],
    now_ms: int,
    root_count: int = 1,
    root_threshold: int = 1,
    approvers: int = 1,
    approval_threshold: int = 2,
) -> list[Path]:
    """Makes every key of a new fleet and returns the files made.

    Args:
        approvers: keys that, besides the catalog key, approve what destroys or runs as root.
        approval_threshold: how many of all those must.

    Raises:
        HostlerError: `already_initialised` unless `directory` is absent or empty; `invalid_config` for
            names that cannot be identities or a threshold that cannot be reached.
    """
    spiffe_id(trust_domain, "control", cluster_id)
    _check_threshold("root keys", root_threshold, root_count)
    _check_threshold("catalog and approver keys", approval_threshold, approvers + 1)
    if directory.exists() and any(directory.iterdir()):
        raise error("already_initialised", f"{directory} is not empty")
    for name in ("root", "catalog", "update", "control"):
        (directory / name).mkdir(parents=True, mode=0o700)
    fresh = Fresh(
        [new_ed25519() for _ in range(root_count)],
        [new_ed25519() for _ in range(approvers + 1)],
        new_ed25519(),
        new_ed25519(),
        new_p256(),
        new_p256(),
    )
    ca_pem = make_ca(fresh.ca, trust_domain, now_ms)
    chain = Authority(fresh.ca, ca_pem, trust_domain).issue_control(cluster_id, fresh.server.public, hosts, now_ms)
    keyset = _first_keyset(trust_domain, now_ms, fresh, ca_pem, root_threshold, approval_threshold)
    signed = sign_keyset(keyset, fresh.roots)
    trust = TrustState(
        trust_domain=trust_domain,
        root_keys=tuple(encode_key(signer.public) for signer in fresh.roots),
        root_threshold=root_threshold,
        keyset=signed,
        keyset_version=keyset.version,
    )
    made = _write(directory, fresh, {"ca.pem": ca_pem, "server.pem": chain, "keyset.json": signed})
    # a control plane verifies by the same pins as its nodes
    pins = [directory / "trust.json", directory / "control" / "trust.json"]
    for path in pins:
        save_trust(path, trust)
    return [*made, *pins]


def _check_threshold(what: str, threshold: int, count: int) -> None:
    if not 1 <= threshold <= count <= 16:
        raise error("invalid_config", f"{threshold} of {count} {what} cannot sign anything")


def _write(directory: Path, fresh: Fresh, public: dict[str, bytes]) -> list[Path]:
    private = {f"root/root-{number}.key": signer for number, signer in enumerate(fresh.roots, start=1)}
    catalog, *approvers = fresh.catalogers
    private |= {"catalog/catalog.key": catalog}
    private |= {f"catalog/approver-{number}.key": signer for number, signer in enumerate(approvers, start=1)}
    private |= {"update/update.key": fresh.update}
    private |= {"control/dispatch.key": fresh.dispatch, "control/ca.key": fresh.ca, "control/server.key": fresh.server}
    for name, signer in private.items():
        write_private(directory / name, signer.to_pem())
    for name, data in public.items():
        write_public(directory / "control" / name, data)
    return [*(directory / name for name in private), *(directory / "control" / name for name in public)]


def _first_keyset(
    trust_domain: str, now_ms: int, fresh: Fresh, ca_pem: bytes, root_threshold: int, approval_threshold: int
) -> Keyset:
    catalog = fresh.catalogers[:1]
    by_role = {
        KeyRole.ROOT: (root_threshold, fresh.roots),
        KeyRole.CATALOG: (1, catalog),
        KeyRole.DESTRUCTIVE: (approval_threshold, fresh.catalogers),
        KeyRole.DISPATCH: (1, [fresh.dispatch]),
        KeyRole.CA: (1, [fresh.ca]),
        KeyRole.ARTIFACT: (1, catalog),
        KeyRole.UPDATE: (1, [fresh.update]),
    }
    return Keyset(
        version=1,
        trust_domain=trust_domain,
        issued_ms=now_ms,
        expires_ms=now_ms + KEYSET_LIFETIME_MS,
        keys={s.public.key_id: encode_key(s.public) for _, signers in by_role.values() for s in signers},
        roles={
            str(role): RoleKeys(threshold, tuple(s.public.key_id for s in signers))
            for role, (threshold, signers) in by_role.items()
        },
        ca_certificates=(ca_pem.decode(),),
    )


def sign_keyset(keyset: Keyset, roots: Sequence[Signer]) -> bytes:
    """DSSE JSON, signed by every given root key."""
    payload = keyset_payload(keyset)
    parse_keyset(payload)
    return dsse.to_json(dsse.sign(payload, KEYSET_TYPE, roots))


def read_keyset(data: bytes) -> Keyset:
    """What a keyset file says, its signatures unchecked: for people, and for the next one."""
    return parse_keyset(dsse.from_json(data).payload)


def load_signer(path: Path) -> X509Signer:
    """The key that a file holds or names; see `signers`. Raises `invalid_config` (PK-11)."""
    from hostler.pki.signers import load

    return load(path)


def describe(directory: Path) -> dict[str, Any]:
    """What a ceremony's directory holds, without private parts."""
    trust = load_trust(directory / "trust.json")
    keyset = read_keyset(read_public(directory / "control" / "keyset.json"))
    described: dict[str, Any] = {
        "trust_domain": trust.trust_domain,
        "root": f"{trust.root_threshold} of {len(trust.root_keys)}",
        "keyset_version": keyset.version,
        "keyset_expires_ms": keyset.expires_ms,
        "control_epoch": keyset.control_epoch,
    }
    for name, role in sorted(keyset.roles.items()):
        described[f"{name} keys"] = f"{role.threshold} of " + ", ".join(keyid[:16] for keyid in role.keyids)
    present = [str(path.relative_to(directory)) for path in sorted(directory.rglob("*.key"))]
    described["private keys here"] = ", ".join(present) or "none"
    return described
