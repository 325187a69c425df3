"""Parameters of `artifact.pull_blob`, `artifact.pull_oci` and `artifact.verify`."""

from typing import Annotated, Any, Literal

import msgspec

from hostler.catalog.sources import Source

Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$(?!\n)", description="hex SHA-256")]
Path = Annotated[str, msgspec.Meta(pattern="^/", max_length=4096, description="absolute path on the node")]
Rate = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
OptionalUrl = Annotated[str, msgspec.Meta(pattern=r"^(?:https://|$(?!\n))", max_length=8192)]
Handle = Annotated[str, msgspec.Meta(max_length=64)]


class Chunks(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """SHA-256 of each part of `size_bytes` but the last, which the digest of the whole covers."""

    size_bytes: Annotated[int, msgspec.Meta(ge=65_536)]
    sha256: Annotated[tuple[Sha256, ...], msgspec.Meta(min_length=1, max_length=65_536)]


class PullBlob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Fetches one blob over HTTPS with resume; it appears at `path` only when its digest fits.

    Attributes:
        url: without credentials; a signed URL is a secret and comes from a credential instead.
        source: in place of `url`: an object of S3 or GCS, a file of a Hugging Face hub, or a signed URL.
        credential: handle of the credential that opens `source`; "" for one that is public.
        sha256: of the whole blob.
        size_bytes: exact length when known, 0 otherwise.
        max_bytes: refuse anything longer; the policy's limit applies as well. 0: only the policy's.
        max_bytes_per_second: 0 for as fast as it comes.
        chunks: digests of parts, so that a wrong byte is found on the way and not at the end.
    """

    url: OptionalUrl = ""
    sha256: Sha256
    path: Path
    source_type: Literal["https"] = "https"
    source: Source | None = None
    credential: Handle = ""
    size_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_bytes_per_second: Rate = 0
    chunks: Chunks | None = None
    mode: Annotated[str, msgspec.Meta(pattern=r"^0[0-7]{3}$(?!\n)")] = "0644"
    retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 20


class PullOci(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Pulls what a registry holds, by digest only, and puts it in one step where it is wanted.

    Attributes:
        reference: `registry/repository@sha256:…`; a tag is `digest_required`. Allow-lists of sources name it as
            `https://registry/v2/repository`.
        place: `layout`, an OCI layout; `files`, the files of a bundle by their titles; `unpacked`, the layers one over
            the other; `containerd` or `docker`, the node's image store.
        path: the directory for the first three. One that is there is replaced only if it is empty or was put there
            by this kind.
        platform: `os/architecture[/variant]` for an index of several; "" for the node's own.
        credential: handle of an `oci_pull` credential; "" for a registry that asks for none.
        max_bytes: of the artifact as the registry holds it; the policy's limit applies as well. 0: only the policy's.
        max_unpacked_bytes, max_entries: of all layers, unpacked.
        max_bytes_per_second: 0 for as fast as it comes.
        namespace: of containerd.
    """

    reference: Annotated[str, msgspec.Meta(max_length=600)]
    place: Literal["layout", "files", "unpacked", "containerd", "docker"] = "layout"
    path: Annotated[str, msgspec.Meta(pattern="^(?:/|$(?!\n))", max_length=4096)] = ""
    platform: Annotated[
        str, msgspec.Meta(pattern=r"^(?:[a-z0-9]+/[a-z0-9]+(?:/[a-z0-9.]+)?)?$(?!\n)", max_length=64)
    ] = ""
    credential: Handle = ""
    max_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_unpacked_bytes: Annotated[int, msgspec.Meta(ge=1)] = 68_719_476_736
    max_entries: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 200_000
    max_bytes_per_second: Rate = 0
    namespace: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,75}$(?!\n)")] = "k8s.io"
    retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 20


class Verify(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Checks a file's digest, and its signature where one is required; or the signatures that a registry holds of an
    image or artifact.

    Attributes:
        path, sha256: of the file; both "" for a `reference`.
        signature_path: what signs the file, by an `artifact` or `catalog` key of the keyset: a DSSE envelope over an
            in-toto Statement about it, a Sigstore or cosign bundle, or what `cosign sign-blob` writes. "" where none is
            required.
        reference: `registry/repository@sha256:…`, in place of a file: cosign's signature of it, or an attestation.
        credential: handle of an `oci_pull` credential for the registry; "" for none.
        predicate_types: the statement has to be of one of these; for a `reference` this asks for an attestation.
        predicate: values by JSON pointer into the statement's predicate that have to stand there.
    """

    path: Annotated[str, msgspec.Meta(pattern=r"^(?:/|$(?!\n))", max_length=4096)] = ""
    sha256: Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9a-f]{64})?$(?!\n)")] = ""
    size_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    signature_path: str = ""
    reference: Annotated[str, msgspec.Meta(max_length=600)] = ""
    credential: Handle = ""
    predicate_types: Annotated[tuple[str, ...], msgspec.Meta(max_length=16)] = ()
    predicate: Annotated[dict[str, Any], msgspec.Meta(max_length=32)] = {}
