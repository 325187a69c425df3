"""What a mutation changed, as its line in the audit says it (SE-02, DM-08).

Small plain data, and only what differs. Never a secret, a token or its hash, a key, or an address that lets one in.
"""

from typing import Any, NamedTuple

from hostler.control.kernel.rows import Row


class Change(NamedTuple):
    """`before` is None for what was made, `after` for what is gone."""

    before: dict[str, Any] | None
    after: dict[str, Any] | None


NONE = Change(None, None)  # a refusal


def made(**said: Any) -> Change:
    return Change(None, said)


def gone(**said: Any) -> Change:
    return Change(said, None)


def between(before: dict[str, Any], after: dict[str, Any]) -> Change:
    """Of the same names, those about which the two disagree."""
    names = [name for name in before if before[name] != after[name]]
    return Change({name: before[name] for name in names}, {name: after[name] for name in names})


def of_rows(before: Row, after: Row, *names: str) -> Change:
    """The named columns, as far as they differ."""
    return between(_said(before, names), _said(after, names))


def _said(row: Row, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}
