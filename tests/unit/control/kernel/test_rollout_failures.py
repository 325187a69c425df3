"""LC-16, LC-21: what a rollout does about a bad version, in its waves and while they are watched."""

import msgspec

from hostler.control.kernel.allocation_commands import QuarantineNode
from hostler.control.kernel.commands import NodeStatus
from hostler.control.kernel.rollout_watch import of_run
from hostler.pki.agent_report import DriftState
from support.agents import NEW, OLD
from support.control import ADMIN
from support.rollouts import Rollouts, soaking

replace = msgspec.structs.replace
HOUR_MS = 3_600_000


# -- a bad version --------------------------------------------------------------------------------


def test_LC_16_a_bad_version_pauses_at_the_canary_and_reaches_nobody_else() -> None:
    rollouts = Rollouts(5)
    rollouts.create()
    bad = rollouts.give_up()
    rollout = rollouts.rollout
    assert (rollout.state, rollout.error_code, rollout.failed_node_id) == ("paused", "upgrade_rolled_back", bad)
    name = rollouts.node_row(bad).name
    assert rollout.reason.startswith(f"node {name} (service_healthy): ")
    (pause,) = rollouts.pauses()
    assert (pause["failed_check"], pause["error_code"]) == ("service_healthy", "upgrade_rolled_back")
    assert rollouts.states() == {"rolled_back": 1, "pending": 4}
    assert rollouts.open_runs() == []
    rollouts.pass_time(HOUR_MS * 24)
    assert rollouts.open_runs() == []
    assert len(rollouts.pauses()) == 1


def test_LC_16_nodes_that_took_the_version_are_brought_back_and_those_on_their_way_as_well() -> None:
    rollouts = Rollouts(6)
    rollouts.create(canary=1, max_parallel=3)
    first = rollouts.succeed()
    changing, staging, bad = (run.node_id for run in rollouts.open_runs())
    rollouts.change(changing)
    rollouts.give_up(bad)
    assert rollouts.part(staging).state == "pending", "its run had not begun to change it"
    assert {row.node_id for row in rollouts.parts("rolling_back")} == {first}
    rollouts.succeed(changing)
    assert rollouts.part(changing).state == "rolling_back"
    rollouts.play()
    ends = {row.node_id: row.state for row in rollouts.parts() if row.state != "pending"}
    assert ends == {first: "rolled_back", changing: "rolled_back", bad: "rolled_back"}
    assert {rollouts.node_row(node_id).agent_version for node_id in ends} == {OLD}
    assert (rollouts.rollout.state, len(rollouts.pauses())) == ("paused", 1)


def test_LC_16_without_auto_rollback_nodes_keep_the_version() -> None:
    rollouts = Rollouts(3)
    rollouts.create(auto_rollback=False)
    first = rollouts.succeed()
    rollouts.give_up()
    assert (rollouts.rollout.state, rollouts.open_runs()) == ("paused", [])
    assert rollouts.part(first).state == "succeeded"
    assert rollouts.node_row(first).agent_version == NEW


def test_LC_16_a_share_of_failures_that_was_allowed_is_told_and_goes_on() -> None:
    rollouts = Rollouts(11)
    rollouts.create(success_percent=80, max_failures=5)
    rollouts.succeed()
    for _ in range(2):
        rollouts.give_up()
    rollouts.play()
    assert (rollouts.rollout.state, rollouts.rollout.reason) == ("succeeded", "2 failed")
    assert rollouts.states() == {"succeeded": 9, "rolled_back": 2}


def test_LC_16_a_wave_that_cannot_reach_its_share_any_more_pauses_at_once() -> None:
    rollouts = Rollouts(11)
    rollouts.create(success_percent=80, max_failures=100, max_parallel=3, auto_rollback=False)
    rollouts.succeed()
    for _ in range(3):
        rollouts.give_up()
    assert rollouts.rollout.state == "paused"
    assert "80 %" in rollouts.rollout.reason
    assert len(rollouts.parts("pending")) == 7


def test_LC_16_failures_count_over_the_whole_rollout() -> None:
    rollouts = Rollouts({"eu": 3, "us": 3})
    rollouts.create(boundary="region", success_percent=1, max_failures=2)
    rollouts.succeed()
    rollouts.give_up()
    rollouts.succeed()
    assert rollouts.rollout.wave == 2
    rollouts.give_up()
    assert (rollouts.rollout.state, rollouts.rollout.failures) == ("paused", 2)


