"""Each guard of the control plane's core, taken out of the source: a test that exists for it goes red."""

import pytest

from support.mutant import Guard, outcome_without

KERNEL = "hostler.control.kernel"
STORE = "hostler.control.store"
UNIT = "tests/unit/control"


def guard(module: str, text: str, without: str, test: str):
    name = test.rpartition("::")[2]
    return pytest.param(Guard(module, text, without), f"{UNIT}/{test}", id=name)


GUARDS = [
    guard(
        f"{KERNEL}.submit",
        "    refuse_secrets(command.inputs)\n",
        "",
        "kernel/test_submit.py::test_OP_19_inputs_that_look_secret_are_refused_whatever_the_schema_says",
    ),
    guard(
        f"{KERNEL}.submit",
        "    check_inputs(definition.inputs, inputs)\n",
        "",
        "kernel/test_submit.py::test_OP_02_bad_input_is_refused_with_its_pointer_before_anything_is_stored",
    ),
    guard(
        f"{KERNEL}.submit",
        "if found.request_digest != digest:",
        "if False:",
        "kernel/test_submit.py::test_RT_01_the_same_key_with_another_body_is_a_conflict",
    ),
    guard(
        f"{KERNEL}.permitted",
        "if not allows_source(",
        "if False and allows_source(",
        "kernel/test_submit.py::test_OP_04_an_artifact_outside_the_definitions_prefixes_is_refused",
    ),
    guard(
        f"{KERNEL}.submit",
        'if row.state == "retired":',
        "if False:",
        "kernel/test_submit.py::test_OP_18_deprecated_still_runs_and_says_so_and_retired_refuses",
    ),
    guard(
        f"{KERNEL}.targets",
        "if (found.org_id, found.project_id) != (command.org_id, command.project_id):",
        "if False:",
        "kernel/test_submit.py::test_OP_09_a_foreign_node_is_not_owned_and_leaves_no_rows",
    ),
    guard(
        f"{KERNEL}.assign",
        "if (node.org_id, node.project_id) != (operation.org_id, operation.project_id):",
        "if False:",
        "kernel/test_submit.py::test_OP_09_a_node_that_left_the_project_before_dispatch_gets_nothing",
    ),
    guard(
        f"{KERNEL}.fold",
        "if report.outbox_seq <= seen:",
        "if False:",
        "kernel/test_fold.py::test_K2_the_same_rows_sent_again_are_folded_once",
    ),
    guard(
        f"{KERNEL}.fold",
        "if task.attempt_uid != report.attempt_uid or task.state in FINAL:\n        _late(",
        "if task.state in FINAL:\n        _late(",
        "kernel/test_fold.py::test_RT_08_a_late_result_of_an_old_attempt_is_history_and_changes_nothing",
    ),
    guard(
        f"{KERNEL}.fold",
        "if task is not None and _ran_on(draft, task, node_id, body.attempt_uid):",
        "if task is not None:",
        "kernel/test_fold.py::test_I7_a_node_cannot_report_for_another_nodes_task",
    ),
    guard(
        f"{KERNEL}.fold",
        "digest = sha256_hex(report.receipt)",
        "digest = report.receipt_digest",
        "kernel/test_fold.py::test_a_receipt_is_filed_under_its_own_digest_not_the_claimed_one",
    ),
    guard(
        f"{KERNEL}.nodes",
        "if not same_digest(token.used_by_key, command.thumbprint):",
        "if False:",
        "kernel/test_nodes.py::test_I5_a_second_key_loses_and_the_loss_is_an_alarm",
    ),
    guard(
        f"{KERNEL}.nodes",
        "if token is None or not same_digest(token.token_sha256, command.token_sha256):",
        "if token is None:",
        "kernel/test_nodes.py::test_PK_02_an_unknown_a_wrong_and_an_expired_token_enrol_nobody",
    ),
    guard(
        f"{KERNEL}.sessions",
        "reached = min(high_sequence, cursor.sequence)",
        "reached = high_sequence",
        "kernel/test_nodes.py::test_P1_a_node_ahead_of_us_is_an_alarm_and_no_mark_of_ours_moves_past_our_own",
    ),
    guard(
        f"{KERNEL}.cancel",
        "operation.project_id != project_id or (actor.org_id and actor.org_id != operation.org_id)",
        "False",
        "kernel/test_cancel_and_retry.py::test_S2_an_operation_of_another_project_or_tenant_does_not_exist",
    ),
    guard(
        f"{KERNEL}.transitions",
        "}\n\nTASK_STATES",
        '    (SUCCEEDED, "fail"): FAILED,\n}\n\nTASK_STATES',
        "kernel/test_transitions.py::test_OP_08_only_a_retry_leaves_a_final_state_and_success_is_never_left",
    ),
    guard(
        f"{KERNEL}.decide",
        "events=[line] if line else []",
        "events=[]",
        "engine/test_engine.py::test_SE_02_each_mutation_and_each_refusal_is_one_line_of_the_audit",
    ),
    guard(
        f"{STORE}.view",
        "self._select[TaskRow] = local_tasks.ONE",
        "pass",
        "store/test_local_tasks.py::test_FD_24_no_reader_of_the_kernel_sees_a_task_that_was_handed_off",
    ),
    guard(
        f"{STORE}.writer",
        "            self._flush()\n",
        "",
        "engine/test_engine.py::test_an_operation_runs_from_submit_to_its_receipts",
    ),
    guard(
        "hostler.control.published",
        "catalog = open_catalog(",
        "catalog = _unchecked(",
        "engine/test_engine.py::test_SE_08_a_catalog_signed_by_the_dispatch_key_is_not_signed",
    ),
    guard(
        "hostler.control.published",
        "        if self._dispatch_keyid not in {key.key_id for key in self.trust.keys(KeyRole.DISPATCH)}:",
        "        if False:",
        "engine/test_engine.py::test_P2_a_dispatch_key_that_no_node_would_trust_stops_the_start",
    ),
]


@pytest.mark.parametrize(("without", "test"), GUARDS)
def test_a_guard_of_the_control_plane_that_is_gone_is_noticed(without, test) -> None:
    outcome = outcome_without(without, test)
    assert outcome.returncode == 1, outcome.stdout[-2000:] + outcome.stderr[-2000:]
