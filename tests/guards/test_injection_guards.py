"""Every guard against injection that has no test elsewhere is taken out once, and a test must go red (J1 to J6)."""

# ruff: noqa: E501 - a guard and what is left of it stand on one line

import pytest

from support.mutant import Guard, outcome_without

AUTO, LINT, FILES = "hostler.catalog.auto_executed", "hostler.catalog.lint", "hostler.agent.host.files"
AUTHORITY, POLICY = "hostler.agent.admission.authority", "hostler.catalog.policy"
GATE, PREPARE = "hostler.agent.admission.policy_gate", "hostler.agent.runner.prepare"
VARIABLES, BODIES, AUTHZ = "hostler.catalog.loader_variables", "hostler.control.api.bodies", "hostler.control.api.authz"
J1 = "tests/fault/test_J1_links_and_templates.py::test_J1_a_folder_swapped_for_a_link_thousands_of_times_never_leads_outside"
TARGET = "tests/fault/test_J1_links_and_templates.py::test_J1_a_target_swapped_for_a_link_thousands_of_times_is_replaced_never_followed"
J2 = "tests/fault/test_J2_files_that_run_by_themselves.py"
SIGNED = f"{J2}::test_J2_a_task_signed_by_a_taken_over_control_plane_is_refused_before_it_starts"
LATER = f"{J2}::test_J2_a_path_that_is_known_only_after_a_step_is_refused_then"
NAMED, LINTED = "tests/unit/catalog/test_auto_executed.py", "tests/unit/catalog/test_lint.py"
J3, J6 = (
    "tests/fault/test_J3_hostile_arguments.py::test_J3_a_taken_over_control_plane_cannot_pass_one_to_a_command",
    "tests/fault/test_J6_exact_matching.py",
)
SHELL, REGISTER, SE_01 = (
    "hostler.catalog.shell_text",
    "hostler.control.kernel.catalogs",
    "tests/fault/test_SE_01_no_shell_text.py",
)
OP_11 = f"{SE_01}::test_OP_11_EX_06_a_command_profile_that_hands_text_to_a_shell_is_refused_by_both"
ARGV, INPUTS = "hostler.catalog.argv", "hostler.agent.admission.catalog_view"

GUARDS = {
    "links in the way are not followed": (FILES, "_WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW |", "_WALK = os.O_PATH | os.O_DIRECTORY |", J1),
    "admission knows what runs by itself": (GATE, "            check_written(known.kind, known.value, definition.auto_executed_paths)\n", "            pass\n", SIGNED),
    "so does the runner": (PREPARE, "    check_written(step.kind, getattr(params, \"path\", None), work.definition.auto_executed_paths)\n", "", LATER),
    "a file is named whole": (AUTO, "path not in named", "not any(path.startswith(one) for one in named)", NAMED),
    "files of a home count": (AUTO, 'parts[3].startswith(".")', "False", NAMED),
    "a place is more than itself": (AUTO, 'or path.startswith(f"{place}/")', "", NAMED),
    "a place ends at a slash": (AUTO, 'path.startswith(f"{place}/")', "path.startswith(place)", NAMED),
    "no folder is named": (LINT, "or path in PLACES", "", NAMED),
    "no pattern is named": (LINT, 'or "*" in part', "", NAMED),
    "what is named needs it": (LINT, "or not auto_executed(path) ", "", NAMED),
    "variables of interpreters": (VARIABLES, "return upper in _NAMES or upper.startswith(_PREFIXES)", "return upper in _NAMES", LINTED),
    "variables by name": (VARIABLES, "return upper in _NAMES or", "return", LINTED),
    "variables in any case": (VARIABLES, "upper = name.upper()", "upper = name", LINTED),
    "a search path is fixed and absolute": (VARIABLES, 'return fixed is None or not all(part.startswith("/") for part in fixed.split(":"))', "return False", LINTED),
    "names end where they end": (BODIES, 'END = r"$(?!\\n)"', 'END = r"$"', J6),
    "principals' scopes are names": (BODIES, "    project_id: NameOrNone = \"\"\n    valid_seconds", "    project_id: str = \"\"\n    valid_seconds", J6),
    "a project is that very project": (AUTHZ, "principal.project_id == project_id and", "project_id.startswith(principal.project_id) and", J6),
    "a tenant is that very tenant": (AUTHZ, "principal.org_id == org_of_project:", "principal.org_id.lower() == org_of_project.lower():", J6),
    "a write prefix ends at a slash": (FILES, 'path.startswith(bare + "/")', "path.startswith(bare)", J6),
    "a path holds no dots": (FILES, 'part in ("", ".", "..") for part in parts', 'part == "" for part in parts', J6),
    "the node's prefixes are components": (AUTHORITY, "return parts[: len(wanted)] == wanted", 'return "/".join(parts).startswith("/".join(wanted))', J6),
    "the node's paths hold no dots": (AUTHORITY, 'or "." in parts or ".." in parts', "", J6),
    "a denied operation is that very one": (AUTHORITY, "if name in self.deny_operations:", "if name.lower() in self.deny_operations:", J6),
    "a source is that very host": (POLICY, "base[:3] != asked[:3]", "base[0] != asked[0]", J6),
    "a source's path is below": (POLICY, "return asked[3] == root or", "return True or", J6),
    "the node checks inputs itself": (INPUTS, "    check_inputs(definition.inputs, values)\n", "    pass\n", f"{J3}[of inputs alone-substitution]"),
    "a shell is not registered": (REGISTER, "        if shell := shell_of(profile):\n", "        if shell := '':\n", OP_11),
    "an argument is no shell's text": (SHELL, "or _TAKES_TEXT.fullmatch(following)", "", OP_11),
    "a step has no script": (REGISTER, "            if foreign := foreign_params(step):\n", "            if foreign := '':\n", f"{SE_01}::test_OP_11_no_kind_takes_a_script_beside_its_parameters"),
    "an argument has no dash": (ARGV, 'if text.startswith("-") and', "if False and", f"{J3}[loose-dash]"),
    "an argument has no control character": (ARGV, 'if any(unicodedata.category(character).startswith("C") for character in text):', "if False:", f"{J3}[loose-newline]"),
    "an argument has an end": (ARGV, "if len(text.encode()) > MAX_ARGUMENT_BYTES:", "if False:", f"{J3}[loose-1 MB]"),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_against_injection_a_test_fails(name: str) -> None:
    module, text, without, test = GUARDS[name]
    done = outcome_without(Guard(module, text, without), test)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