def test_LC_21_a_version_whose_renewal_is_broken_is_a_failure_with_that_check_and_goes_back() -> None:
    rollouts = Rollouts(2)
    rollouts.create()
    run = rollouts.change()
    node = run.node_id
    rollouts.restart(node, run.run_id)
    rollouts.end(rollouts.of(run.run_id).verify_operation_id)
    rollouts.end(run.operation_id)
    assert rollouts.of(run.run_id).state == "verifying"
    rollouts.pass_time(HOUR_MS)
    row = rollouts.part(node)
    assert (row.state, row.failed_check) == ("rolling_back", "renewal_works")
    rollouts.succeed(node)
    assert (rollouts.part(node).state, rollouts.node_row(node).agent_version) == ("rolled_back", OLD)
    assert (rollouts.rollout.state, rollouts.rollout.error_code) == ("paused", "upgrade_timed_out")


def test_LC_21_a_run_that_says_it_succeeded_without_all_four_checks_counts_for_nothing() -> None:
    rollouts = Rollouts(2)
    rollouts.create()
    run = rollouts.change()
    rollouts.restart(run.node_id, run.run_id)
    rollouts.stand(run.node_id, run.run_id)
    assert rollouts.part(run.node_id).state == "succeeded"
    node = rollouts.node_row(run.node_id)
    ended = rollouts.of(run.run_id)
    assert of_run(ended, node, NEW).state == "soaking"
    for check in ("version_reported", "service_healthy", "renewal_works", "schedulable"):
        without = {name: at for name, at in msgspec.json.decode(ended.checks).items() if name != check}
        verdict = of_run(replace(ended, checks=msgspec.json.encode(without).decode()), node, NEW)
        assert (verdict.state, verdict.check) == ("failed", check)


# -- while it is watched --------------------------------------------------------------------------


def test_LC_16_a_node_that_returns_by_itself_while_it_is_watched_is_a_failure_at_once() -> None:
    rollouts, node = soaking()
    rollouts.gone(node)
    assert rollouts.rollout.state == "running", "being away says nothing"
    rollouts.hello(node, OLD, instance_id="returned")
    row = rollouts.part(node)
    assert (row.state, row.error_code, row.failed_check) == ("rolled_back", "upgrade_rolled_back", "version_reported")
    assert rollouts.rollout.state == "paused"


def test_LC_16_a_node_that_loses_its_health_while_it_is_watched_goes_back() -> None:
    rollouts, node = soaking()
    sick = NodeStatus(node_id=node, keyset_version=1, catalog_version=1, storage="read_only", hold="", drift="")
    rollouts.run(sick)
    row = rollouts.part(node)
    assert (row.state, row.error_code, row.failed_check) == ("rolling_back", "health_red", "service_healthy")
    assert rollouts.rollout.state == "paused"
    rollouts.run(replace(sick, storage="ok"))
    rollouts.play()
    assert (rollouts.part(node).state, rollouts.node_row(node).agent_version) == ("rolled_back", OLD)


def test_LC_16_a_node_that_loses_its_renewal_while_it_is_watched_goes_back() -> None:
    rollouts, node = soaking()
    rollouts.report(node, NEW, state=DriftState.CERTIFICATE_ONLY)
    assert (rollouts.part(node).state, rollouts.part(node).failed_check) == ("rolling_back", "renewal_works")


def test_a_person_who_quarantines_a_watched_node_does_not_blame_the_version() -> None:
    rollouts, node = soaking()
    rollouts.run(QuarantineNode(actor=ADMIN, node_id=node, reason="a fan"))
    rollouts.pass_time(600_000)
    assert rollouts.part(node).state == "succeeded"


def test_LC_16_a_watched_node_that_is_away_holds_the_next_wave_and_fails_nobody() -> None:
    rollouts, node = soaking()
    rollouts.gone(node)
    rollouts.pass_time(600_000)
    assert (rollouts.rollout.state, rollouts.open_runs()) == ("running", [])
    rollouts.hello(node, NEW, instance_id="back")
    rollouts.pass_time(1_000)
    assert rollouts.part(node).state == "succeeded"
    assert len(rollouts.open_runs()) == 1


def test_a_watched_node_that_never_comes_back_lets_nothing_follow_and_turns_nobody_back() -> None:
    rollouts, node = soaking()
    rollouts.gone(node)
    rollouts.pass_time(600_000)
    rollouts.pass_time(HOUR_MS)
    assert rollouts.part(node).state == "skipped"
    assert (rollouts.rollout.state, rollouts.rollout.turning_back) == ("paused", 0)
