"""Rotations in a ceremony's directory: which stage is next, and what it makes of the files.

A new key waits as `NAME.next.key`, the one before it stays as `NAME.old.key` until it is retired. A keyset that
still lacks root signatures waits as `keyset.proposed.json`; nothing counts before it is complete.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hostler.base.envelope import KEYSET_TYPE, Envelope
from hostler.base.errors import error
from hostler.pki import dsse, rotation
from hostler.pki.authority import Authority, make_ca
from hostler.pki.ceremony import load_signer, read_keyset, sign_keyset
from hostler.pki.keys import PublicKey, Signer, X509Signer, new_ed25519, new_p256
from hostler.pki.keyset import KeyRole, Keyset, keyset_payload
from hostler.pki.storage import read_public, write_private, write_public
from hostler.pki.trust import TrustStore
from hostler.pki.trust_files import load_trust, save_trust

_NAMES = {
    KeyRole.DISPATCH: "control/dispatch",
    KeyRole.CATALOG: "catalog/catalog",
    KeyRole.CA: "control/ca",
    KeyRole.UPDATE: "update/update",
}
_TO_ACTIVATE = {
    KeyRole.CATALOG: "sign and publish",
    KeyRole.UPDATE: "hand the releases over with 'hostler releases rotate', and publish them",
}
PROPOSED = "keyset.proposed.json"


class Done(NamedTuple):
    """What a stage did. `missing`: root signatures that the keyset still lacks; 0 for a complete one."""

    stage: str
    keyset_version: int
    missing: int
    files: tuple[Path, ...]
    next_step: str


class Files(NamedTuple):
    """Where a role's keys lie."""

    current: Path
    next: Path
    old: Path
    pem: Path
    next_pem: Path
    old_pem: Path


def files_of(directory: Path, role: KeyRole) -> Files:
    name = directory / _NAMES[role]
    suffixes = (".key", ".next.key", ".old.key", ".pem", ".next.pem", ".old.pem")
    return Files(*(name.with_name(name.name + suffix) for suffix in suffixes))


def present(directory: Path) -> Keyset:
    """The newest complete keyset."""
    return read_keyset(read_public(directory / "control" / "keyset.json"))


def stage_of(directory: Path, role: KeyRole) -> str:
    """`introduce`, `activate` or `retire`.

    Raises:
        HostlerError: `invalid_request` while a proposed keyset waits for signatures.
    """
    if (directory / PROPOSED).exists():
        raise error(
            "invalid_request",
            f"{directory / PROPOSED} still lacks root signatures",
            hint=f"add them with: hostler pki sign {directory} --key ROOT_KEY",
        )
    files = files_of(directory, role)
    if files.old.exists():
        return "retire"
    if files.next.exists():
        return "activate"
    return "introduce"


def introduce(directory: Path, role: KeyRole, roots: Sequence[Signer], now_ms: int) -> Done:
    """Makes the next key and a keyset in which both count."""
    files, keyset = files_of(directory, role), present(directory)
    if not files.current.exists():
        raise error(
            "invalid_request",
            f"{files.current} is not here",
            hint="bring the key here; one that was granted is replaced with 'hostler pki grant' and '--withdraw'",
        )
    made = new_p256() if role is KeyRole.CA else new_ed25519()
    write_private(files.next, made.to_pem())
    ca_pem = ""
    if role is KeyRole.CA:
        ca_pem = make_ca(made, keyset.trust_domain, now_ms).decode()
        write_public(files.next_pem, ca_pem.encode())
    wider = rotation.introduce(rotation.successor(keyset, now_ms), role, made.public, ca_pem)
    return _finish(directory, wider, roots, now_ms, "introduce", (files.next,), "publish the keyset, then activate")


