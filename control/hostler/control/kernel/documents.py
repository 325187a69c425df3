"""Stored definitions, parsed once."""

import functools

import msgspec

from hostler.catalog.definition import Definition


@functools.lru_cache(maxsize=1024)
def definition_of(document: str) -> Definition:
    """The definition in a stored document."""
    return msgspec.json.decode(document, type=Definition)
