"""No image or artifact by tag, anywhere in a profile: what a tag means tomorrow nobody has signed (AR-01)."""

from collections.abc import Iterator
from typing import Any

from hostler.base.errors import HostlerError
from hostler.catalog.oci import names_a_tag, reference_of

_NAMES = frozenset({"reference", "image"})  # parameters that hold nothing else
_PROSE = frozenset({"description"})


def tags(value: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """(pointer, message) of every text in a document that names something by tag."""
    if isinstance(value, dict):
        for key, item in value.items():
            where = f"{pointer}/{key}"
            if key in _NAMES and isinstance(item, str) and "${" not in item and not _pinned(item):
                yield where, f"{item[:120]!r} is not of the form registry/repository@sha256:…"
            elif key not in _PROSE:
                yield from tags(item, where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from tags(item, f"{pointer}/{index}")
    elif isinstance(value, str) and names_a_tag(value):
        yield pointer, f"{value[:120]!r} names an image by its tag"


def _pinned(text: str) -> bool:
    try:
        reference_of(text)
    except HostlerError:
        return False
    return True