def activate(directory: Path, role: KeyRole, now_ms: int) -> Done:
    """The next key becomes the one in use. Changes no keyset, needs no root."""
    files, keyset = files_of(directory, role), present(directory)
    if load_signer(files.next).public.key_id not in keyset.roles[role].keyids:
        raise error("invalid_request", f"the key in {files.next} is not in keyset {keyset.version}")
    made: list[Path] = [files.current, files.old]
    files.current.rename(files.old)
    files.next.rename(files.current)
    if role is KeyRole.CA:
        files.pem.rename(files.old_pem)
        files.next_pem.rename(files.pem)
        made += [files.pem, _new_server_certificate(directory, files, keyset, now_ms)]
    following = _TO_ACTIVATE.get(role, "restart hostler-control with the new files")
    return Done("activate", keyset.version, 0, tuple(made), f"{following}, then retire the old key")


def _new_server_certificate(directory: Path, files: Files, keyset: Keyset, now_ms: int) -> Path:
    from hostler.pki.x509 import server_names

    target = directory / "control" / "server.pem"
    cluster_id, hosts = server_names(read_public(target), keyset.trust_domain)
    server = load_signer(directory / "control" / "server.key")
    authority = Authority(load_signer(files.current), read_public(files.pem), keyset.trust_domain)
    write_public(target, authority.issue_control(cluster_id, server.public, hosts, now_ms))
    return target


def retire(directory: Path, role: KeyRole, roots: Sequence[Signer], now_ms: int) -> Done:
    """A keyset without the old key, whose file is removed with it."""
    files, keyset = files_of(directory, role), present(directory)
    old_id = load_signer(files.old).public.key_id
    ca_pem = read_public(files.old_pem).decode() if role is KeyRole.CA else ""
    narrower = rotation.retire(rotation.successor(keyset, now_ms), role, old_id, ca_pem)
    done = _finish(directory, narrower, roots, now_ms, "retire", (), "publish the keyset; that was all")
    files.old.unlink()
    files.old_pem.unlink(missing_ok=True)
    return done


def replace_leaked(directory: Path, role: KeyRole, roots: Sequence[Signer], now_ms: int) -> Done:
    """A new key at once, without overlap: the old one counts nowhere that the keyset has reached.

    Raises:
        HostlerError: `invalid_request` for a CA, through which alone nodes can be told.
    """
    if role is KeyRole.CA:
        raise error(
            "invalid_request",
            "a CA is rolled with an overlap, also when it has leaked: nodes reach the control plane through it",
            hint="rotate it, and retire the old one as soon as the nodes have proved the new one",
        )
    files, keyset = files_of(directory, role), present(directory)
    made = new_ed25519()
    write_private(files.current, made.to_pem())
    only = rotation.replace_role(rotation.successor(keyset, now_ms), role, (made.public,))
    step = "put keyset.json and the new key where hostler-control reads them, and restart it"
    return _finish(directory, only, roots, now_ms, "replace", (files.current,), step)


def rotate_root(directory: Path, roots: Sequence[Signer], now_ms: int, *, count: int = 0, threshold: int = 0) -> Done:
    """New root keys, named by a keyset that the old ones and the new ones sign."""
    keyset = present(directory)
    role = keyset.roles[KeyRole.ROOT]
    fresh = [new_ed25519() for _ in range(count or len(role.keyids))]
    threshold = threshold or role.threshold
    if not 1 <= threshold <= len(fresh):
        raise error("invalid_config", f"{threshold} of {len(fresh)} root keys cannot sign a keyset")
    folder = directory / "root"
    past = folder / f"before-{keyset.version + 1}"
    past.mkdir(parents=True, mode=0o700)
    for path in sorted(folder.glob("*.key")):
        path.rename(past / path.name)
    made = []
    for number, signer in enumerate(fresh, start=1):
        made.append(folder / f"root-{number}.key")
        write_private(made[-1], signer.to_pem())
    keys = tuple(signer.public for signer in fresh)
    changed = rotation.replace_role(rotation.successor(keyset, now_ms), KeyRole.ROOT, keys, threshold)
    step = f"publish the keyset; keep {past} until every node has proved it, then destroy it"
    return _finish(directory, changed, [*roots, *fresh], now_ms, "replace", tuple(made), step)


def open_epoch(directory: Path, roots: Sequence[Signer], now_ms: int) -> Done:
    """A keyset that opens the next control epoch, for a store that was restored (P1)."""
    opened = rotation.open_epoch(rotation.successor(present(directory), now_ms))
    step = "put keyset.json where hostler-control reads it, and run: hostler-control recover"
    return _finish(directory, opened, roots, now_ms, "recover", (), step)


