"""The closed table of credential types: what is asked for, what comes of it (CR-07, X25; 004 §7.3).

An *intent* says what a credential shall open, and names the registry, endpoint or cluster it is for: nothing here
assumes a single global one (AR-09). A *material* is the secret itself, as JSON in a step secret. `source_of` is the
prefix of every URL that the credential opens; it must lie within `allowed_artifact_sources`.
"""

from typing import Annotated, Any, NamedTuple

import msgspec

from hostler.base.errors import error
from hostler.base.strict import convert

Origin = Annotated[str, msgspec.Meta(pattern=r"^https://[a-z0-9.:\[\]-]+$(?!\n)", max_length=300)]
Bucket = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$(?!\n)")]
KeyPrefix = Annotated[
    str, msgspec.Meta(pattern=r"^(?!.*\.\.)(?:[A-Za-z0-9_.=+-]+/)*[A-Za-z0-9_.=+-]*$(?!\n)", max_length=900)
]
Repository = Annotated[
    str,
    msgspec.Meta(pattern=r"^[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*$(?!\n)", max_length=255),
]
Digest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}$(?!\n)")]
HubName = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(?:/[A-Za-z0-9][A-Za-z0-9_.-]*)?$(?!\n)", max_length=200)
]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$(?!\n)")]
Url = Annotated[str, msgspec.Meta(pattern=r"^https://[^?#\s]+$(?!\n)", max_length=4096)]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class _Material(_Strict, frozen=True, kw_only=True):
    def __repr__(self) -> str:
        return "[secret]"

    __str__ = __repr__


# -- what is asked for -------------------------------------------------------------------------


class OciIntent(_Strict, frozen=True, kw_only=True):
    """Pull, and nothing else, of one repository, for one digest (CR-08)."""

    registry: Origin
    repository: Repository
    digest: Digest


class S3Intent(_Strict, frozen=True, kw_only=True):
    """Read of the objects under `prefix`; `endpoint` is the path-style S3 address."""

    endpoint: Origin
    bucket: Bucket
    prefix: KeyPrefix


class GcsIntent(_Strict, frozen=True, kw_only=True):
    """Read of the objects under `prefix`."""

    bucket: Bucket
    prefix: KeyPrefix
    endpoint: Origin = "https://storage.googleapis.com"


class HfIntent(_Strict, frozen=True, kw_only=True):
    """Read of one repository of a Hugging Face hub."""

    repository: HubName
    endpoint: Origin = "https://huggingface.co"


class JoinIntent(_Strict, frozen=True, kw_only=True):
    """To join this cluster, by its name in the control plane's configuration."""

    cluster: Name


class UrlIntent(_Strict, frozen=True, kw_only=True):
    """A signed form of this URL, which is named here without its query."""

    url: Url


Intent = OciIntent | S3Intent | GcsIntent | HfIntent | JoinIntent | UrlIntent


# -- what comes of it --------------------------------------------------------------------------


class OciPull(_Material, frozen=True, kw_only=True):
    """A bearer `token` for the registry, or `username` and `password` for Basic; the other stays empty."""

    registry: str
    token: str = ""
    username: str = ""
    password: str = ""


class S3Read(_Material, frozen=True, kw_only=True):
    """For AWS Signature Version 4."""

    access_key_id: str
    secret_access_key: str
    session_token: str
    region: str
    endpoint: str


class GcsRead(_Material, frozen=True, kw_only=True):
    """An OAuth 2 access token: `Authorization: Bearer`."""

    token: str


class HfToken(_Material, frozen=True, kw_only=True):
    """`Authorization: Bearer`."""

    token: str


class KubernetesJoin(_Material, frozen=True, kw_only=True, tag_field="backend", tag="kubernetes"):
    """A kubeadm bootstrap token `id.secret`; `ca_sha256` is what kubeadm calls discovery-token-ca-cert-hash."""

    server: str
    token: str
    ca_pem: str
    ca_sha256: str


class SlurmJoin(_Material, frozen=True, kw_only=True, tag_field="backend", tag="slurm"):
    """The cluster's authentication key (munge.key or slurm.key), as bytes."""

    key: bytes
    controllers: tuple[str, ...]


class RayJoin(_Material, frozen=True, kw_only=True, tag_field="backend", tag="ray"):
    """The cluster's authentication token and the head's address, `host:port`."""

    address: str
    token: str


class SignedUrl(_Material, frozen=True, kw_only=True):
    """The URL is itself the secret (X25)."""

    url: str


JoinToken = KubernetesJoin | SlurmJoin | RayJoin
Material = OciPull | S3Read | GcsRead | HfToken | JoinToken | SignedUrl


class CredentialType(NamedTuple):
    """What is asked for, and what comes of it."""

    intent: type[Intent]
    material: Any


CREDENTIAL_TYPES: dict[str, CredentialType] = {
    "oci_pull": CredentialType(OciIntent, OciPull),
    "s3_read": CredentialType(S3Intent, S3Read),
    "gcs_read": CredentialType(GcsIntent, GcsRead),
    "hf_token": CredentialType(HfIntent, HfToken),
    "cluster_join_token": CredentialType(JoinIntent, JoinToken),
    "https_signed_url": CredentialType(UrlIntent, SignedUrl),
}


def type_of(name: str) -> CredentialType:
    """Raises `unknown_credential_type`."""
    known = CREDENTIAL_TYPES.get(name)
    if known is None:
        raise error("unknown_credential_type", f"there is no credential type {name[:64]!r}")
    return known


def intent_of(type_name: str, value: Any, *, code: str = "invalid_request") -> Intent:
    """Raises `unknown_credential_type`, or `code` with the pointer of what does not fit."""
    intent: Intent = convert(value, type_of(type_name).intent, code=code, what=f"intent of {type_name}")
    return intent


def source_of(intent: Intent) -> str:
    """The prefix of every URL that the credential opens; "" for one that opens no artifacts."""
    if isinstance(intent, OciIntent):
        return f"{intent.registry}/v2/{intent.repository}/"
    if isinstance(intent, S3Intent | GcsIntent):
        return f"{intent.endpoint}/{intent.bucket}/{intent.prefix}"
    if isinstance(intent, HfIntent):
        return f"{intent.endpoint}/{intent.repository}/"
    return intent.url if isinstance(intent, UrlIntent) else ""
