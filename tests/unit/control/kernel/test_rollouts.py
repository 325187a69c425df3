"""LC-15, LC-16, LC-21, API-20: what a rollout does by itself and what people do to it, against real lifecycle runs."""

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.control.kernel.agent_commands import AdvanceAgents, CancelAgentRun
from hostler.control.kernel.allocation_commands import QuarantineNode
from hostler.control.kernel.commands import NodeStatus, RevokeNode, TargetSelector
from hostler.control.kernel.rollout_rows import afresh
from hostler.control.kernel.rollout_watch import of_run
from hostler.pki.agent_report import DriftState
from hostler.wire.report import TaskStatus
from support.agents import NEW, OLD
from support.control import ADMIN, submit
from support.rollouts import Rollouts, healthy

replace = msgspec.structs.replace
HOUR_MS = 3_600_000


def refused(rollouts: Rollouts, action: str) -> str:
    return rollouts.bench.refusal(rollouts.order(action)).code


# -- how one is made ------------------------------------------------------------------------------


def test_API_20_a_dry_run_shows_the_waves_and_makes_nothing() -> None:
    rollouts = Rollouts({"eu": 2, "us": 2})
    before = len(rollouts.bench.events)
    plan = rollouts.create(dry_run=True, boundary="region")
    assert [(wave.boundary, len(wave.nodes)) for wave in plan.waves] == [("canary", 1), ("eu", 1), ("us", 2)]
    assert plan.rollout_id == ""
    assert len(rollouts.bench.events) == before
    assert rollouts.open_runs() == []


def test_a_rollout_without_names_is_for_every_active_node_with_another_version() -> None:
    rollouts = Rollouts(2)
    there, revoked = rollouts.node(NEW), rollouts.node()
    rollouts.run(RevokeNode(actor=ADMIN, node_id=revoked))
    plan = rollouts.create()
    assert [node.node_id for node in plan.nodes] == rollouts.nodes
    assert there not in {row.node_id for row in rollouts.parts()}


def test_nodes_on_the_version_and_revoked_ones_are_skipped_with_the_reason() -> None:
    rollouts = Rollouts(1)
    there, revoked = rollouts.node(NEW), rollouts.node()
    rollouts.run(RevokeNode(actor=ADMIN, node_id=revoked))
    rollouts.create(nodes=(rollouts.nodes[0], there, revoked))
    said = {row.node_id: (row.state, row.reason, row.error_code) for row in rollouts.parts("skipped")}
    assert said == {
        there: ("skipped", "it runs that version already", ""),
        revoked: ("skipped", "its identity is revoked", "revoked"),
    }


def test_labels_choose_among_those_named() -> None:
    rollouts = Rollouts({"eu": 2, "us": 2})
    plan = rollouts.create(nodes=rollouts.nodes[:3], labels={"region": "eu"}, dry_run=True)
    assert [node.node_id for node in plan.nodes] == rollouts.nodes[:2]
    assert len(rollouts.create(labels={"region": "us"}, dry_run=True).nodes) == 2


@pytest.mark.parametrize(
    ("asked", "code", "pointer"),
    [
        ({"version": "9.9.9"}, "release_missing", "/version"),
        ({"nodes": ("nobody",)}, "unknown_target", "/nodes"),
        ({"labels": {"region": "mars"}}, "empty_target", "/nodes"),
        ({"version": OLD}, "empty_target", "/nodes"),
        ({"canary": 0}, "invalid_request", "/settings/canary"),
    ],
)
def test_API_20_what_cannot_be_rolled_out_is_refused_with_a_pointer(asked, code, pointer) -> None:
    with pytest.raises(HostlerError) as refusal:
        Rollouts(2).create(**asked)
    assert (refusal.value.code, refusal.value.pointer) == (code, pointer)


