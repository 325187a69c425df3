"""Time as an argument: clocks, deadlines and back-off."""

import random
import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is signed, monotonic time for what is waited for."""

    def now_ms(self) -> int:
        """Unix time, milliseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that no clock step can change."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass(frozen=True)
class Deadline:
    """A point in monotonic time, immune to clock steps."""

    at: float
    clock: Clock

    @classmethod
    def after(cls, seconds: float, clock: Clock) -> "Deadline":
        return cls(clock.monotonic() + seconds, clock)

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - self.clock.monotonic())

    def passed(self) -> bool:
        return self.remaining() <= 0.0


class Pace:
    """Units a second, with a burst of one second. What is taken beyond them is a debt, to be waited for."""

    def __init__(self, rate: int, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._paid_until = float("-inf")

    def debt(self, cost: int) -> float:
        """Takes `cost`; the seconds to wait for it."""
        now = self._clock.monotonic()
        self._paid_until = max(self._paid_until, now - 1.0) + cost / self._rate
        return max(0.0, self._paid_until - now)

    @property
    def level(self) -> float:
        """What was taken and is not yet a second past."""
        return max(0.0, self._paid_until - self._clock.monotonic() + 1.0) * self._rate


def full_jitter(attempt: int, *, base_s: float, cap_s: float, rng: random.Random) -> float:
    """Seconds to wait before try `attempt` (0-based): uniform over (0, min(cap, base * 2^attempt)).

    The jitter is drawn after the cap, so that a long outage does not end in a herd.
    """
    return rng.uniform(0.0, min(cap_s, base_s * 2.0 ** min(attempt, 32)))
