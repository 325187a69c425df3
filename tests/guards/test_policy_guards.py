"""Each guard of policy overlays, taken out of the source: a test that exists for it goes red (S3, AZ-06..08)."""

import pytest

from support.mutant import Guard, outcome_without

KERNEL = "hostler.control.kernel"
TESTS = "tests/unit/control/kernel/test_policies.py"
OIDC = "tests/unit/control/identity/test_oidc.py"
API = "tests/unit/control/api/test_policies.py"


def guard(module: str, text: str, without: str, test: str):
    name = test.rpartition("::")[2]
    return pytest.param(Guard(module, text, without), test, id=name)


GUARDS = [
    guard(
        f"{KERNEL}.put_policy",
        "    if key_name:\n",
        "    if False:\n",
        f"{TESTS}::test_S3_an_overlay_that_weakens_its_parent_is_refused_naming_the_key",
    ),
    guard(
        f"{KERNEL}.put_policy",
        "    check_overlay(command.overlay)\n",
        "",
        f"{TESTS}::test_AZ_07_a_value_that_cannot_be_meant_is_refused",
    ),
    guard(
        f"{KERNEL}.put_policy",
        "if command.expected_revision not in (None, revision):",
        "if False:",
        f"{TESTS}::test_two_writers_do_not_overwrite_each_other",
    ),
    guard(
        f"{KERNEL}.policies",
        "        tighter = merge(policy, level.overlay)\n",
        "        tighter = merge(base, level.overlay)\n",
        f"{TESTS}::test_S3_an_overlay_that_its_parent_overtook_is_ignored_where_it_is_wider",
    ),
    guard(
        f"{KERNEL}.policies",
        "    if trigger_source in HOUSE_SOURCES:\n",
        "    if False:\n",
        f"{TESTS}::test_a_tenant_cannot_forbid_what_the_house_does_to_its_allocation",
    ),
    guard(
        f"{KERNEL}.permitted",
        "        if not policy.enabled:\n",
        "        if False:\n",
        f"{TESTS}::test_AZ_08_a_policy_tightened_after_the_submit_stops_what_waits",
    ),
    guard(
        f"{KERNEL}.assign",
        "    policy = merge(before, overlay_of(now.policy))\n",
        "    policy = now.policy\n",
        f"{TESTS}::test_AZ_08_a_task_travels_under_the_policy_of_the_hour_and_never_under_a_looser_one",
    ),
    guard(
        f"{KERNEL}.assign",
        "refusal = (denied.code, denied.message) if denied else",
        "refusal =",
        f"{TESTS}::test_AZ_08_a_policy_tightened_after_the_submit_stops_what_waits",
    ),
    guard(
        f"{KERNEL}.assign",
        "        slots = min(slots, (level.overlay.max_concurrency or 0) - used)\n",
        "        slots = slots or used\n",
        f"{TESTS}::test_AZ_07_max_concurrency_holds_across_the_operations_of_a_scope",
    ),
    guard(
        "hostler.agent.admission.policy_gate",
        "    if definition.require_plan_approval and case.task.mode == TaskMode.APPLY and",
        "    if False and",
        "tests/unit/agent/admission/test_policy_gates.py::test_a_definition_that_wants_an_approved_plan_is_not_run_without_one",
    ),
    guard(
        "hostler.control.api.routes.definitions",
        "    if fixed:\n",
        "    if False:\n",
        "tests/unit/control/api/test_definitions.py::test_API_02_a_signed_field_is_refused_by_its_name",
    ),
    guard(
        f"{KERNEL}.submit",
        "        if required and command.mode == TaskMode.APPLY:\n",
        "        if False:\n",
        "tests/unit/control/kernel/test_definitions.py::test_a_plan_that_must_be_approved_is_asked_for",
    ),
    guard(
        "hostler.control.api.routes.events",
        "    return principal.org_id, principal.project_id or None\n",
        "    return None, None\n",
        "tests/unit/control/api/test_events.py::test_API_23_a_platform_admin_sees_all_and_everybody_else_their_own",
    ),
    guard(
        "hostler.control.api.call",
        "        permit_project(self.principal, org_id, project_id)\n        return org_id\n",
        "        return org_id\n",
        "tests/unit/control/api/test_events.py::test_S2_naming_a_foreign_project_is_404",
    ),
    guard(
        "hostler.control.api.routes.policies",
        "if not is_unlimited(call.principal) and call.principal.org_id != tenant_id:",
        "if False and is_unlimited(call.principal):",
        f"{API}::test_S2_a_tenant_sees_nothing_of_another_tenant_s_policy",
    ),
    guard(
        "hostler.control.identity.oidc",
        'header.get("alg") not in ALGORITHMS or ',
        "",
        f"{OIDC}::test_T6_no_signature_no_shared_secret_no_foreign_key_counts",
    ),
    guard(
        "hostler.control.identity.oidc",
        "            if _is_short_rsa(key.key):\n",
        "            if False:\n",
        f"{OIDC}::test_a_short_rsa_key_does_not_count",
    ),
    guard(
        "hostler.control.identity.oidc",
        "or not _NAME.fullmatch(chosen)",
        "",
        f"{OIDC}::test_a_token_that_is_not_for_us_or_not_now_is_nobody_s",
    ),
    guard(
        "hostler.control.identity.keys",
        'document.get("issuer") != issuer or ',
        "",
        f"{OIDC}::test_keys_are_found_by_discovery_over_https_and_a_foreign_document_is_not_believed",
    ),
]


@pytest.mark.parametrize(("without", "test"), GUARDS)
def test_a_guard_of_the_policy_that_is_gone_is_noticed(without, test) -> None:
    outcome = outcome_without(without, test)
    assert outcome.returncode == 1, outcome.stdout[-2000:] + outcome.stderr[-2000:]