def test_a_node_is_in_one_open_rollout_at_a_time() -> None:
    rollouts = Rollouts(2)
    rollouts.create(nodes=rollouts.nodes[:1])
    with pytest.raises(HostlerError) as refusal:
        rollouts.create()
    assert refusal.value.code == "rollout_open"
    rollouts.play()
    rollouts.create()
    assert rollouts.play() == [rollouts.nodes[1]]


def test_a_node_without_a_package_for_its_debian_release_is_skipped() -> None:
    rollouts = Rollouts(2)
    rollouts.report(rollouts.nodes[0], suite="trixie")
    rollouts.create()
    assert (rollouts.part(rollouts.nodes[0]).state, rollouts.part(rollouts.nodes[0]).error_code) == (
        "skipped",
        "release_missing",
    )


# -- waves ----------------------------------------------------------------------------------------


def test_LC_15_a_wave_begins_only_when_the_one_before_has_ended() -> None:
    rollouts = Rollouts({"eu": 3, "us": 2})
    rollouts.create(boundary="region", canary=1)
    seen = []
    while rollouts.open_runs():
        waves = {rollouts.part(run.node_id).wave for run in rollouts.open_runs()}
        assert len(waves) == 1
        seen.append(waves.pop())
        rollouts.succeed()
    assert seen == [0, 1, 1, 2, 2]
    assert (rollouts.rollout.state, rollouts.states()) == ("succeeded", {"succeeded": 5})
    assert [said["boundary"] for said in rollouts.told("rollout.wave_started")] == ["canary", "eu", "us"]
    assert len(rollouts.told("rollout.wave_finished")) == 3
    (over,) = rollouts.told("rollout.finished")
    assert (over["state"], over["succeeded"]) == ("succeeded", 5)


def test_LC_15_no_more_run_at_one_time_than_was_said() -> None:
    rollouts = Rollouts(7)
    rollouts.create(max_parallel=2, canary=1)
    assert len(rollouts.open_runs()) == 1
    rollouts.succeed()
    while rollouts.open_runs():
        assert len(rollouts.open_runs()) == min(2, len(rollouts.parts("pending", "running")))
        rollouts.succeed()
    assert rollouts.states() == {"succeeded": 7}


def test_idle_nodes_of_a_wave_go_first_so_that_busy_ones_hold_nobody_up() -> None:
    rollouts = Rollouts(4)
    rollouts.create(max_parallel=1, canary=1)
    rollouts.run(submit(target_selector=TargetSelector(nodes=(rollouts.nodes[1],))))
    assert [rollouts.succeed() for _ in range(4)] == [rollouts.nodes[number] for number in (0, 2, 3, 1)]


def test_LC_15_a_wave_is_watched_before_the_next_begins() -> None:
    rollouts = Rollouts(2)
    rollouts.create(soak_seconds=60)
    rollouts.succeed()
    assert (rollouts.states(), rollouts.open_runs()) == ({"soaking": 1, "pending": 1}, [])
    rollouts.pass_time(59_000)
    assert rollouts.open_runs() == []
    rollouts.pass_time(1_000)
    assert rollouts.states() == {"succeeded": 1, "running": 1}


@pytest.mark.parametrize(("approval", "asked"), [("none", 0), ("after_canary", 1), ("each_wave", 2)])
def test_LC_15_a_person_is_asked_before_the_waves_that_were_said(approval: str, asked: int) -> None:
    rollouts = Rollouts({"eu": 2, "us": 1})
    rollouts.create(boundary="region", approval=approval)
    times = 0
    rollouts.play()
    while rollouts.rollout.state == "awaiting_approval":
        rollouts.pass_time(HOUR_MS * 2)
        assert rollouts.open_runs() == []
        assert rollouts.move("approve") == "running"
        times += 1
        rollouts.play()
    assert (times, rollouts.rollout.state) == (asked, "succeeded")
    assert refused(rollouts, "approve") == "rollout_over"


# -- nodes that cannot go now ----------------------------------------------------------------------


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


