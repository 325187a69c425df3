"""Each guard of resolving, of capabilities and of versions, taken out of the source: its own test goes red."""

import pytest

from support.mutant import Guard, outcome_without

CATALOG = "hostler.catalog"
RESOLVER = "hostler.agent.resolver"
CONFIG = "tests/unit/catalog/test_resolver.py::test_"
ACTIVE = "tests/unit/agent/resolver/test_active_config.py::test_"
STEPS = "tests/unit/agent/resolver/test_resolved_steps.py::test_"
WAITING = "tests/unit/control/kernel/test_capabilities.py::test_"
VERSIONS = "tests/unit/base/test_versions.py::test_"
T10 = "tests/fault/test_T10_resolver_rules.py::test_T10_"


def guard(module: str, text: str, without: str, test: str):
    return pytest.param(Guard(module, text, without), test, id=test.rpartition("::")[2])


GUARDS = [
    guard(
        f"{CATALOG}.resolver",
        "if index == last and rule.match:",
        "if False:",
        f"{CONFIG}RS_03_a_configuration_without_a_fallback_or_with_rules_after_it_is_refused",
    ),
    guard(
        f"{CATALOG}.resolver",
        "elif profile is None:",
        "elif False:",
        f"{CONFIG}RS_05_an_override_names_a_profile_that_exists_and_a_kind_that_is_abstract",
    ),
    guard(
        f"{CATALOG}.resolver",
        "elif profile.run_as in _ROOT:",
        "elif False:",
        f"{CONFIG}a_rule_picks_nothing_that_runs_as_root_because_no_approval_covers_it",
    ),
    guard(
        f"{CATALOG}.resolver",
        "elif fallback and always_fine(profile):",
        "elif False:",
        f"{CONFIG}RS_03_a_fallback_may_not_be_always_fine",
    ),
    guard(
        f"{CATALOG}.resolver",
        "            if case is not None:",
        "            if False:",
        f"{CONFIG}RS_05_a_kind_that_a_definition_uses_resolves_on_every_node_it_may_run_on",
    ),
    guard(
        f"{CATALOG}.lint",
        "if like := _like_a_kind(profile.id):",
        "if like := '':",
        f"{T10}neither_a_step_nor_a_command_profile_is_named_like_a_built_in",
    ),
    guard(
        f"{RESOLVER}.resolver",
        "        check_order(active, wanted)\n",
        "",
        f"{ACTIVE}RD_04_a_rollback_is_a_higher_version_with_the_old_content_and_a_replay_is_refused",
    ),
    guard(
        f"{RESOLVER}.resolver",
        "        check_signed(catalog, wanted)\n",
        "",
        f"{ACTIVE}RD_01_what_the_signed_catalog_does_not_name_is_refused_and_the_old_one_stays",
    ),
    guard(
        f"{RESOLVER}.resolver",
        "        catalog.check_resolver(wanted.config)\n",
        "",
        f"{ACTIVE}RS_03_RS_05_one_that_does_not_hold_together_is_refused_though_it_is_signed",
    ),
    guard(
        f"{RESOLVER}.files",
        "if not same_digest(sha256_hex(body), digest):",
        "if False:",
        f"{ACTIVE}RD_02_what_was_changed_on_the_node_is_drift_and_not_used_until_it_is_applied_again",
    ),
    guard(
        "hostler.agent.runner.step_run",
        "if prepared.resolved and prepared.params_digest != intent.params_digest:",
        "if False:",
        f"{STEPS}K2_a_step_that_was_started_as_another_command_is_not_judged_by_this_one",
    ),
    guard(
        "hostler.control.published",
        "                catalog.check_resolver(name)\n",
        "                pass\n",
        "tests/unit/control/engine/test_publishing.py"
        "::test_RS_03_RS_05_what_does_not_hold_together_is_refused_and_leaves_the_old_catalog",
    ),
    guard(
        "hostler.control.kernel.catalogs",
        'elif definition.backend_type == "node_agent" or step.kind.startswith("command."):',
        "elif False:",
        "tests/unit/control/engine/test_publishing.py"
        "::test_SK_18_a_definition_of_an_unknown_step_kind_is_refused_and_nothing_of_its_catalog_is_filed",
    ),
    guard(
        "hostler.control.kernel.assign",
        "    if lacking:\n",
        "    if False:\n",
        f"{WAITING}CG_01_a_task_waits_unsigned_for_what_its_node_lacks_and_says_for_what",
    ),
    guard(
        "hostler.control.kernel.sessions",
        "if capability.missing(draft, operation_of(draft, task.operation_id), node):",
        "if False:",
        f"{WAITING}CG_01_what_was_signed_and_not_taken_is_taken_back_when_the_node_returns_without_the_capability",
    ),
    guard(
        f"{CATALOG}.capabilities",
        "return dict(pair for pair, _ in zip(good, range(MAX_KEYS), strict=False))",
        "return dict(said)",
        f"{WAITING}CG_04_of_what_a_hostile_node_says_little_is_kept",
    ),
    guard(
        "hostler.agent.admission.capability",
        "    if key:\n",
        "    if False:\n",
        "tests/unit/agent/admission/test_policy_gates.py",
    ),
    guard(
        "hostler.wire.versions",
        "if newest < our_oldest:",
        "if False:",
        f"{VERSIONS}CG_03_nothing_in_common_is_refused_with_what_to_do",
    ),
    guard(
        "hostler.wire.versions",
        "if oldest > ours:",
        "if False:",
        f"{VERSIONS}CG_03_nothing_in_common_is_refused_with_what_to_do",
    ),
]


@pytest.mark.parametrize(("taken_out", "test"), GUARDS)
def test_the_suite_notices_when_it_is_gone(taken_out: Guard, test: str) -> None:
    outcome = outcome_without(taken_out, test)
    assert outcome.returncode == 1, f"nobody noticed\n{outcome.stdout[-2000:]}\n{outcome.stderr[-2000:]}"
