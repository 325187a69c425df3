"""Rows of what was signed by others than this control plane."""

from hostler.control.kernel.rows import Row


class KeysetRow(Row, frozen=True, kw_only=True):
    """A keyset as the root signed it; nodes that were away are sent all that they missed, in order."""

    KEY = ("version",)

    version: int
    control_epoch: int
    keyset: bytes
    published_at_ms: int
