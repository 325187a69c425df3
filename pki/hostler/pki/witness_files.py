"""A witness's state on disk, and one round of witnessing: read, follow, save, and only then sign."""

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.base.strict import decode_json
from hostler.pki.checkpoint import CheckpointPage, countersign, role_keys, witness_keys
from hostler.pki.keys import Signer
from hostler.pki.keyset import KeyRole, Keyset
from hostler.pki.keyset_history import accepted_keysets
from hostler.pki.storage import read_private, write_private, write_public
from hostler.pki.trust import TrustState
from hostler.pki.witness import WitnessState, follow

_AUDIT = ("audit_fork", "audit_rollback", "audit_incomplete")


class Witnessed(msgspec.Struct, frozen=True, kw_only=True):
    """What a round came to. `countersignature` is DSSE JSON; `news` counts checkpoints not seen before."""

    index: int
    digest: str
    news: int
    nodes: int
    receipts: int
    countersignature: bytes


def load_state(path: Path) -> WitnessState:
    """An absent file is a witness that has seen nothing. Raises `invalid_config` for a broken one."""
    if not path.exists():
        return WitnessState()
    return decode_json(read_private(path), WitnessState, code="invalid_config", what=str(path))


def attend(
    path: Path, pages: Iterable[tuple[CheckpointPage, bytes]], trust: TrustState, signer: Signer, now_ms: int
) -> Witnessed | None:
    """One round: the newest checkpoint countersigned, or None while there is none.

    The state is saved before the countersignature leaves this function. What was refused is kept beside the
    state, as `.refused`: the two together prove what the control plane has signed.

    Args:
        pages: checkpoints from the last one seen on, each page with the bytes it came in.

    Raises:
        HostlerError: `audit_fork`, `audit_rollback`, `audit_incomplete`; `untrusted_key` when the witness's key is
            not in the keyset.
    """
    with _held(path):
        before = state = load_state(path)
        for page, data in pages:
            keysets = accepted_keysets(trust, map(bytes, page.keysets))
            keys = [key for keyset in keysets for key in role_keys(keyset, KeyRole.DISPATCH)]
            _check_key(signer, keysets[-1])
            try:
                state = follow(state, page.items, keys)
            except HostlerError as err:
                if err.code in _AUDIT:
                    write_public(path.with_name(f"{path.name}.refused"), data)
                raise
        if state.last is None:
            return None
        if state.last.trust_domain != trust.trust_domain:
            raise error("keyset_untrusted", f"the checkpoints are of trust domain {state.last.trust_domain!r}")
        write_private(path, msgspec.json.encode(state))
        return Witnessed(
            index=state.index,
            digest=state.digest,
            news=state.index - before.index,
            nodes=state.last.nodes,
            receipts=state.last.receipts,
            countersignature=countersign(state.last, signer, now_ms),
        )


def _check_key(signer: Signer, keyset: Keyset) -> None:
    if signer.public.key_id not in {key.key_id for key in witness_keys(keyset)}:
        raise error(
            "untrusted_key",
            f"key {signer.public.key_id[:16]} is no witness of keyset {keyset.version}",
            hint="the root has to sign a keyset that names it under the role 'witness'",
        )


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Two rounds at once would each swear by an old state. Raises `store_unavailable`."""
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            raise error("store_unavailable", f"another witness has {path} open") from err
        yield
    finally:
        os.close(descriptor)
