"""What the operator decided about launches of which nothing is heard; a part of `model.Settings`."""

import msgspec


class LaunchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    ask_after_ms: how long after it was signed a launch is asked about, once each; ascending.
    recent_ms: after that it is old: not asked about by itself, and its failure stays one (LC-18).
    """

    ask_after_ms: tuple[int, ...] = (30_000, 300_000, 1_800_000)
    recent_ms: int = 3_600_000
