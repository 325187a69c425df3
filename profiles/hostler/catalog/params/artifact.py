"""Parameters of `artifact.pull_blob` and `artifact.verify`."""

from typing import Annotated, Literal

import msgspec

Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$(?!\n)", description="hex SHA-256")]
Path = Annotated[str, msgspec.Meta(pattern="^/", max_length=4096, description="absolute path on the node")]
Url = Annotated[str, msgspec.Meta(pattern="^https://", max_length=8192)]


class PullBlob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Fetches one blob over HTTPS with resume; it appears at `path` only when its digest fits.

    Attributes:
        url: without credentials; a signed URL is a secret and comes from a mint instead.
        sha256: of the whole blob.
        size_bytes: exact length when known, 0 otherwise.
        max_bytes: refuse anything longer; the policy's limit applies as well. 0: only the policy's.
    """

    url: Url
    sha256: Sha256
    path: Path
    source_type: Literal["https"] = "https"
    size_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    mode: Annotated[str, msgspec.Meta(pattern=r"^0[0-7]{3}$(?!\n)")] = "0644"
    retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 20


class Verify(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Checks a file's digest, and its detached DSSE signature where one is required.

    Attributes:
        signature_path: a DSSE envelope (JSON) over an in-toto Statement whose subject is the file,
            by an `artifact` or `catalog` key of the keyset. "" where none is required.
    """

    path: Path
    sha256: Sha256
    size_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    signature_path: str = ""
