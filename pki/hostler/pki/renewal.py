"""When an identity is renewed: at half of its life, spread so that a fleet does not come at once (PK-03)."""

import random

_SPREAD = 0.1  # of the lifetime, to either side of the half


def renew_at_ms(not_before_ms: int, not_after_ms: int, rng: random.Random) -> int:
    """A moment around half-life: of a 24 h certificate, between 9.6 h and 14.4 h."""
    lifetime = not_after_ms - not_before_ms
    return not_before_ms + int(lifetime * rng.uniform(0.5 - _SPREAD, 0.5 + _SPREAD))
