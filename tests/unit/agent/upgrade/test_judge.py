"""LC-16, LC-21, U1, U2: a version on trial is judged by what it did while it could, whatever comes when."""

import random

import msgspec
import pytest

from hostler.agent.upgrade.judge import (
    ASK_EVERY_MS,
    FRESH_MS,
    MOST_BOOTS,
    Ask,
    Decision,
    Extend,
    Facts,
    Keep,
    Return,
    Wait,
    checks,
    decide,
    has_returned,
)
from hostler.agent.upgrade.records import RUNNING, Said, Trial

START = 1_000_000
TRIAL = Trial(
    key="uid",
    task_id="tsk",
    kind="activate",
    version="2.0.0",
    commit="c" * 40,
    slot="two",
    from_version="1.0.0",
    from_slot="one",
    trial_ms=90_000,
    baseline_serial="1",
    boot_id="boot",
    ordered_ms=1,
    phase=RUNNING,
    deadline_ms=START + 90_000,
)
ALL = Said(key="uid", slot="two", version="2.0.0", started_ms=1, renewed_ms=2, connected_ms=3, task_done_ms=4)
FINE = Facts(boot_id="boot", starts=1, renewed=True)
CHECKS = ("started_ms", "renewed_ms", "connected_ms", "task_done_ms")


def facts(**changes: object) -> Facts:
    return Facts(**({"boot_id": "boot", "starts": 1, "renewed": True} | changes))  # type: ignore[arg-type]


def without(*names: str) -> Said:
    return msgspec.structs.replace(ALL, **dict.fromkeys(names, 0))


def test_LC_21_a_version_that_has_done_everything_is_kept() -> None:
    assert decide(TRIAL, ALL, FINE, START) == Keep()
    assert decide(TRIAL, ALL, FINE, TRIAL.deadline_ms + 1) == Keep(), "it was in time, and was seen late"


@pytest.mark.parametrize("missed", CHECKS)
def test_LC_21_a_version_that_misses_one_check_is_returned_from_at_the_deadline_and_not_before(missed: str) -> None:
    said = without(missed)
    before = decide(TRIAL, said, facts(server_good_ms=TRIAL.deadline_ms - 2), TRIAL.deadline_ms - 1)
    after = decide(TRIAL, said, facts(server_good_ms=TRIAL.deadline_ms - 2), TRIAL.deadline_ms)
    assert before == Wait()
    assert isinstance(after, Return)


def test_LC_21_a_certificate_that_the_watcher_does_not_see_is_not_renewed() -> None:
    """What the version says of itself is not enough."""
    seen = facts(renewed=False, server_good_ms=TRIAL.deadline_ms)
    assert checks(TRIAL, ALL, seen)["renewed"] == 0
    assert isinstance(decide(TRIAL, ALL, seen, TRIAL.deadline_ms), Return)


@pytest.mark.parametrize("other", [{"key": "another"}, {"slot": "one"}, {"version": "1.0.0"}])
def test_U1_words_of_another_trial_or_version_count_for_nothing(other: dict[str, str]) -> None:
    said = msgspec.structs.replace(ALL, **other)
    assert set(checks(TRIAL, said, FINE).values()) == {0}
    assert isinstance(decide(TRIAL, said, FINE, TRIAL.deadline_ms), Return)


@pytest.mark.parametrize(
    ("starts", "up", "over"), [(1, True, False), (2, False, False), (3, True, False), (3, False, True), (4, True, True)]
)
def test_U1_a_crash_loop_is_over_at_the_third_failed_start(starts: int, up: bool, over: bool) -> None:
    decided = decide(TRIAL, None, facts(starts=starts, up=up), START)
    assert isinstance(decided, Return) is over


def test_U1_a_version_that_the_launcher_has_passed_over_is_returned_from_at_once() -> None:
    assert isinstance(decide(TRIAL, None, facts(passed_over=True, starts=0), START), Return)
    assert isinstance(decide(TRIAL, None, facts(passed_over=True, starts=3), START), Return)


def test_U1_a_version_that_does_not_start_is_no_matter_of_the_control_plane() -> None:
    """It is not asked, and what it did before does not help."""
    throttled = facts(server_bad_ms=TRIAL.deadline_ms - 1)
    assert decide(TRIAL, None, throttled, TRIAL.deadline_ms - 1) == Wait()
    assert isinstance(decide(TRIAL, None, throttled, TRIAL.deadline_ms), Return)


def test_U2_a_control_plane_that_turns_the_node_away_extends_the_trial_without_end() -> None:
    trial, now, said = TRIAL, START, without("connected_ms", "task_done_ms")
    for _ in range(100):
        now += 10_000
        decided = decide(trial, said, facts(server_bad_ms=now), now)
        assert decided == Extend(max(trial.deadline_ms, now + trial.trial_ms), 1, now)
        trial = msgspec.structs.replace(trial, deadline_ms=decided.deadline_ms, server_bad_ms=now)
    assert decide(trial, said, facts(server_good_ms=now, server_bad_ms=now), now) == Wait()
    assert decide(trial, ALL, facts(server_bad_ms=now), now) == Keep()


