"""PF-12: every rule of the linter names file and line, and says what to write instead."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from hostler.catalog.lint import Finding, lint
from hostler.catalog.lint_hints import HINTS, nearest
from hostler.catalog.load import load_profiles
from hostler.cli.main import main

CATALOG = Path(__file__).resolve().parents[3] / "profiles/hostler/catalog"
SHOW: dict[str, Any] = {"profile": "show", "args": {"path": "${inputs.at}"}}
EXEC = {"id": "one", "kind": "command.exec_allowlisted", "params": SHOW}
PITFALL = {"path": "/etc/cron.d/x", "template": "x"}
MISSPELT = {"pth": "${inputs.at}", "path": "/a", "template": ""}
LOADER = {"env_passthrough": ["LD_PRELOAD"]}
GOOD: dict[str, Any] = {
    "type": "unit.test",
    "version": "v1",
    "inputs": {"type": "object", "additionalProperties": False, "properties": {"at": {"type": "string"}}},
    "capabilities": {"os.kernel": "linux"},
    "steps": [EXEC],
}
COMMAND: dict[str, Any] = {
    "id": "show",
    "command": "/usr/bin/stat",
    "args": ["--", "${path}"],
    "arg_schema": {"path": {"type": "string"}},
    "timeout_seconds": 5,
    "effects": {},
}
INSTALL = {"packages": ["curl"], "repositories": "${inputs.at}"}
IMAGE = {"reference": "registry.test/app:v1", "path": "/srv/app"}


def step(kind: str, params: dict[str, Any], **more: Any) -> dict[str, Any]:
    return GOOD | {"steps": [{"id": "one", "kind": kind, "params": params} | more]}


def called(**args: str) -> dict[str, Any]:
    return step("command.exec_allowlisted", {"profile": "show", "args": args})


class Case(NamedTuple):
    """`at` stands on the line of the finding, `says` in its hint."""

    at: str
    says: str
    definition: dict[str, Any] = GOOD
    command: dict[str, Any] = COMMAND
    resolver: Any = None


CASES: dict[str, Case] = {
    "allowed": Case("params", "allowed_units", step("service.control", {"unit": "app.service"})),
    "arg-schema": Case('"args"', "arg_schema", command=COMMAND | {"arg_schema": {}}),
    "artifacts": Case("text", "stdout", step("command.exec_allowlisted", SHOW, artifacts={"text": "a/b"})),
    "auto-executed": Case("path", "auto_executed_paths", step("file.render", PITFALL)),
    "binding": Case("inputs.ta", "at", called(path="${inputs.ta}")),
    "capabilities": Case("capabilities", "os.kernel: linux", GOOD | {"capabilities": {}}),
    "command-args": Case("more", "args", called(path="a", more="b")),
    "command-path": Case("command", "/usr/bin/stat", command=COMMAND | {"command": "stat"}),
    "command-profile": Case("profile", "did you mean show?", step("command.exec_allowlisted", {"profile": "shows"})),
    "credentials": Case(
        "credential_type",
        "hf_token",
        step("credential.mint", {"credential_type": "x", "intent": {}, "for_steps": []}, reusable=False),
    ),
    "destructive": Case("{", "destructive: true", step("package.install", {"packages": ["curl"]})),
    "digest": Case("reference", "@sha256:", step("artifact.pull_oci", IMAGE)),
    "effects": Case("/etc", "name what is below it", command=COMMAND | {"effects": {"writes": ["/etc"]}}),
    "environment": Case("env_passthrough", "leave the variable out", command=COMMAND | LOADER),
    "inputs-schema": Case("inputs", "additionalProperties: false", GOOD | {"inputs": {"type": "object"}}),
    "interpreter": Case("command", "does the work", command=COMMAND | {"command": "/bin/sh"}),
    "kind-name": Case("id", "another id", GOOD | {"steps": [EXEC | {"id": "file.render"}]}),
    "limits": Case("{", "timeout_seconds: 60", command=COMMAND | {"timeout_seconds": 0}),
    "literal": Case("repositories", "in the definition", step("package.install", INSTALL)),
    "params": Case("pth", "did you mean path?", step("file.render", MISSPELT)),
    "placeholder": Case("--path", "'${path}'", command=COMMAND | {"args": ["--path=${path}"]}),
    "resolver": Case("gpu.runtime", "those are", resolver=[{"match": {}, "overrides": {"gpu.runtime": "show"}}]),
    "secrets": Case('"x"', "${steps.ID", step("command.exec_allowlisted", SHOW | {"secrets": {"x": "y"}})),
    "step-id": Case("id", "of its own", GOOD | {"steps": [EXEC, EXEC]}),
    "step-kind": Case("kind", "did you mean file.render?", step("file.rendr", {})),
    "steps": Case("steps", "at least one step", GOOD | {"steps": []}),
    "timeout": Case("{", "timeout_seconds: 60", command={k: v for k, v in COMMAND.items() if k != "timeout_seconds"}),
    "unique": Case("{", "raise the version"),
}  # fmt: skip


def written(folder: Path, rule: str) -> Path:
    case = CASES[rule]
    documents = {"definitions/a": case.definition, "commands/a": case.command}
    if case.resolver is not None:
        documents["resolver/a"] = {"hardware_profiles": case.resolver}
    if rule == "unique":
        documents["definitions/b"] = case.definition
    for name, document in documents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.yaml").write_text(json.dumps(document, indent=1))
    return folder


def test_every_rule_has_a_case_and_a_hint() -> None:
    text = "\n".join(path.read_text() for path in CATALOG.glob("lint*.py"))
    used = set(re.findall(r'_found\(\s*source, [^"\n]*(?:"[^"]*"[^"\n]*)?, "([a-z][a-z-]+)",', text))
    used |= set(re.findall(r'yield f?"[^"]*", "([a-z-]+)", ', text))
    assert len(used) > 20
    assert used <= set(HINTS)
    assert set(CASES) == set(HINTS)
    assert all(len(hint) > 15 and not hint.endswith(".") for hint in HINTS.values())


@pytest.mark.parametrize("rule", CASES)
def test_a_finding_stands_on_its_line_and_teaches(rule: str, tmp_path: Path) -> None:
    case = CASES[rule]
    found = lint(load_profiles(written(tmp_path, rule)))
    for finding in found:
        assert finding.hint
        assert finding.message != finding.hint
    mine = [finding for finding in found if finding.rule == rule]
    assert mine
    assert any(case.at in line_of(finding) and case.says in finding.hint for finding in mine), mine


def line_of(finding: Finding) -> str:
    return Path(finding.file).read_text().splitlines()[finding.line - 1]


@pytest.mark.parametrize("rule", ["step-kind", "binding", "interpreter"])
def test_the_command_exits_one_and_prints_place_rule_and_hint(rule: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["profiles", "lint", str(written(tmp_path, rule))])
    assert done.exit_code == 1
    first, second = next(pair for pair in zip(*[iter(done.output.splitlines())] * 2, strict=True) if rule in pair[0])
    assert re.match(rf"\S+/a\.yaml:\d+: \[{rule}\] \S", first)
    assert second.startswith("    ")
    as_json = CliRunner().invoke(main, ["profiles", "lint", str(tmp_path), "--output", "json"])
    assert as_json.exit_code == 1
    assert all({"file", "line", "rule", "message", "hint"} == set(each) for each in json.loads(as_json.output))


@pytest.mark.parametrize(
    ("text", "where"), [("type: a\ntype: b\n", "line 2"), ("type: a\nversion: v1\nscirpt: x\n", "line ")]
)
def test_a_file_that_cannot_be_read_ends_with_its_line_as_well(text: str, where: str, tmp_path: Path) -> None:
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions/a.yaml").write_text(text)
    done = CliRunner().invoke(main, ["profiles", "lint", str(tmp_path)])
    assert done.exit_code in (1, 2)
    assert where in done.output


def test_a_name_that_is_near_is_offered_and_else_all_there_are() -> None:
    assert nearest("fil.render", ["file.render", "health.check"], "the kinds are") == "did you mean file.render?"
    assert nearest("zzz", ["b", "a"], "the inputs are") == "the inputs are a, b"
    assert nearest("zzz", [], "the inputs are") == "the inputs are none"
    assert nearest("x", [f"name{n:02}" for n in range(99)], "they are").endswith(", …")
