"""Each guard of rollouts, taken out of the source: a test that exists for it goes red."""

import pytest

from support.mutant import Guard, outcome_without

KERNEL = "hostler.control.kernel"
HTTP = "tests/unit/control/api/test_rollouts.py"
TESTS = "tests/unit/control/kernel"
WAVES, NODES = f"{TESTS}/test_rollouts.py", f"{TESTS}/test_rollout_nodes.py"
FAILURES, ACTIONS = f"{TESTS}/test_rollout_failures.py", f"{TESTS}/test_rollout_actions.py"
PLAN, APPROVAL = f"{TESTS}/test_rollout_plan.py", f"{TESTS}/test_rollout_approval.py"


def guard(module: str, text: str, without: str, test: str):
    return pytest.param(Guard(f"{KERNEL}.{module}", text, without), test, id=test.rpartition("::")[2])


GUARDS = [
    guard(
        "rollouts",
        "    if command.wave != rollout.wave:  # somebody else was faster, or it is an old order that comes again\n",
        "    if False:\n",
        f"{APPROVAL}::test_API_20_another_wave_than_the_one_that_waits_is_not_approved",
    ),
    guard(
        "rollouts",
        "    _refuse_open(draft, (node.node_id for node in planned if not node.skip))\n",
        "",
        f"{WAVES}::test_a_node_is_in_one_open_rollout_at_a_time",
    ),
    guard(
        "rollouts",
        "        _refuse_open(draft, (row.node_id for row in rows if row.state != SKIPPED))\n",
        "        pass\n",
        f"{ACTIONS}::test_a_rollout_cannot_be_reopened_over_another_one",
    ),
    guard(
        "rollouts",
        "    if not suites:\n",
        "    if False:\n",
        f"{WAVES}::test_API_20_what_cannot_be_rolled_out_is_refused_with_a_pointer",
    ),
    guard(
        "rollouts",
        "    if moving or to_turn_back(draft, rollout):\n",
        "    if False:\n",
        f"{ACTIONS}::test_API_20_resume_brings_the_version_again_to_nodes_that_were_turned_back",
    ),
    guard(
        "rollouts",
        "RUNNING if wave <= rollout.approved_wave else AWAITING_APPROVAL",
        "RUNNING",
        f"{ACTIONS}::test_API_20_resume_does_not_pass_a_gate",
    ),
    guard(
        "rollout_rows",
        "(failed and retry_failed)",
        "failed",
        f"{ACTIONS}::test_API_20_resume_leaves_failed_nodes_behind_unless_it_is_asked_to_retry_them",
    ),
    guard(
        "rollout_plan",
        "        if not least <= getattr(settings, name) <= most:\n",
        "        if False:\n",
        f"{PLAN}::test_API_20_a_setting_out_of_its_range_is_refused_with_a_pointer",
    ),
    guard(
        "rollout_flow",
        "    if rollout.failures >= settings.max_failures:\n",
        "    if False:\n",
        f"{FAILURES}::test_LC_16_failures_count_over_the_whole_rollout",
    ),
    guard(
        "rollout_flow",
        "    elif failed and rollout_plan.out_of_reach(0, failed, left, settings.success_percent):\n",
        "    elif False:\n",
        f"{FAILURES}::test_LC_16_a_wave_that_cannot_reach_its_share_any_more_pauses_at_once",
    ),
    guard(
        "rollout_flow",
        "    if rollout.error_code or ",
        "    if ",
        f"{FAILURES}::test_LC_16_nodes_that_took_the_version_are_brought_back_and_those_on_their_way_as_well",
    ),
    guard(
        "rollout_flow",
        "    call_off(draft, after)\n",
        "",
        f"{FAILURES}::test_LC_16_nodes_that_took_the_version_are_brought_back_and_those_on_their_way_as_well",
    ),
    guard(
        "rollout_flow",
        "turning_back=int(settings.auto_rollback and not error_code)",
        "turning_back=1",
        f"{FAILURES}::test_LC_16_without_auto_rollback_nodes_keep_the_version",
    ),
    guard(
        "rollout_flow",
        "    if any(row.state in UNPROVED for row in rows):\n        return False\n",
        "",
        f"{WAVES}::test_LC_15_a_wave_begins_only_when_the_one_before_has_ended",
    ),
    guard(
        "rollout_flow",
        "    if draft.now_ms < rollout.soaking_until_ms or ",
        "    if ",
        f"{WAVES}::test_LC_15_a_wave_is_watched_before_the_next_begins",
    ),
    guard(
        "rollout_flow",
        " or _still_away(draft, rollout, settings, soaking):",
        ":",
        f"{FAILURES}::test_LC_16_a_watched_node_that_is_away_holds_the_next_wave_and_fails_nobody",
    ),
    guard(
        "rollout_flow",
        " or not _proved(draft, rollout)",
        "",
        f"{NODES}::test_nothing_follows_a_canary_that_no_node_stood_until_a_person_says_so",
    ),
    guard(
        "rollout_flow",
        "    if min(later) > rollout.approved_wave:\n",
        "    if False:\n",
        f"{WAVES}::test_LC_15_a_person_is_asked_before_the_waves_that_were_said",
    ),
    guard(
        "rollout_flow",
        "        if row.state != SOAKING:\n            continue\n",
        "        continue\n",
        f"{FAILURES}::test_LC_16_a_node_that_returns_by_itself_while_it_is_watched_is_a_failure_at_once",
    ),
    guard(
        "rollout_runs",
        "elif not waits and free > 0:",
        "elif not waits:",
        f"{WAVES}::test_LC_15_no_more_run_at_one_time_than_was_said",
    ),
    guard(
        "rollout_runs",
        "            waits = rollout_watch.behind(run)\n",
        "            pass\n",
        f"{NODES}::test_a_node_in_another_run_gets_no_second_one",
    ),
    guard(
        "rollout_watch",
        "    if run.state == SUCCEEDED and not missing:\n",
        "    if run.state == SUCCEEDED:\n",
        f"{FAILURES}::test_LC_21_a_run_that_says_it_succeeded_without_all_four_checks_counts_for_nothing",
    ),
    guard(
        "rollout_watch",
        "    if not took and is_the_servers(code):\n",
        "    if False:\n",
        f"{NODES}::test_LC_16_a_server_that_throttles_is_not_a_failure_of_the_version",
    ),
    guard(
        "rollout_watch",
        "    if node.agent_version != target:\n",
        "    if False:\n",
        f"{FAILURES}::test_LC_16_a_node_that_returns_by_itself_while_it_is_watched_is_a_failure_at_once",
    ),
    guard(
        "rollout_watch",
        "    if node.health == DEGRADED or (node.health == QUARANTINED and by_a_chain):\n",
        "    if False:\n",
        f"{FAILURES}::test_LC_16_a_node_that_loses_its_health_while_it_is_watched_goes_back",
    ),
    guard(
        "rollout_watch",
        "    if agent is not None and agent.drift_state == DriftState.CERTIFICATE_ONLY:\n",
        "    if False:\n",
        f"{FAILURES}::test_LC_16_a_node_that_loses_its_renewal_while_it_is_watched_goes_back",
    ),
]


@pytest.mark.parametrize(("guard", "test"), GUARDS)
def test_without_the_guard_its_test_goes_red(guard: Guard, test: str) -> None:
    outcome = outcome_without(guard, test)
    assert outcome.returncode == 1, outcome.stdout[-2000:]
