"""API-20, LC-16: whatever a person says in whatever state, a rollout takes it by its rules or refuses it and stays."""

from collections.abc import Callable

import pytest

from hostler.base.errors import HostlerError
from hostler.control.kernel.rollout_states import MAY, ROLLOUT_STATES
from support.rollouts import Rollouts, healthy


def refused(rollouts: Rollouts, action: str) -> str:
    """Tries it. → the code that it is refused with, "" where it is done."""
    try:
        rollouts.move(action)
    except HostlerError as err:
        return err.code
    return ""


def running() -> Rollouts:
    rollouts = Rollouts({"eu": 2, "us": 2})
    rollouts.create(boundary="region", approval="after_canary")
    return rollouts


def changing() -> Rollouts:
    rollouts = running()
    rollouts.change()
    return rollouts


def soaking() -> Rollouts:
    rollouts = Rollouts(3)
    rollouts.create(soak_seconds=60)
    rollouts.succeed()
    return rollouts


def awaiting_approval() -> Rollouts:
    rollouts = running()
    rollouts.play()
    return rollouts


def paused() -> Rollouts:
    rollouts = running()
    rollouts.move("pause")
    return rollouts


def turning_back() -> Rollouts:
    """Paused by itself; the node that has the version is on its way back."""
    rollouts = Rollouts(3)
    rollouts.create(canary=2)
    first, second, _ = rollouts.nodes
    rollouts.succeed(first)
    rollouts.give_up(second)
    return rollouts


def rolling_back() -> Rollouts:
    rollouts = succeeded()
    rollouts.move("rollback")
    return rollouts


def aborting() -> Rollouts:
    """Its last run has not ended."""
    rollouts = changing()
    rollouts.move("abort")
    return rollouts


def succeeded() -> Rollouts:
    rollouts = Rollouts(2)
    rollouts.create()
    rollouts.play()
    return rollouts


def rolled_back() -> Rollouts:
    rollouts = rolling_back()
    rollouts.play()
    return rollouts


def aborted() -> Rollouts:
    rollouts = paused()
    rollouts.move("abort")
    return rollouts


SITUATIONS: dict[str, tuple[Callable[[], Rollouts], str]] = {
    made.__name__: (made, state)
    for made, state in (
        (running, "running"),
        (changing, "running"),
        (soaking, "running"),
        (awaiting_approval, "awaiting_approval"),
        (paused, "paused"),
        (turning_back, "paused"),
        (rolling_back, "rolling_back"),
        (aborting, "aborted"),
        (aborted, "aborted"),
        (succeeded, "succeeded"),
        (rolled_back, "rolled_back"),
    )
}


def test_every_state_that_a_person_may_move_is_tried_here() -> None:
    tried = {state for _, state in SITUATIONS.values()}
    assert set(ROLLOUT_STATES) - tried == {"failed"}, "which takes what `succeeded` takes"
    assert all(("failed" in states) == ("succeeded" in states) for states in MAY.values())


@pytest.mark.parametrize("action", MAY)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_API_20_every_move_in_every_state_is_taken_or_refused_and_it_comes_to_an_end(
    situation: str, action: str
) -> None:
    make, state = SITUATIONS[situation]
    rollouts = make()
    before, parts = rollouts.rollout, rollouts.parts()
    assert before.state == state
    if refusal := refused(rollouts, action):
        assert refusal == "rollout_over"
        assert situation in ("aborting", "turning_back") or state not in MAY[action]
        assert (rollouts.rollout, rollouts.parts()) == (before, parts), "a refusal changes nothing"
    else:
        assert state in MAY[action]
        again = refused(rollouts, action)  # after a lost answer
        assert again == "rollout_over" or action in ("resume", "rollback")
    healthy(rollouts)
    for _ in range(12):
        rollouts.play()
        rollouts.pass_time(3_600_000)
        for order in ("approve", "resume"):
            refused(rollouts, order)
        healthy(rollouts)
    assert rollouts.rollout.finished_at_ms
    assert rollouts.open_runs() == []
