"""LC-15, LC-16: nodes that a rollout cannot change now: it waits for them, or skips them, and blames nobody."""

from hostler.control.kernel.agent_commands import CancelAgentRun
from hostler.control.kernel.commands import RevokeNode, TargetSelector
from hostler.wire.report import TaskStatus
from support.agents import OLD
from support.control import ADMIN, submit
from support.rollouts import Rollouts

HOUR_MS = 3_600_000


def test_LC_16_a_node_that_is_away_is_waited_for_and_then_skipped() -> None:
    rollouts = Rollouts(3)
    away, late = rollouts.nodes[1:]
    for node_id in (away, late):
        rollouts.gone(node_id)
    rollouts.create()
    rollouts.succeed()
    assert {row.waiting_for for row in rollouts.parts("pending")} == {"node_away"}
    rollouts.hello(late, instance_id="later")
    rollouts.pass_time(5_000)
    assert rollouts.succeed() == late
    rollouts.pass_time(HOUR_MS)
    assert (rollouts.part(away).state, rollouts.part(away).reason) == ("skipped", "the node was away for too long")
    assert (rollouts.rollout.state, rollouts.rollout.failures) == ("succeeded", 0)
    assert rollouts.rollout.reason == "1 skipped"


def test_a_node_in_another_run_gets_no_second_one() -> None:
    rollouts = Rollouts(2)
    busy = rollouts.nodes[1]
    other = rollouts.start(busy, scenario="repair_reinstall", target_version=OLD)
    rollouts.create()
    rollouts.succeed(rollouts.nodes[0])
    assert rollouts.part(busy).waiting_for == "run_in_progress"
    assert [run.run_id for run in rollouts.open_runs()] == [other]
    rollouts.cancel(other)
    rollouts.pass_time(1_000)
    assert rollouts.succeed() == busy
    assert rollouts.rollout.state == "succeeded"


def test_LC_16_a_server_that_throttles_is_not_a_failure_of_the_version() -> None:
    rollouts = Rollouts(1)
    rollouts.create()
    rollouts.fail(code="rate_limited")
    row = rollouts.part(rollouts.nodes[0])
    assert (row.state, row.waiting_for, rollouts.rollout.failures) == ("pending", "server_busy", 0)
    assert rollouts.open_runs() == []
    rollouts.pass_time(60_000)
    rollouts.succeed()
    assert (rollouts.rollout.state, rollouts.part(rollouts.nodes[0]).tries) == ("succeeded", 2)


def test_LC_16_a_server_that_is_away_for_too_long_skips_the_node_and_pauses_before_the_next_wave() -> None:
    rollouts = Rollouts(2)
    rollouts.create()
    while rollouts.part(rollouts.nodes[0]).state != "skipped":
        if rollouts.open_runs():
            rollouts.fail(code="source_unreachable")
        rollouts.pass_time(60_000)
    rollout = rollouts.rollout
    assert (rollout.state, rollout.error_code, rollout.failures) == ("paused", "upgrade_timed_out", 0)
    assert not rollout.turning_back
    assert rollouts.open_runs() == []


def test_nothing_follows_a_canary_that_no_node_stood_until_a_person_says_so() -> None:
    rollouts = Rollouts(2)
    rollouts.gone(rollouts.nodes[0])
    rollouts.gone(rollouts.nodes[1])
    rollouts.create()
    rollouts.pass_time(HOUR_MS)
    assert (rollouts.rollout.state, rollouts.states()) == ("paused", {"skipped": 1, "pending": 1})
    rollouts.hello(rollouts.nodes[1], instance_id="later")
    assert rollouts.move("resume") == "running"
    rollouts.play()
    assert rollouts.rollout.state == "succeeded"


def test_a_busy_node_that_was_not_idle_in_time_is_skipped_and_no_failure() -> None:
    rollouts = Rollouts(1)
    (node,) = rollouts.nodes
    made = rollouts.run(submit(target_selector=TargetSelector(nodes=(node,))))
    (task,) = rollouts.bench.tasks(made.operation_id)
    rollouts.tell(task, TaskStatus.RUNNING)
    rollouts.create(safety_policy="idle")
    rollouts.change()
    rollouts.pass_time(HOUR_MS)
    assert rollouts.part(node).state == "skipped"
    assert "node_busy" in rollouts.part(node).reason
    assert rollouts.rollout.failures == 0


def test_a_run_that_a_person_ended_skips_its_node() -> None:
    rollouts = Rollouts(1)
    rollouts.create()
    (run,) = rollouts.open_runs()
    rollouts.run(CancelAgentRun(actor=ADMIN, run_id=run.run_id, reason="not this one", correlation_id="c"))
    row = rollouts.part(rollouts.nodes[0])
    assert (row.state, row.reason) == ("skipped", "its run was ended by hand: not this one")
    assert rollouts.rollout.failures == 0


def test_a_node_revoked_in_the_midst_is_skipped() -> None:
    rollouts = Rollouts(2)
    rollouts.create(canary=2)
    rollouts.run(RevokeNode(actor=ADMIN, node_id=rollouts.nodes[1]))
    rollouts.pass_time(1_000)
    rollouts.succeed(rollouts.nodes[0])
    assert rollouts.part(rollouts.nodes[1]).state == "skipped"
    assert rollouts.rollout.state == "succeeded"