def soaking(nodes: int = 2, **settings: object) -> tuple[Rollouts, str]:
    rollouts = Rollouts(nodes)
    rollouts.create(soak_seconds=600, **settings)
    return rollouts, rollouts.succeed()


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


# -- what people do -------------------------------------------------------------------------------


def test_API_20_a_pause_lets_what_changes_end_and_begins_nothing() -> None:
    rollouts = Rollouts(4)
    rollouts.create(canary=2)
    changing, waiting = (run.node_id for run in rollouts.open_runs())
    rollouts.change(changing)
    assert rollouts.move("pause", reason="lunch") == "paused"
    assert rollouts.rollout.reason == "lunch"
    assert (rollouts.part(changing).state, rollouts.part(waiting).state) == ("running", "pending")
    rollouts.succeed(changing)
    assert rollouts.open_runs() == []
    assert rollouts.move("resume") == "running"
    rollouts.play()
    assert (rollouts.rollout.state, rollouts.states()) == ("succeeded", {"succeeded": 4})


def test_LC_16_a_failure_under_a_persons_pause_turns_back_all_the_same() -> None:
    rollouts = Rollouts(4)
    rollouts.create(canary=2)
    stands, fails = (run.node_id for run in rollouts.open_runs())
    rollouts.change(stands)
    rollouts.change(fails)
    rollouts.move("pause")
    rollouts.give_up(fails)
    assert rollouts.rollout.error_code == "upgrade_rolled_back"
    rollouts.play()
    assert rollouts.states() == {"rolled_back": 2, "pending": 2}


def test_API_20_resume_leaves_failed_nodes_behind_unless_it_is_asked_to_retry_them() -> None:
    rollouts = Rollouts(3)
    rollouts.create()
    bad = rollouts.give_up()
    assert rollouts.move("resume") == "running"
    rollouts.play()
    assert rollouts.part(bad).state == "rolled_back"
    assert (rollouts.rollout.state, rollouts.rollout.reason) == ("succeeded", "1 failed")
    assert len(rollouts.pauses()) == 1


def test_API_20_resume_with_retry_tries_failed_nodes_once_more_in_their_own_wave() -> None:
    rollouts = Rollouts(3)
    rollouts.create()
    bad = rollouts.give_up()
    assert rollouts.move("resume", retry_failed=True) == "running"
    assert [run.node_id for run in rollouts.open_runs()] == [bad]
    rollouts.give_up()
    assert (rollouts.rollout.state, len(rollouts.pauses())) == ("paused", 2)
    rollouts.move("resume", retry_failed=True)
    rollouts.play()
    assert (rollouts.rollout.state, rollouts.part(bad).tries) == ("succeeded", 3)


def test_API_20_resume_brings_the_version_again_to_nodes_that_were_turned_back() -> None:
    rollouts = Rollouts(3)
    rollouts.create(canary=1)
    first = rollouts.succeed()
    bad = rollouts.give_up()
    assert refused(rollouts, "resume") == "rollout_over", "it is on its way back"
    rollouts.play()
    rollouts.move("resume")
    assert rollouts.rollout.wave == 0
    assert [run.node_id for run in rollouts.open_runs()] == [first]
    rollouts.play()
    assert rollouts.node_row(first).agent_version == NEW
    assert (rollouts.rollout.state, rollouts.part(bad).state) == ("succeeded", "rolled_back")


def test_API_20_resume_does_not_pass_a_gate() -> None:
    rollouts = Rollouts({"eu": 2, "us": 1})
    rollouts.create(boundary="region", approval="each_wave")
    rollouts.play()
    rollouts.move("pause")
    assert rollouts.move("resume") == "awaiting_approval"
    assert rollouts.open_runs() == []


