"""API-20, LC-15: whoever approves a wave says which one, so that nobody approves another than they looked at."""

import pytest

from hostler.base.errors import HostlerError
from support.rollouts import Rollouts


def waiting() -> Rollouts:
    """The canary stands; wave 1 (eu) waits, wave 2 (us) after it."""
    rollouts = Rollouts({"eu": 2, "us": 2})
    rollouts.create(boundary="region", approval="each_wave")
    rollouts.play()
    assert (rollouts.rollout.state, rollouts.rollout.wave) == ("awaiting_approval", 1)
    return rollouts


def refusal(rollouts: Rollouts, wave: int) -> HostlerError:
    before = rollouts.rollout
    with pytest.raises(HostlerError) as caught:
        rollouts.move("approve", wave=wave)
    assert rollouts.rollout == before
    return caught.value


@pytest.mark.parametrize("wave", [-1, 0, 2, 9])
def test_API_20_another_wave_than_the_one_that_waits_is_not_approved(wave: int) -> None:
    rollouts = waiting()
    refused = refusal(rollouts, wave)
    assert refused.code == "rollout_moved"
    assert refused.message == f"wave 1 of rollout rol_1 waits for approval, not wave {wave}"
    assert rollouts.open_runs() == []


def test_API_20_an_approval_that_comes_again_approves_nothing_more() -> None:
    """The answer to the first was lost: sent again while its wave goes on, or when the next one waits."""
    rollouts = waiting()
    assert rollouts.move("approve", wave=1) == "running"
    again = refusal(rollouts, 1)
    assert (again.code, again.message) == ("rollout_over", "rollout rol_1 is running, and wave 1 was approved already")
    rollouts.play()
    assert (rollouts.rollout.state, rollouts.rollout.wave) == ("awaiting_approval", 2)
    assert refusal(rollouts, 1).code == "rollout_moved"
    assert rollouts.rollout.approved_wave == 1
    assert rollouts.move("approve", wave=2) == "running"
    rollouts.play()
    assert rollouts.rollout.state == "succeeded"
