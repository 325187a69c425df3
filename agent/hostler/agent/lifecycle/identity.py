"""The node's identity on disk: a key that never leaves, and the certificate chain issued for it (PK-01).

state_dir/identity/node.key         made here, 0600
state_dir/identity/certificate.pem  leaf first, replaced whole (PK-04)
state_dir/identity/runner.key       made here, 0600; signs requests for credentials, and is never given away
state_dir/identity/node.json        node_id, tenant, project, times of the certificate
"""

from pathlib import Path

import msgspec

from hostler.base.errors import error
from hostler.base.strict import decode_record
from hostler.pki.keys import FileSigner, new_ed25519, new_p256
from hostler.pki.storage import read_private, write_private, write_public


class Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is known of the certificate without parsing it again: an idle agent loads no X.509 code."""

    node_id: str
    trust_domain: str
    org_id: str
    project_id: str
    not_before_ms: int
    not_after_ms: int
    serial: str


class Identity(msgspec.Struct, frozen=True):
    """Key, certificate chain and what they say. Has no repr of the key.

    The network process is given `signer`, to be this node; `runner_key` stays in the runner.
    """

    facts: Facts
    signer: FileSigner
    chain_pem: bytes
    runner_key: FileSigner | None = None

    @property
    def node_id(self) -> str:
        return self.facts.node_id

    @property
    def thumbprint(self) -> str:
        return self.signer.public.key_id


def directory(state_dir: Path) -> Path:
    return state_dir / "identity"


def load_key(state_dir: Path) -> FileSigner | None:
    """The node's key, or None before the first enrolment."""
    path = directory(state_dir) / "node.key"
    return FileSigner.from_pem(read_private(path)) if path.exists() else None


def make_key(state_dir: Path) -> FileSigner:
    """The node's key; made and stored before anything is asked of the control plane, so that an
    interrupted enrolment can be repeated with the same key and token."""
    existing = load_key(state_dir)
    if existing is not None:
        return existing
    directory(state_dir).mkdir(parents=True, exist_ok=True, mode=0o700)
    signer = new_p256()
    write_private(directory(state_dir) / "node.key", signer.to_pem())
    return signer


def load_runner_key(state_dir: Path) -> FileSigner | None:
    """None on a node that was enrolled before there was one."""
    path = directory(state_dir) / "runner.key"
    return FileSigner.from_pem(read_private(path)) if path.exists() else None


def make_runner_key(state_dir: Path) -> FileSigner:
    """Stored before anything is asked, as the node's key is."""
    existing = load_runner_key(state_dir)
    if existing is not None:
        return existing
    signer = new_ed25519()
    write_private(directory(state_dir) / "runner.key", signer.to_pem())
    return signer


def load(state_dir: Path) -> Identity:
    """Raises `invalid_config` when the node is not enrolled."""
    folder = directory(state_dir)
    signer = load_key(state_dir)
    if signer is None or not (folder / "node.json").exists():
        raise error(
            "invalid_config",
            f"this node is not enrolled: {folder} holds no identity",
            hint="run 'hostler-agent enroll --token-file FILE' with a token made by 'hostler nodes token'",
        )
    chain_pem = read_private(folder / "certificate.pem")
    facts = decode_record((folder / "node.json").read_bytes(), Facts, code="invalid_config", what="node.json")
    return Identity(facts, signer, chain_pem, load_runner_key(state_dir))


def save(state_dir: Path, signer: FileSigner, chain_pem: bytes, org_id: str, project_id: str) -> Identity:
    """Stores a certificate for `signer`; the certificate first, then the facts that make it count.

    Raises:
        HostlerError: `certificate_invalid` for a certificate of another key.
    """
    from hostler.pki.x509 import read_identity

    peer = read_identity(chain_pem)
    if peer.thumbprint != signer.public.key_id or peer.role != "node":
        raise error("certificate_invalid", "the certificate received is not for this node's key")
    facts = Facts(
        node_id=peer.name,
        trust_domain=peer.trust_domain,
        org_id=org_id,
        project_id=project_id,
        not_before_ms=peer.not_before_ms,
        not_after_ms=peer.not_after_ms,
        serial=peer.serial,
    )
    folder = directory(state_dir)
    write_private(folder / "certificate.pem", chain_pem)
    write_public(folder / "node.json", msgspec.json.encode(facts))
    return Identity(facts, signer, chain_pem, load_runner_key(state_dir))
