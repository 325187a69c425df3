"""Every guard around probing and recovering nodes is taken out once, and its test must go red."""

import pytest

from support.mutant import Guard, outcome_without

KERNEL = "hostler.control.kernel"
RECOVER, ANSWER, PROBE = f"{KERNEL}.node_recover", f"{KERNEL}.task_probe", f"{KERNEL}.node_probe"
LAUNCHES = f"{KERNEL}.launches"
LAUNCH_TESTS = "tests/unit/control/kernel/test_launches.py"
TRUTH, KIND = "hostler.agent.journal.truth", "hostler.agent.steps.task_probe"
KERNEL_TESTS = "tests/unit/control/kernel/test_node_recovery.py"
AGENT_TESTS = "tests/unit/agent/steps/test_task_probe.py"

# module, text that stands once, what is left without it, the test that must notice
GUARDS = {
    "a tenant learns of its own tasks alone": (
        TRUTH, "if row is None or not (asker.sees_all or _is_of(row[-1], asker)):", "if row is None:",
        AGENT_TESTS, "test_S2_a_tenant_learns_of_its_own_tasks_alone",
    ),
    "no container of another is told to a tenant": (
        KIND, "if context.workloads is None or not may_know:", "if context.workloads is None:",
        AGENT_TESTS, "test_S2_no_container_of_another_is_told_to_a_tenant",
    ),
    "a runtime that hangs does not hold the probe": (
        KIND, "async with asyncio.timeout(within):", "async with asyncio.timeout(within + 5):",
        AGENT_TESTS, "test_LC_17_the_runtime_is_asked_within_a_bound",
    ),
    "no tenant's probe ends the task of another": (
        ANSWER, "    if not _may_know(probe, operation):", "    if False:",
        KERNEL_TESTS, "test_S2_no_tenants_probe_ends_the_task_of_another",
    ),
    "only the node's own tasks are moved by its answer": (
        ANSWER, "task is None or task.node_id != node_id or", "task is None or",
        KERNEL_TESTS, "test_an_answer_about_another_node_s_task_moves_nothing",
    ),
    "what has ended is not revived": (
        ANSWER, "if task.state in FINAL or not 0 < task.sequence", "if not 0 < task.sequence",
        KERNEL_TESTS, "test_LC_18_what_has_ended_stays_as_it_ended_whatever_a_probe_says",
    ),
    "a person's quarantine is not lifted by recovery": (
        RECOVER, "elif node.quarantined_by == quarantine.PERSON:", "elif False:",
        KERNEL_TESTS, "test_LC_20_a_node_that_a_failed_probe_locked_is_probed_and_a_person_s_quarantine_is_not_touched",
    ),
    "a rollback is not ended by recovery": (
        RECOVER, "if node.hold == CLONED:", "if node.hold:",
        KERNEL_TESTS, "test_P1_a_rollback_is_ended_by_the_root_alone",
    ),
    "recovery asks about a bounded number of tasks": (
        RECOVER, "for task in unclear[:MOST_PROBES]:", "for task in unclear:",
        KERNEL_TESTS, "test_recovery_asks_about_a_bounded_number_of_tasks",
    ),
    "a first baseline ends no quarantine": (
        PROBE, "if operation.operation_type == _type(draft.settings.allocations.baseline_profile):", "if False:",
        KERNEL_TESTS, "test_AL_11_the_first_probe_of_a_new_node_takes_its_baseline_and_clears_no_quarantine",
    ),
    "a launch is asked about once for each age": (
        LAUNCHES, "        if known or task.state != ASSIGNED or", "        if task.state != ASSIGNED or",
        LAUNCH_TESTS, "test_LC_17_a_launch_that_stalls_is_asked_about_by_itself_and_promoted",
    ),
    "an old launch is not asked about": (
        LAUNCHES, "draft.now_ms - limits.ask_after_ms[0], draft.now_ms - limits.recent_ms",
        "draft.now_ms - limits.ask_after_ms[0], 0",
        LAUNCH_TESTS, "test_LC_18_what_was_signed_long_ago_is_not_asked_about_at_all",
    ),
    "a probe is not probed": (
        LAUNCHES, " or operation.operation_type == task_probe.TYPE:", ":",
        LAUNCH_TESTS, "test_a_probe_that_stalls_is_not_probed",
    ),
    "an old failure stays one": (
        LAUNCHES, "elif not unclear or age_ms > recent_ms:", "elif not unclear:",
        LAUNCH_TESTS, "test_LC_18_an_old_failure_and_one_that_is_clear_stay_failures",
    ),
    "a clear failure stays one": (
        LAUNCHES, "unclear = operation.error_code in UNCLEAR_ENDS", "unclear = True",
        LAUNCH_TESTS, "test_LC_18_an_old_failure_and_one_that_is_clear_stay_failures",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_of_recovery_a_test_fails(name: str) -> None:
    module, text, without, file, test = GUARDS[name]
    done = outcome_without(Guard(module, text, without), f"{file}::{test}")
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
