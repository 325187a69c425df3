"""What can change about stored log lines besides their coming; a part of `kernel.commands`."""

import msgspec


class PruneLogs(msgspec.Struct, frozen=True):
    """→ None. Drops the lines up to this id; the loop has seen that all of them are old."""

    up_to: int