def refresh(directory: Path, roots: Sequence[Signer], now_ms: int) -> Done:
    """The same keys for another year."""
    return _finish(
        directory, rotation.successor(present(directory), now_ms), roots, now_ms, "refresh", (), "publish the keyset"
    )


def grant(directory: Path, role: KeyRole, key: PublicKey, roots: Sequence[Signer], now_ms: int) -> Done:
    """A keyset in which somebody else's key counts for `role`."""
    wider = rotation.grant(rotation.successor(present(directory), now_ms), role, key)
    return _finish(directory, wider, roots, now_ms, "grant", (), "publish the keyset")


def withdraw(directory: Path, role: KeyRole, key_id: str, roots: Sequence[Signer], now_ms: int) -> Done:
    """A keyset in which it no longer does."""
    narrower = rotation.retire(rotation.successor(present(directory), now_ms), role, key_id)
    return _finish(directory, narrower, roots, now_ms, "withdraw", (), "publish the keyset")


def add_signature(directory: Path, signer: Signer, now_ms: int) -> Done:
    """One more root signature on the proposed keyset; the last one completes it."""
    path = directory / PROPOSED
    if not path.exists():
        raise error("not_found", f"{path} does not exist: no keyset waits for signatures")
    proposed = dsse.from_json(read_public(path))
    others = tuple(s for s in proposed.signatures if s.keyid != signer.public.key_id)
    mine = dsse.sign(proposed.payload, KEYSET_TYPE, [signer]).signatures
    both = Envelope(proposed.payload, proposed.payload_type, (*others, *mine))
    return _settle(directory, both, now_ms, "sign", (), "publish the keyset")


def load_roots(directory: Path) -> list[X509Signer]:
    """The root keys that lie in the directory; none where they are kept apart."""
    return [load_signer(path) for path in sorted((directory / "root").glob("*.key"))]


def _finish(
    directory: Path,
    keyset: Keyset,
    roots: Sequence[Signer],
    now_ms: int,
    stage: str,
    files: tuple[Path, ...],
    next_step: str,
) -> Done:
    if not roots:
        unsigned = Envelope(keyset_payload(keyset), KEYSET_TYPE, ())
        return _settle(directory, unsigned, now_ms, stage, files, next_step)
    signed = dsse.from_json(sign_keyset(keyset, roots))
    return _settle(directory, signed, now_ms, stage, files, next_step)


def _settle(
    directory: Path, signed: Envelope, now_ms: int, stage: str, files: tuple[Path, ...], next_step: str
) -> Done:
    """Files a complete keyset, with the pins that newcomers are given; keeps an incomplete one as proposed."""
    data, version = dsse.to_json(signed), read_keyset(dsse.to_json(signed)).version
    store = TrustStore(load_trust(directory / "trust.json"), now_ms)
    missing = _missing(store, signed)
    if missing:
        write_public(directory / PROPOSED, data)
        step = f"add {missing} more root signature(s): hostler pki sign {directory} --key ROOT_KEY"
        return Done(stage, version, missing, (*files, directory / PROPOSED), step)
    store.update_keyset(data, now_ms)
    target = directory / "control" / "keyset.json"
    write_public(target, data)
    save_trust(directory / "trust.json", store.state)
    save_trust(directory / "control" / "trust.json", store.state)
    (directory / PROPOSED).unlink(missing_ok=True)
    return Done(stage, version, 0, (*files, target, directory / "trust.json"), next_step)


def _missing(store: TrustStore, signed: Envelope) -> int:
    """How many signatures the old roots, or the ones it names itself, still owe."""
    by = {signature.keyid for signature in signed.signatures}
    own = read_keyset(dsse.to_json(signed)).roles[KeyRole.ROOT]
    before = {key.key_id for key in store.keys(KeyRole.ROOT)}
    return max(0, store.threshold(KeyRole.ROOT) - len(by & before), own.threshold - len(by & set(own.keyids)))
