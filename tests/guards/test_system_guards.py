"""Every guard around packages, environments, units and what hangs is taken out once, and a test must go red."""

# ruff: noqa: E501 - a guard and what is left of it stand on one line

import pytest

from conftest import need, need_root
from support.mutant import Guard, outcome_without

STEPS, CATALOG, HOST = "hostler.agent.steps", "hostler.catalog", "hostler.agent.host"
INSTALL, ENV, UNIT = f"{STEPS}.package_install", f"{STEPS}.python_env_create", f"{STEPS}.service_control"
AUTHORITY, ALLOWED = "hostler.agent.admission.authority", f"{CATALOG}.allowed"
APT, PIP = "tests/real/test_package_install.py::test_SK_05", "tests/real/test_python_env_create.py::test_SK_06"
NAMES = "tests/unit/agent/admission/test_allowed_names.py::test_SK_05_SK_08"
LAST_WORD = f"{NAMES}_AZ_09_root_of_the_node_has_the_last_word"
K5 = "tests/fault/test_K5_steps_that_hang.py::test_K5"
K7 = "tests/real/test_file_render_power_cut.py"

GUARDS = {
    "a dependency is listed": (INSTALL, "    if foreign:\n", "    if False:\n", f"{APT}_a_dependency_that_is_not_allowlisted_is_refused"),
    "a removal is declared": (INSTALL, "    if undeclared:\n", "    if False:\n", f"{APT}_a_removal_that_is_not_declared_is_refused"),
    "an archive's source is allowed": (INSTALL, "if not view.may_fetch(repository.uri):", "if False:", f"{APT}_a_source_outside_the_policy_or_the_definition_is_never_asked"),
    "an archive is not followed elsewhere": (f"{HOST}.packages", "options += [*NAMED_ONLY, ", "options += [", "tests/real/test_package_install.py::test_AR_06_an_archive_that_sends_us_elsewhere_is_not_followed"),
    "an index is looked at beforehand": ("hostler.agent.admission.known", '    "indexes",\n', "", "tests/unit/agent/admission/test_allowed_names.py::test_SK_06_AZ_09_an_index_that_this_node_forbids_is_refused_before_anything_runs"),
    "an environment is written somewhere": (f"{CATALOG}.auto_executed", ', "python.env.create"', "", "tests/unit/catalog/test_auto_executed.py::test_J2_only_the_very_file_that_is_named_may_be_written"),
    "a changed unit is read again": (f"{HOST}.systemd", 'if action != "stop" and await _is_outdated(router, unit):', "if False:", "tests/unit/agent/host/test_systemd.py"),
    "indexes are fresh and signed": (f"{HOST}.packages", "if done.status or _NOT_FRESH.search(said):", "if False:", f"{APT}_an_index_altered_after_it_was_signed_is_refused"),
    "a package is named": (ALLOWED, "if name not in definition.allowed_packages:", "if False:", f"{NAMES}_a_name_from_the_inputs_is_held_to_the_definition_before_anything_runs[package]"),
    "a unit is named": (ALLOWED, "if isinstance(unit, str) and unit not in definition.allowed_units:", "if False:", f"{NAMES}_a_name_from_the_inputs_is_held_to_the_definition_before_anything_runs[unit]"),
    "admission looks at names": ("hostler.agent.admission.policy_gate", "        check_allowed(known.kind, {known.name: known.value}, definition)\n", "", f"{NAMES}_a_name_from_the_inputs_is_held_to_the_definition_before_anything_runs[unit]"),
    "so does the runner": ("hostler.agent.runner.prepare", "    check_allowed(step.kind, params, work.definition)\n", "", f"{NAMES}_a_name_that_is_known_only_after_a_step_is_held_to_it_then[package]"),
    "the node denies names": (AUTHORITY, "        if name in denied:\n", "        if False:\n", LAST_WORD),
    "the node allows names": (AUTHORITY, "if allowed is not None and name not in allowed:", "if False:", LAST_WORD),
    "a lock's line is whole": (f"{CATALOG}.lock", "_PIN.fullmatch(line)", "_PIN.match(line)", "tests/unit/catalog/test_lock.py"),
    "an index is allowed": (ENV, "if not view.may_fetch(url):", "if False:", f"{PIP}_an_index_outside_policy_or_definition_is_never_asked"),
    "no dependency comes along": (f"{HOST}.pythons", '"--no-deps", ', "", f"{PIP}_an_index_outside_policy_or_definition_is_never_asked"),
    "nothing is built": (f"{HOST}.pythons", '"--only-binary", ":all:", ', "", f"{PIP}_a_lock_that_cannot_be_had_fails_and_the_environment_in_use_stays"),
    "a link stays beside itself": (f"{HOST}.trees", 'if "/" in target or target in ("", ".", ".."):', "if False:", "tests/unit/agent/host/test_trees.py"),
    "only a link is replaced": (f"{HOST}.trees", "if not stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):", "if False:", "tests/unit/agent/host/test_trees.py"),
    "a unit's state is the truth": (UNIT, 'if result != "done" or not _reached(params, after):', "if False:", "tests/real/test_service_control.py::test_SK_08_a_service_that_fails_at_once_fails_the_step_with_its_own_words"),
    "a check's command is the signed one": (f"{STEPS}.health_check", "profile.id != check.profile or ", "", "tests/unit/agent/steps/test_health_command.py"),
    "threads that hang have an end": (f"{HOST}.blocking", "if len(self._left) >= MOST_HANGING:", "if False:", f"{K5}_steps_on_a_dead_file_system_end_and_after_some_no_more_threads_are_begun"),
    "a look hangs once": (f"{HOST}.blocking", "if key and about == key", "if False", f"{K5}_looks_that_hang_hold_one_thread_however_often_they_are_asked"),
    "bytes before the name": (f"{HOST}.files", "    os.fsync(fd)\n", "", K7),
    "the name before the end": (f"{HOST}.files", "                os.fsync(directory)\n", "", K7),
}  # fmt: skip


@pytest.mark.xdist_group("machines")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_of_the_system_kinds_a_test_fails(name: str) -> None:
    need("apt-get", "dpkg-deb", "gpg", "strace", "debootstrap", "systemd-nspawn")
    need_root()
    module, text, without, test = GUARDS[name]
    done = outcome_without(Guard(module, text, without), test)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout.rpartition("\n")[2]
