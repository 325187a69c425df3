"""When a transfer is tried again, and when it is given up."""

import random
from collections.abc import Iterable

import pytest

from hostler.agent.fetch.budget import Budget, refusal_of, retry_after
from hostler.base.errors import HostlerError, error

CAUSE = error("source_unreachable", "no answer")


def budget(retries: int = 3, ground: int = 10) -> Budget:
    return Budget(retries, ground, base_s=1, cap_s=30, rng=random.Random(7))


def use_up(found: Budget, offsets: Iterable[int]) -> None:
    for offset in offsets:
        found.advanced(offset)
        found.again(CAUSE, left_s=100)


def test_tries_end_after_the_retries_allowed() -> None:
    found = budget()
    for _ in range(3):
        found.again(CAUSE, left_s=100)
    with pytest.raises(HostlerError) as caught:
        found.again(CAUSE, left_s=100)
    assert caught.value is CAUSE


def test_progress_gives_the_tries_back() -> None:
    found = budget()
    for offset in range(0, 1000, 50):
        found.again(CAUSE, left_s=100)
        found.advanced(offset + 50)
    assert found.attempt == 0


def test_A5_a_drip_is_no_progress() -> None:
    with pytest.raises(HostlerError):
        use_up(budget(ground=1000), range(100))


def test_ground_won_again_after_a_fresh_start_is_no_progress() -> None:
    found = budget()
    found.advanced(500)
    with pytest.raises(HostlerError):
        use_up(found, [400] * 10)


def test_waits_are_jittered_below_the_cap() -> None:
    found = budget(retries=100)
    waits = [found.again(CAUSE, left_s=100) for _ in range(100)]
    assert all(0 <= wait <= 30 for wait in waits)
    assert max(waits[:3]) <= 4
    assert len(set(waits[20:])) > 70


def test_a_source_that_asks_for_more_time_than_there_is_ends_the_step() -> None:
    found = budget()
    assert found.again(CAUSE, after_s=50, left_s=100) == 50
    with pytest.raises(HostlerError):
        found.again(CAUSE, after_s=200, left_s=100)


def test_a_rule_may_be_broken_once() -> None:
    found = budget()
    found.blame(CAUSE)
    with pytest.raises(HostlerError):
        found.blame(CAUSE)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 0),
        ("7", 7),
        (" 120 ", 120),
        ("-5", 0),
        ("soon", 0),
        ("1e9", 0),
        ("9999999999999999", 0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0),
    ],
)
def test_retry_after_is_read_as_number_or_date(text: str, seconds: float) -> None:
    assert retry_after(text, now_ms=10_000) == seconds


@pytest.mark.parametrize(
    ("status", "code"), [(401, "source_denied"), (403, "source_denied"), (404, "source_unreachable")]
)
def test_a_final_status_has_its_code(status: int, code: str) -> None:
    assert refusal_of(status, "https://example.test/x").code == code