def test_API_20_abort_skips_what_has_not_begun_and_waits_for_what_has() -> None:
    rollouts = Rollouts(4)
    rollouts.create(canary=2)
    changing, waiting = (run.node_id for run in rollouts.open_runs())
    rollouts.change(changing)
    assert rollouts.move("abort", reason="wrong version") == "aborted"
    assert rollouts.rollout.finished_at_ms == 0
    assert rollouts.part(waiting).reason == "the rollout was aborted before its turn"
    rollouts.succeed(changing)
    assert rollouts.rollout.finished_at_ms
    assert rollouts.states() == {"succeeded": 1, "skipped": 3}
    assert rollouts.node_row(changing).agent_version == NEW
    for action in ("pause", "resume", "approve", "abort"):
        assert refused(rollouts, action) == "rollout_over"
    healthy(rollouts)


def test_API_20_rollback_brings_back_everybody_also_of_one_that_is_over() -> None:
    rollouts = Rollouts(3)
    rollouts.create()
    rollouts.play()
    assert rollouts.rollout.state == "succeeded"
    assert rollouts.move("rollback", reason="it leaks") == "rolling_back"
    rollouts.play()
    assert (rollouts.rollout.state, rollouts.rollout.reason) == ("rolled_back", "it leaks")
    assert {rollouts.node_row(node_id).agent_version for node_id in rollouts.nodes} == {OLD}
    assert rollouts.states() == {"rolled_back": 3}
    healthy(rollouts)


def test_API_20_rollback_in_the_midst_starts_nothing_more() -> None:
    rollouts = Rollouts(5)
    rollouts.create(canary=1, max_parallel=2)
    rollouts.succeed()
    changing = rollouts.open_runs()[0].node_id
    rollouts.change(changing)
    rollouts.move("rollback")
    rollouts.play()
    assert (rollouts.rollout.state, rollouts.states()) == ("rolled_back", {"rolled_back": 2, "skipped": 3})


def test_a_rollout_cannot_be_reopened_over_another_one() -> None:
    rollouts = Rollouts(2)
    rollouts.create()
    rollouts.play()
    first = rollouts.rollout_id
    rollouts.move("rollback")
    rollouts.play()
    rollouts.create()
    rollouts.rollout_id = first
    rollouts.bench.view.put(replace(rollouts.rollout, state="succeeded"))
    for row in rollouts.parts():
        rollouts.bench.view.put(replace(row, state="succeeded"))
    assert refused(rollouts, "rollback") == "rollout_open"


def test_LC_16_a_node_that_cannot_be_brought_back_is_told_and_the_rest_is() -> None:
    rollouts = Rollouts(2)
    rollouts.create(canary=2)
    rollouts.play()
    rollouts.move("rollback")
    stuck = rollouts.fail(code="upgrade_not_staged")
    rollouts.play()
    row = rollouts.part(stuck)
    assert (row.state, row.error_code) == ("failed", "upgrade_not_staged")
    assert row.reason.startswith(f"could not be brought back to {OLD}")
    assert rollouts.rollout.state == "failed"
    assert rollouts.states() == {"failed": 1, "rolled_back": 1}


def test_API_20_a_person_who_turns_back_once_more_tries_those_again_that_stayed() -> None:
    rollouts = Rollouts(1)
    rollouts.create()
    rollouts.play()
    rollouts.move("rollback")
    stuck = rollouts.fail(code="upgrade_not_staged")
    assert rollouts.rollout.state == "failed"
    assert rollouts.move("rollback") == "rolling_back"
    rollouts.play()
    assert (rollouts.rollout.state, rollouts.node_row(stuck).agent_version) == ("rolled_back", OLD)


def test_API_20_rollback_reaches_a_node_that_took_the_version_and_went_away() -> None:
    rollouts, node = soaking()
    rollouts.gone(node)
    rollouts.pass_time(600_000)
    rollouts.pass_time(HOUR_MS)
    assert rollouts.part(node).state == "skipped"
    rollouts.hello(node, NEW, instance_id="back at last")
    rollouts.move("rollback")
    rollouts.play()
    assert (rollouts.part(node).state, rollouts.node_row(node).agent_version) == ("rolled_back", OLD)


