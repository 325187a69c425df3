"""Each guard of lending, taken out of the source: a test that exists for it goes red."""

import pytest

from support.mutant import Guard, outcome_without

KERNEL = "hostler.control.kernel"
BINDING = "hostler.agent.journal.binding"
TESTS = "tests/unit/control/kernel"
CHAIN, REQUESTS = f"{TESTS}/test_allocations.py", f"{TESTS}/test_allocation_requests.py"
WORK, REPAIRS = f"{TESTS}/test_allocation_work.py", f"{TESTS}/test_allocation_repairs.py"
QUARANTINE = f"{TESTS}/test_quarantine_and_cordons.py"
WALKS = f"{TESTS}/test_allocation_walks.py"
NODE = "tests/unit/agent/journal/test_binding.py"
QUEUE = f"{TESTS}/test_allocation_queue.py"


def guard(module: str, text: str, without: str, test: str):
    return pytest.param(Guard(module, text, without), test, id=test.rpartition("::")[2])


GUARDS = [
    guard(
        f"{KERNEL}.allocation_states",
        "        and node.reclaim == CLEAN\n",
        "",
        f"{WALKS}::test_OD_15_a_node_is_given_only_when_every_axis_says_so",
    ),
    guard(
        f"{KERNEL}.allocation_states",
        "        and node.health == OK\n",
        "",
        f"{QUARANTINE}::test_AL_08_a_person_quarantines_and_clears_with_one_audit_line_each",
    ),
    guard(
        f"{KERNEL}.chain",
        "if link.link == REVOKE and not _quiet(draft, link):",
        "if False:",
        f"{WORK}::test_access_is_not_taken_apart_while_the_tenants_work_still_runs",
    ),
    guard(
        f"{KERNEL}.chain",
        "    if link.link != VERIFY:\n        forced_revoke(",
        "    if False:\n        forced_revoke(",
        f"{CHAIN}::test_OD_17_a_failed_deprovision_is_followed_by_an_access_revoke_of_its_own",
    ),
    guard(
        f"{KERNEL}.chain",
        "    if node.health == QUARANTINED and node.quarantined_by != quarantine.CHAIN:\n        return {}\n",
        "",
        f"{QUARANTINE}::test_AL_08_a_persons_quarantine_outlasts_the_chain_and_the_tenants_retry",
    ),
    guard(
        f"{KERNEL}.targets",
        "if found.allocation_id != command.linked_allocation_id:",
        "if False:",
        f"{WORK}::test_a_leased_node_is_reached_only_through_its_allocation",
    ),
    guard(
        f"{KERNEL}.targets",
        "if command.operation_type in FAMILIES.values():",
        "if False:",
        f"{REPAIRS}::test_AL_06_a_link_cannot_be_asked_for_directly",
    ),
    guard(
        f"{KERNEL}.targets",
        "or (allocation.org_id, allocation.project_id) != (command.org_id, command.project_id)",
        "",
        f"{WORK}::test_S2_another_tenants_allocation_does_not_exist",
    ),
    guard(
        f"{KERNEL}.assign",
        'if node.allocation_id != (operation.linked_allocation_id or ""):',
        "if False:",
        f"{WORK}::test_a_node_that_changed_hands_before_a_task_was_sent_gets_nothing",
    ),
    guard(
        f"{KERNEL}.assign",
        "if allocation is None or allocation.state != ACTIVE:",
        "if False:",
        f"{WORK}::test_nothing_of_the_tenant_starts_once_release_has_begun",
    ),
    guard(
        f"{KERNEL}.assign",
        "or (node.scheduling == DRAINING and of_tenant(operation))",
        "",
        f"{QUARANTINE}::test_EF_07_a_drained_node_finishes_and_starts_nothing_new_until_it_is_let_go",
    ),
    guard(
        f"{KERNEL}.cancel",
        "chained = operation.trigger_source in CHAIN_TRIGGERS",
        "chained = False",
        f"{REPAIRS}::test_AL_06_a_links_operation_is_neither_cancelled_nor_retried_by_hand",
    ),
    guard(
        f"{KERNEL}.allocations",
        "allocation.project_id != project_id or (actor.org_id and actor.org_id != allocation.org_id)",
        "False",
        f"{WORK}::test_S2_another_tenants_allocation_does_not_exist",
    ),
    guard(
        f"{KERNEL}.allocations",
        'if command.nodes and command.actor.role != "platform_admin":',
        "if False:",
        f"{REQUESTS}::test_labels_choose_and_only_an_administrator_names_nodes",
    ),
    guard(
        f"{KERNEL}.quarantine",
        "if node.reclaim == DIRTY:",
        "if False:",
        f"{QUARANTINE}::test_AL_08_a_leased_node_is_cleared_by_its_chain_alone",
    ),
    guard(
        f"{KERNEL}.quarantine",
        "if is_open(draft) or _trips(draft, node):",
        "if False:",
        f"{QUARANTINE}::test_R3_a_check_that_would_quarantine_most_of_the_fleet_trips_the_breaker",
    ),
    guard(
        f"{KERNEL}.cordons",
        "scheduling = scheduling_of(draft.rows_of(CordonRow, draft.view.cordons_of(node.node_id)))",
        "scheduling = command.kind or SCHEDULABLE",
        f"{QUARANTINE}::test_R3_a_cordon_of_somebody_elses_is_preserved",
    ),
    guard(
        BINDING,
        "if present.stage not in _AT[link]:",
        "if False:",
        f"{NODE}::test_AL_06_the_node_refuses_a_link_whose_predecessor_did_not_succeed_here",
    ),
    guard(
        BINDING,
        "    if present.allocation_id != task.allocation_id:",
        "    if False:",
        f"{NODE}::test_OP_09_a_signed_provision_binds_and_only_a_passed_verification_unbinds",
    ),
    guard(
        BINDING,
        "    if present.stage != BOUND:",
        "    if False:",
        f"{NODE}::test_a_link_that_failed_reaches_nothing",
    ),
    guard(
        BINDING,
        "    if task.operation_type in _TYPES:",
        "    if False:",
        f"{NODE}::test_a_tenants_task_of_a_links_type_is_none",
    ),
    guard(
        BINDING,
        "or (task.trigger_source in (PROVISION, RELEASE) and not link)",
        "",
        f"{NODE}::test_a_task_that_only_calls_itself_a_link_is_refused",
    ),
    guard(
        BINDING,
        "if present is None or present.task_id != task_id:",
        "if present is None:",
        f"{NODE}::test_the_success_of_another_task_is_no_step_of_the_chain",
    ),
    guard(
        "hostler.control.kernel.allocation_queue",
        "self.held |= claimed(allocation, pool, self.held, unverified=limits.lend_unverified)",
        "pass",
        f"{QUEUE}::test_AL_11_a_younger_request_gets_only_what_nobody_older_claims",
    ),
    guard(
        "hostler.control.kernel.allocation_queue",
        "if sum(map(_may_serve, fitting)) < allocation.node_count:",
        "if False:",
        f"{QUEUE}::test_AL_11_what_a_lapsed_claim_held_is_given_out",
    ),
    guard(
        "hostler.control.kernel.allocation_states",
        "        and (unverified or bool(node.baseline_of))\n",
        "",
        f"{QUEUE}::test_AL_11_an_unverified_node_is_lent_only_where_the_operator_says_so",
    ),
]


@pytest.mark.parametrize(("taken_out", "test"), GUARDS)
def test_a_guard_that_is_gone_is_missed(taken_out: Guard, test: str) -> None:
    done = outcome_without(taken_out, test)
    assert done.returncode == 1, f"nobody noticed that {taken_out.text!r} is gone:\n{done.stdout[-2000:]}"
