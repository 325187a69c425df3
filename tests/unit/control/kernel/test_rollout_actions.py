"""API-20: what people do to a rollout: pause, resume, abort, turn back."""

import msgspec

from support.agents import NEW, OLD
from support.control import ADMIN
from support.rollouts import Rollouts, healthy, soaking

replace = msgspec.structs.replace
HOUR_MS = 3_600_000


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
    assert rollouts.refused("resume") == "rollout_over", "it is on its way back"
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
        assert rollouts.refused(action) == "rollout_over"
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
    assert rollouts.refused("rollback") == "rollout_open"


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
    assert rollouts.refused("dance") == "invalid_request"
    rollouts.rollout_id = "rol_none"
    assert rollouts.refused("pause") == "not_found"
