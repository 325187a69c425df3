"""A clock that a test moves."""

from support.keys import NOW


class StillClock:
    def __init__(self, now_ms: int = NOW) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    def forward(self, ms: int) -> None:
        self.ms += ms
