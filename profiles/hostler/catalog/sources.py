"""Where artifacts come from, and the one URL each comes to: what allow-lists judge (AR-03, AR-06, AR-09)."""

from typing import Annotated, Any

import msgspec

from hostler.base.errors import error
from hostler.base.strict import convert
from hostler.catalog.credentials import Bucket, HubName, Origin, Url
from hostler.catalog.oci import reference_of

# "+" is left out: object stores do not agree on what it means in a path.
Key = Annotated[str, msgspec.Meta(pattern=r"^(?!.*\.\.)(?:[A-Za-z0-9_.=-]+/)*[A-Za-z0-9_.=-]+$(?!\n)", max_length=900)]
Commit = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}$(?!\n)", description="a commit, never a branch")]
Region = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9-]{0,40}$(?!\n)")]


class _Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    @property
    def url(self) -> str:
        """Without anything secret."""
        raise NotImplementedError


class S3Object(_Source, frozen=True, kw_only=True, tag="s3"):
    """`endpoint` is the path-style address of the store; `region` "" leaves it to the credential."""

    endpoint: Origin
    bucket: Bucket
    key: Key
    region: Region = ""

    @property
    def url(self) -> str:
        return f"{self.endpoint}/{self.bucket}/{self.key}"


class GcsObject(_Source, frozen=True, kw_only=True, tag="gcs"):
    bucket: Bucket
    object: Key
    endpoint: Origin = "https://storage.googleapis.com"

    @property
    def url(self) -> str:
        return f"{self.endpoint}/{self.bucket}/{self.object}"


class HubFile(_Source, frozen=True, kw_only=True, tag="huggingface"):
    """One file of a repository at one commit. The hub redirects to its stores: allow-lists have to name those too."""

    repository: HubName
    revision: Commit
    path: Key
    endpoint: Origin = "https://huggingface.co"

    @property
    def url(self) -> str:
        return f"{self.endpoint}/{self.repository}/resolve/{self.revision}/{self.path}"


class SignedHttps(_Source, frozen=True, kw_only=True, tag="https_signed"):
    """`base` is the URL without its query; the signed one is a secret and comes from the credential (X25)."""

    base: Url

    @property
    def url(self) -> str:
        return self.base


Source = S3Object | GcsObject | HubFile | SignedHttps
FETCHING = frozenset({"artifact.pull_blob", "artifact.pull_oci", "artifact.verify"})
SOURCES = ("url", "source", "reference")


class _Holder(msgspec.Struct, frozen=True):
    source: Source


def source_url(name: str, value: Any) -> str:
    """What one of the parameters `SOURCES` comes to.

    Raises:
        HostlerError: `digest_required` for a reference with a tag, `source_denied` for what is no source at all.
    """
    if name == "reference":
        return reference_of(str(value)).source
    if name == "url" or isinstance(value, str):
        return str(value)
    if isinstance(value, _Source):
        return value.url
    return convert({"source": value}, _Holder, code="source_denied", what="step").source.url


def must_have_one(url: str, source: Source | None) -> str:
    """The URL of whichever is given. Raises `source_denied` for both or neither."""
    if bool(url) == (source is not None):
        raise error("source_denied", "a blob has either a url or a source")
    return url or (source.url if source is not None else "")
