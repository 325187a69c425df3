"""LC-08, LC-15: a rollout says which node waits for a person, and does not wait for one for ever."""

from support.rollouts import NEW, Rollouts

HOUR_MS = 3_600_000


def held() -> tuple[Rollouts, str]:
    """The first node of two has an open run by hand. → that run."""
    rollouts = Rollouts(2)
    run_id = rollouts.start(rollouts.nodes[0], mode="manual_install")
    rollouts.create(canary=2)
    return rollouts, run_id


def test_LC_08_a_node_whose_run_waits_for_a_person_says_so_and_holds_nobody_else_up() -> None:
    rollouts, run_id = held()
    first, second = rollouts.nodes
    assert (rollouts.part(first).state, rollouts.part(first).waiting_for) == ("pending", "waiting_for_operator")
    rollouts.succeed(second)
    assert rollouts.rollout.finished_at_ms == 0
    rollouts.cancel(run_id)
    rollouts.pass_time(1_000)
    assert rollouts.succeed() == first
    assert rollouts.states() == {"succeeded": 2}


def test_LC_15_a_node_that_nobody_came_to_is_skipped_with_the_reason_when_its_time_is_over() -> None:
    rollouts, run_id = held()
    first, second = rollouts.nodes
    rollouts.succeed(second)
    rollouts.pass_time(HOUR_MS)
    part = rollouts.part(first)
    assert (part.state, part.waiting_for) == ("skipped", "")
    assert part.reason == "a lifecycle run of the node waits for a person, and nobody did what it asks for"
    assert rollouts.rollout.state == "succeeded"
    assert rollouts.of(run_id).state == "awaiting_operator", "the run goes on, but nobody waits for it"


def test_LC_16_a_node_that_is_to_go_back_and_waits_for_a_person_says_so() -> None:
    rollouts = Rollouts(2)
    rollouts.create(canary=2)
    first, second = rollouts.nodes
    rollouts.succeed(first)
    run_id = rollouts.start(first, mode="manual_install", scenario="repair_reinstall", target_version=NEW)
    rollouts.give_up(second)
    assert (rollouts.rollout.state, rollouts.rollout.turning_back) == ("paused", 1)
    assert rollouts.part(first).waiting_for == "waiting_for_operator"
    rollouts.cancel(run_id)
    rollouts.pass_time(1_000)
    assert (rollouts.part(first).state, rollouts.part(first).waiting_for) == ("rolling_back", "")