def test_U2_after_the_control_plane_has_come_back_the_version_has_its_whole_time() -> None:
    bad = START + 85_000
    extended = decide(TRIAL, without("renewed_ms"), facts(server_bad_ms=bad), bad)
    assert extended == Extend(bad + 90_000, 1, bad)
    trial = msgspec.structs.replace(TRIAL, deadline_ms=bad + 90_000, server_bad_ms=bad)
    good = facts(server_bad_ms=bad, server_good_ms=bad + 89_000)
    assert decide(trial, without("renewed_ms"), good, bad + 89_999) == Wait()
    assert isinstance(decide(trial, without("renewed_ms"), good, bad + 90_000), Return)


def test_U2_nothing_is_returned_from_before_the_control_plane_was_asked() -> None:
    at = TRIAL.deadline_ms
    assert decide(TRIAL, without("task_done_ms"), facts(), at) == Ask()
    assert decide(TRIAL, without("task_done_ms"), facts(server_good_ms=at - FRESH_MS - 1), at) == Ask()
    assert isinstance(decide(TRIAL, without("task_done_ms"), facts(server_good_ms=at - FRESH_MS), at), Return)


def test_U2_it_is_asked_now_and_then_not_all_the_time() -> None:
    said = without("task_done_ms")
    assert decide(TRIAL, said, facts(server_good_ms=START), START + ASK_EVERY_MS - 1) == Wait()
    assert decide(TRIAL, said, facts(server_good_ms=START), START + ASK_EVERY_MS) == Ask()


def test_U3_a_machine_that_starts_anew_gives_a_fresh_deadline_and_not_for_ever() -> None:
    trial = TRIAL
    for boot in range(2, MOST_BOOTS + 1):
        fresh = facts(boot_id=f"boot-{boot}", starts=0)
        assert decide(trial, ALL, fresh, 5_000) == Extend(95_000, boot, 0)
        trial = msgspec.structs.replace(trial, boot_id=f"boot-{boot}", boots=boot, deadline_ms=95_000)
    assert isinstance(decide(trial, ALL, facts(boot_id="one more"), 5_000), Return)


def test_a_return_is_over_when_the_version_before_runs_and_has_an_end_when_it_does_not() -> None:
    trial = msgspec.structs.replace(TRIAL, deadline_ms=START + 40_000)
    back = Said(key="uid", slot="one", version="1.0.0", started_ms=9)
    assert has_returned(trial, ALL, FINE, START) is None, "that is the version that was given up"
    assert has_returned(trial, back, facts(up=False), START) is None
    assert has_returned(trial, back, FINE, START) is True
    assert has_returned(trial, None, facts(starts=3, up=False), START) is False
    assert has_returned(trial, None, FINE, START + 40_000) is False


def test_whatever_happens_a_trial_ends_and_ends_rightly() -> None:
    """Random lives: a version is kept only with every check, and returned from only for its own failing, or boots."""
    for seed in range(400):
        trial, said, end, seen, now = _life(random.Random(seed))
        assert isinstance(end, Keep | Return), seed
        held = checks(trial, said, seen)
        if isinstance(end, Keep):
            assert all(held.values()), seed
        else:
            crashed = seen.passed_over or seen.starts - seen.up >= 3
            late = not all(held.values()) and trial.deadline_ms <= now
            assert crashed or late or trial.boots == MOST_BOOTS, seed
            if late and held["started"] and not crashed:
                fault_free = now - max(seen.server_bad_ms, trial.server_bad_ms)
                assert fault_free >= trial.trial_ms or not trial.server_bad_ms, seed


def _life(rng: random.Random) -> tuple[Trial, Said, Decision, Facts, int]:
    """One trial under a control plane that is away for a while, on a machine that may start anew."""
    away_until = START + rng.choice([0, 0, 50_000, 300_000])
    does = {name: START + rng.randrange(200_000) if rng.random() < 0.8 else 10**12 for name in CHECKS}
    crashes = rng.random() < 0.2
    trial, now, boot, starts, good, bad = TRIAL, START, 0, 0, 0, 0
    for _ in range(4000):
        now += rng.randrange(1, 2000)
        if rng.random() < 0.0005:
            boot, starts = boot + 1, 0
        starts += crashes and rng.random() < 0.3
        said = Said(
            key="uid", slot="two", version="2.0.0", **{name: int(now >= at and now) for name, at in does.items()}
        )
        boot_id = "boot" if not boot else f"boot-{boot}"
        seen = Facts(
            boot_id=boot_id, starts=starts, up=not crashes, renewed=True, server_good_ms=good, server_bad_ms=bad
        )
        decided = decide(trial, said, seen, now)
        if isinstance(decided, Keep | Return):
            return trial, said, decided, seen, now
        if isinstance(decided, Ask):
            good, bad = (good, now) if now < away_until else (now, bad)
        elif isinstance(decided, Extend):
            trial = msgspec.structs.replace(
                trial,
                deadline_ms=decided.deadline_ms,
                boots=decided.boots,
                server_bad_ms=decided.server_bad_ms,
                boot_id=boot_id,
            )
    return trial, said, Wait(), seen, now
