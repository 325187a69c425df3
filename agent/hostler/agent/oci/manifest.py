"""Manifests and indexes of the OCI and Docker formats. Pure: bytes in, decisions out.

Both formats tell readers to ignore fields they do not know, so unknown fields are not refused here as they are
elsewhere; everything that is used is typed and bounded.
"""

import platform as machine
from typing import Annotated, Any

import msgspec

from hostler.base.digest import same_digest, sha256_hex
from hostler.base.errors import HostlerError, error

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
MANIFESTS = (OCI_MANIFEST, DOCKER_MANIFEST)
INDEXES = (OCI_INDEX, DOCKER_INDEX)
ACCEPT = ", ".join((*MANIFESTS, *INDEXES))
CONFIGS = ("application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json")
TITLE = "org.opencontainers.image.title"
MAX_BYTES = 4 * 1024 * 1024  # what registries themselves accept
_MOST_LAYERS, _MOST_MANIFESTS = 1024, 1024
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "ppc64le": "ppc64le", "s390x": "s390x"}

Digest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}$(?!\n)")]
Size = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
MediaType = Annotated[str, msgspec.Meta(max_length=255)]


class Platform(msgspec.Struct, frozen=True):
    os: str = ""
    architecture: str = ""
    variant: str = ""


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """What another document says of a blob; nothing of it is believed before the blob is hashed."""

    media_type: MediaType
    digest: Digest
    size: Size
    annotations: dict[str, str] | None = None
    platform: Platform | None = None

    @property
    def sha256(self) -> str:
        return self.digest.removeprefix("sha256:")

    @property
    def title(self) -> str:
        return (self.annotations or {}).get(TITLE, "")


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    config: Descriptor
    layers: Annotated[tuple[Descriptor, ...], msgspec.Meta(max_length=_MOST_LAYERS)]
    media_type: MediaType = ""
    artifact_type: MediaType = ""
    schema_version: Annotated[int, msgspec.Meta(ge=2, le=2)] = 0
    annotations: dict[str, str] | None = None
    subject: Descriptor | None = None

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """Config and layers, each digest once."""
        return tuple({one.digest: one for one in (self.config, *self.layers)}.values())


class Index(msgspec.Struct, frozen=True, rename="camel"):
    manifests: Annotated[tuple[Descriptor, ...], msgspec.Meta(max_length=_MOST_MANIFESTS)]
    media_type: MediaType = ""
    schema_version: Annotated[int, msgspec.Meta(ge=2, le=2)] = 0


def parse(body: bytes, digest: str, content_type: str) -> Manifest | Index:
    """The document of that digest.

    Raises:
        HostlerError: `digest_mismatch` for other bytes (A4), `bad_response` for what is neither manifest nor index,
            or could be read as both.
    """
    if not same_digest(f"sha256:{sha256_hex(body)}", digest):
        raise error("digest_mismatch", f"the registry sent another document than {digest}")
    try:
        fields = msgspec.json.decode(body, type=dict[str, Any])
        if "layers" in fields and "manifests" in fields:
            raise _unusable("could be read as a manifest and as an index")
        type_: type[Manifest | Index] = Index if "manifests" in fields else Manifest
        found = msgspec.json.decode(body, type=type_)
    except msgspec.MsgspecError as err:
        raise _unusable("is neither a manifest nor an index of the OCI or Docker format") from err
    stated = found.media_type or content_type.partition(";")[0].strip().lower()
    if stated not in (INDEXES if isinstance(found, Index) else MANIFESTS):
        raise _unusable(f"has the media type {stated[:100]!r}")
    return found


def _unusable(why: str) -> HostlerError:
    return error("bad_response", f"the document that the registry sent {why}")


def own_platform() -> str:
    """Of this node, as `linux/amd64`."""
    return f"linux/{_ARCHITECTURES.get(machine.machine(), machine.machine())}"


def choose(index: Index, wanted: str) -> Descriptor:
    """The manifest for a platform `os/architecture[/variant]`: the first that fits, as the index orders them.

    Raises:
        HostlerError: `incompatible` when there is none.
    """
    os_name, _, rest = wanted.partition("/")
    architecture, _, variant = rest.partition("/")
    for one in index.manifests:
        found = one.platform
        if found is None or one.media_type not in MANIFESTS:
            continue
        if found.os == os_name and found.architecture == architecture and variant in ("", found.variant):
            return one
    raise error("incompatible", f"the index holds no manifest for the platform {wanted}")
