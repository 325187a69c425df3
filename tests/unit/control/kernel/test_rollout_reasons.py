"""LC-16, API-20: every node's part in a rollout ends with a reason that is true of that end, and a time."""

from support.agents import NEW, OLD
from support.rollouts import Rollouts, healthy


def test_API_20_a_node_that_stood_the_version_says_so() -> None:
    rollouts = Rollouts(2)
    rollouts.create(soak_seconds=0)
    rollouts.play()
    healthy(rollouts)
    assert {row.reason for row in rollouts.parts("succeeded")} == {f"runs {NEW}, watched for 0 s"}
    assert all(row.finished_at_ms for row in rollouts.parts())


def test_LC_16_a_node_that_was_brought_back_does_not_keep_the_reason_of_its_success() -> None:
    rollouts = Rollouts(2)
    rollouts.create(soak_seconds=3600)
    rollouts.succeed()
    rollouts.move("abort", reason="enough")
    assert [row.reason for row in rollouts.parts("succeeded")] == ["not watched to the end: aborted"]
    rollouts.move("rollback", reason="it leaks")
    rollouts.play()
    healthy(rollouts)
    assert [row.reason for row in rollouts.parts("rolled_back")] == [f"brought back to {OLD}"]


def test_LC_16_a_node_that_failed_keeps_its_reason_when_it_is_brought_back() -> None:
    rollouts = Rollouts(2)
    rollouts.create()
    bad = rollouts.give_up()
    (row,) = rollouts.parts("rolled_back")
    assert (row.node_id, row.error_code) == (bad, "upgrade_rolled_back")
    assert row.reason
    assert not row.reason.startswith("brought back")
