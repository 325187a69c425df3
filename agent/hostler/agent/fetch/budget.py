"""Try again, or give up. Pure but for the random generator handed in."""

import random
from dataclasses import dataclass, field

from hostler.base.clock import full_jitter
from hostler.base.errors import HostlerError, error

# Answers that may be different the next time.
TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 507, 509, 520, 522, 524})


class Transient(Exception):
    """This try failed; another may not.

    Attributes:
        after_s: the source asks not to be tried before, 0 when it does not say.
    """

    def __init__(self, sentence: str, *, after_s: float = 0.0) -> None:
        super().__init__(sentence)
        self.after_s = after_s


@dataclass
class Budget:
    """Counts tries without progress. `ground` bytes beyond the furthest point ever reached are
    progress; fewer are not, so that a source which drips, or cuts after every byte, comes to an end.
    """

    retries: int
    ground: int
    base_s: float
    cap_s: float
    rng: random.Random = field(default_factory=random.Random)
    attempt: int = 0
    furthest: int = 0
    blamed: bool = False

    def advanced(self, offset: int) -> None:
        if offset >= self.furthest + max(1, self.ground):
            self.attempt = 0
            self.furthest = offset

    def again(self, cause: HostlerError, *, after_s: float = 0.0, left_s: float) -> float:
        """Seconds to wait before the next try; raises `cause` when there is none."""
        if self.attempt >= self.retries or after_s > left_s:
            raise cause
        wait = full_jitter(self.attempt, base_s=self.base_s, cap_s=self.cap_s, rng=self.rng)
        self.attempt += 1
        return max(wait, after_s)

    def blame(self, cause: HostlerError) -> None:
        """A server may break a rule once, then it has been given its chance from scratch."""
        if self.blamed:
            raise cause
        self.blamed = True


def retry_after(text: str, now_ms: int) -> float:
    """Seconds named by a Retry-After header (number or date), 0 when it names none."""
    import email.utils  # an idle agent has no use for it

    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return float(text)
    try:
        when = email.utils.parsedate_to_datetime(text)
        return max(0.0, when.timestamp() - now_ms / 1000)
    except (ValueError, OverflowError, OSError):
        return 0.0


def refusal_of(status: int, where: str) -> HostlerError:
    """The error of a status that no further try will change."""
    if status in (401, 403, 407):
        return error("source_denied", f"{where} refuses access with status {status}")
    return error("source_unreachable", f"{where} answered with status {status}")
