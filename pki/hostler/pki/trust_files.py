"""`trust.json`: a node's trust, given to it with its enrolment token and kept up to date by itself."""

import base64
from pathlib import Path

import msgspec

from hostler.base.strict import decode_record
from hostler.pki.storage import read_public, write_public
from hostler.pki.trust import TrustState


class _TrustFile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    trust_domain: str
    root_keys: tuple[str, ...]
    root_threshold: int
    keyset: str
    keyset_version: int = 0
    catalog_version: int = 0
    control_epoch: int = 0  # in files of version 0.1; the keyset carries it


def load_trust(path: Path) -> TrustState:
    """What counts in it is the keyset, and that is verified; a later version may have written more beside it.

    Raises:
        HostlerError: `invalid_config` when the file is absent or broken.
    """
    raw = decode_record(read_public(path), _TrustFile, code="invalid_config", what=str(path))
    values = msgspec.structs.asdict(raw) | {"keyset": base64.b64decode(raw.keyset)}
    del values["control_epoch"]
    return TrustState(**values)


def save_trust(path: Path, state: TrustState) -> None:
    """Whole or not at all."""
    write_public(path, trust_text(state))


def trust_text(state: TrustState) -> bytes:
    """The file's content."""
    values = msgspec.structs.asdict(state) | {"keyset": base64.b64encode(state.keyset).decode()}
    return msgspec.json.format(msgspec.json.encode(_TrustFile(**values)), indent=2) + b"\n"
