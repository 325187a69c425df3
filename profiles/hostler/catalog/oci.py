"""References to what a registry holds: `registry/repository@sha256:…`, and never a tag (AR-01, SK-01)."""

import re
from typing import NamedTuple

from hostler.base.errors import error

_REGISTRY = r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = rf"{_PART}(?:/{_PART})*"
_PINNED = re.compile(rf"({_REGISTRY})/({_REPOSITORY})@(sha256:[0-9a-f]{{64}})", re.ASCII)
# A host with a dot, a port or the name localhost, a path, a tag: what container tools read as an image by tag.
_TAGGED = re.compile(
    rf"(?:(?:oci|docker)://)?(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z0-9.-]+:[0-9]{{1,5}})(?::[0-9]{{1,5}})?"
    rf"/{_REPOSITORY}:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}(?:@sha256:[0-9a-f]{{64}})?",
    re.ASCII,
)
MOST = 600


class Reference(NamedTuple):
    """`digest` is `sha256:` and 64 hex digits."""

    registry: str
    repository: str
    digest: str

    @property
    def source(self) -> str:
        """The prefix of every URL it is asked for under: what allow-lists of sources name (AR-06, AR-09)."""
        return f"https://{self.registry}/v2/{self.repository}/"

    def at(self, digest: str) -> str:
        """Another object of the same repository, as text."""
        return f"{self.registry}/{self.repository}@{digest}"


def reference_of(text: str) -> Reference:
    """Raises `digest_required` for anything but a registry, a repository and a digest."""
    match = _PINNED.fullmatch(text) if len(text) <= MOST else None
    if match is None:
        raise error("digest_required", f"{text[:200]!r} is not of the form registry/repository@sha256:…, without a tag")
    return Reference(match[1], match[2], match[3])


def names_a_tag(text: str) -> bool:
    """Whether a text is an image or artifact named by tag, whatever else stands beside the tag."""
    return len(text) <= MOST and _TAGGED.fullmatch(text) is not None
