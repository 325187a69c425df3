"""The root ceremony: makes a fleet's keys, and signs keysets with the offline root."""

from pathlib import Path
from typing import Any

import msgspec

from hostler.base.envelope import KEYSET_TYPE
from hostler.base.errors import error
from hostler.pki import dsse
from hostler.pki.authority import Authority, make_ca
from hostler.pki.keys import FileSigner, new_ed25519, new_p256
from hostler.pki.keyset import KeyRole, Keyset, RoleKeys, encode_key, keyset_payload, parse_keyset
from hostler.pki.names import spiffe_id
from hostler.pki.storage import read_private, read_public, write_private, write_public
from hostler.pki.trust import TrustState
from hostler.pki.trust_files import load_trust, save_trust

KEYSET_LIFETIME_MS = 365 * 86_400_000
_ONLINE = ("dispatch.key", "ca.key", "server.key")


def init(
    directory: Path,
    *,
    trust_domain: str,
    cluster_id: str,
    hosts: tuple[str, ...],
    now_ms: int,
    root_count: int = 1,
    root_threshold: int = 1,
) -> list[Path]:
    """Makes every key of a new fleet and returns the files made.

    Raises:
        HostlerError: `already_initialised` unless `directory` is absent or empty; `invalid_config` for
            names that cannot be identities or a threshold that cannot be reached.
    """
    spiffe_id(trust_domain, "control", cluster_id)
    if not 1 <= root_threshold <= root_count <= 16:
        raise error("invalid_config", f"{root_threshold} of {root_count} root keys cannot sign a keyset")
    if directory.exists() and any(directory.iterdir()):
        raise error("already_initialised", f"{directory} is not empty")
    for name in ("root", "catalog", "control"):
        (directory / name).mkdir(parents=True, mode=0o700)
    roots = [new_ed25519() for _ in range(root_count)]
    catalog, dispatch, ca_key, server_key = new_ed25519(), new_ed25519(), new_p256(), new_p256()
    ca_pem = make_ca(ca_key, trust_domain, now_ms)
    chain = Authority(ca_key, ca_pem, trust_domain).issue_control(cluster_id, server_key.public, hosts, now_ms)
    keyset = _first_keyset(trust_domain, now_ms, roots, root_threshold, catalog, dispatch, ca_key, ca_pem)
    signed = sign_keyset(keyset, roots)
    private = {f"root/root-{number}.key": signer for number, signer in enumerate(roots, start=1)}
    private |= {"catalog/catalog.key": catalog, "control/dispatch.key": dispatch}
    private |= {"control/ca.key": ca_key, "control/server.key": server_key}
    public = {"control/ca.pem": ca_pem, "control/server.pem": chain, "control/keyset.json": signed}
    for name, signer in private.items():
        write_private(directory / name, signer.to_pem())
    for name, data in public.items():
        write_public(directory / name, data)
    trust = TrustState(
        trust_domain=trust_domain,
        root_keys=tuple(encode_key(signer.public) for signer in roots),
        root_threshold=root_threshold,
        keyset=signed,
        keyset_version=keyset.version,
    )
    save_trust(directory / "trust.json", trust)
    # a control plane verifies by the same pins as its nodes
    save_trust(directory / "control" / "trust.json", trust)
    return [directory / name for name in (*private, *public, "trust.json", "control/trust.json")]


def _first_keyset(
    trust_domain: str,
    now_ms: int,
    roots: list[FileSigner],
    root_threshold: int,
    catalog: FileSigner,
    dispatch: FileSigner,
    ca_key: FileSigner,
    ca_pem: bytes,
) -> Keyset:
    by_role = {
        KeyRole.ROOT: roots,
        KeyRole.CATALOG: [catalog],
        KeyRole.DISPATCH: [dispatch],
        KeyRole.CA: [ca_key],
        KeyRole.ARTIFACT: [catalog],
    }
    thresholds = {KeyRole.ROOT: root_threshold}
    return Keyset(
        version=1,
        trust_domain=trust_domain,
        issued_ms=now_ms,
        expires_ms=now_ms + KEYSET_LIFETIME_MS,
        keys={s.public.key_id: encode_key(s.public) for signers in by_role.values() for s in signers},
        roles={
            str(role): RoleKeys(thresholds.get(role, 1), tuple(s.public.key_id for s in signers))
            for role, signers in by_role.items()
        },
        ca_certificates=(ca_pem.decode(),),
    )


def sign_keyset(keyset: Keyset, roots: list[FileSigner]) -> bytes:
    """DSSE JSON, signed by every given root key."""
    payload = keyset_payload(keyset)
    parse_keyset(payload)
    return dsse.to_json(dsse.sign(payload, KEYSET_TYPE, roots))


def next_keyset(current: bytes, roots: list[FileSigner], now_ms: int, **changes: Any) -> bytes:
    """The successor of `current` (DSSE JSON): one version up, fresh for another year, `changes` applied."""
    keyset = parse_keyset(dsse.from_json(current).payload)
    times = {"issued_ms": now_ms, "expires_ms": now_ms + KEYSET_LIFETIME_MS}
    return sign_keyset(msgspec.structs.replace(keyset, version=keyset.version + 1, **(times | changes)), roots)


def load_signer(path: Path) -> FileSigner:
    """Raises `invalid_config` when the key is absent, broken, or open to others (PK-11)."""
    return FileSigner.from_pem(read_private(path))


def describe(directory: Path) -> dict[str, Any]:
    """What a ceremony's directory holds, without private parts."""
    trust = load_trust(directory / "trust.json")
    keyset = parse_keyset(dsse.from_json(read_public(directory / "control" / "keyset.json")).payload)
    described: dict[str, Any] = {
        "trust_domain": trust.trust_domain,
        "root": f"{trust.root_threshold} of {len(trust.root_keys)}",
        "keyset_version": keyset.version,
        "keyset_expires_ms": keyset.expires_ms,
    }
    for name, role in sorted(keyset.roles.items()):
        described[f"{name} keys"] = ", ".join(keyid[:16] for keyid in role.keyids)
    present = [str(path.relative_to(directory)) for path in sorted(directory.rglob("*.key"))]
    described["private keys here"] = ", ".join(present) or "none"
    return described