def test_a_rollback_asks_for_no_package_and_for_the_version_before() -> None:
    rollouts = Rollouts(1)
    rollouts.create()
    rollouts.play()
    rollouts.move("rollback")
    (run,) = rollouts.open_runs()
    operation = rollouts.bench.operation(run.operation_id)
    assert (operation.operation_type, run.stage_operation_id) == ("agent.upgrade.rollback", "")
    assert msgspec.json.decode(operation.inputs)["to_version"] == OLD


def test_LC_16_a_node_without_the_version_before_needs_authority_to_go_down_and_is_told_of_it() -> None:
    rollouts = Rollouts(1)
    rollouts.create()
    (node,) = [rollouts.succeed()]
    rollouts.report(node, NEW, slots=())
    rollouts.move("rollback")
    row = rollouts.part(node)
    assert (row.state, row.error_code) == ("failed", "downgrade_denied")
    assert row.reason.startswith(f"could not be brought back to {OLD}: ")
    assert (rollouts.rollout.state, rollouts.node_row(node).agent_version) == ("failed", NEW)


def test_moves_are_lines_of_the_audit_with_what_changed() -> None:
    rollouts = Rollouts(2)
    rollouts.create()
    rollouts.move("pause", reason="lunch")
    (line,) = [event for event in rollouts.bench.events if event.action == "rollout.pause"]
    body = msgspec.json.decode(line.body)
    assert (line.actor, line.resource_name) == (ADMIN.name, f"rollouts/{rollouts.rollout_id}")
    assert (body["before"]["state"], body["after"]["state"]) == ("running", "paused")
    rollouts.move("resume")
    rollouts.give_up()
    (machine,) = [e for e in rollouts.bench.events if e.action == "rollout.pause" and e.actor_kind == "system"]
    assert msgspec.json.decode(machine.body)["after"]["error_code"] == "upgrade_rolled_back"


def test_a_move_of_nothing_or_of_no_sort_is_refused() -> None:
    rollouts = Rollouts(1)
    rollouts.create()
    assert refused(rollouts, "dance") == "invalid_request"
    rollouts.rollout_id = "rol_none"
    assert refused(rollouts, "pause") == "not_found"


def test_every_row_ends_with_a_state_a_reason_and_a_time() -> None:
    rollouts = Rollouts(6)
    rollouts.create(success_percent=50, max_failures=3)
    rollouts.succeed()
    rollouts.give_up()
    rollouts.play()
    healthy(rollouts)
    assert all(row.finished_at_ms for row in rollouts.parts())


def test_afresh_forgets_everything_but_the_tries() -> None:
    rollouts = Rollouts(1)
    rollouts.create()
    rollouts.give_up()
    (row,) = rollouts.parts()
    fresh = replace(row, state="pending", tries=0)
    names = [name for name in fresh.__struct_fields__ if getattr(afresh(row), name) != getattr(row, name)]
    assert set(names) >= {"state", "run_id", "error_code", "reason", "finished_at_ms", "started_at_ms"}
    assert (afresh(row).tries, afresh(row).from_version) == (1, OLD)


def test_a_finished_rollout_is_not_looked_at_again() -> None:
    rollouts = Rollouts(1)
    rollouts.create()
    rollouts.play()
    before = len(rollouts.bench.events)
    rollouts.pass_time(HOUR_MS)
    rollouts.hello(rollouts.nodes[0], OLD, instance_id="much later")
    assert not [event for event in rollouts.bench.events[before:] if event.type.startswith("rollout")]


def test_waiting_costs_nothing_but_the_look() -> None:
    """A tick in which nothing moves writes no row and no event."""
    rollouts = Rollouts(3)
    rollouts.create(soak_seconds=600)
    rollouts.succeed()
    rollouts.pass_time(1_000)
    decision = rollouts.bench.decide(AdvanceAgents())
    assert (decision.inserts, decision.updates, decision.events) == ({}, {}, [])
