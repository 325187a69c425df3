"""SK-05, SK-06, SK-08, SK-12: what single kinds must keep before a definition is signed."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.allowed import check_allowed
from hostler.catalog.approval import needs_approval
from hostler.catalog.definition import StepTemplate, definition_from
from hostler.catalog.lint import lint
from hostler.catalog.load import load_profiles
from hostler.catalog.params.package import Install
from hostler.catalog.params.service import Control
from hostler.catalog.used_profiles import profiles_of

JQ: dict[str, Any] = {"packages": [{"name": "jq"}]}
LISTED: dict[str, Any] = {"allowed_packages": ["jq"]}
BASE: dict[str, Any] = {
    "type": "unit.test",
    "version": "v1",
    "inputs": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"x": {"type": "string"}, "many": {"type": "array"}},
    },
    "capabilities": {"os.kernel": "linux"},
    "destructive": True,
}
SHOW = {"id": "show", "command": "/usr/bin/stat", "args": ["--", "${path}"], "arg_schema": {"path": {"type": "string"}},
        "timeout_seconds": 5, "effects": {}}  # fmt: skip
OTHER = SHOW | {"id": "other", "capture_stdout": False}
TOLD = {"id": "told", "command": "/usr/bin/cat", "args": ["${key}"], "secret_files": ["key"], "timeout_seconds": 5,
        "effects": {}}  # fmt: skip


def findings(tmp_path: Path, kind: str, params: dict[str, Any], **more: Any) -> set[str]:
    (tmp_path / "definitions").mkdir()
    (tmp_path / "commands").mkdir()
    document = BASE | {"steps": [{"id": "one", "kind": kind, "params": params}]} | more
    (tmp_path / "definitions/a.yaml").write_text(json.dumps(document, indent=1))
    for command in (SHOW, OTHER, TOLD):
        (tmp_path / f"commands/{command['id']}.yaml").write_text(json.dumps(command, indent=1))
    return {finding.rule for finding in lint(load_profiles(tmp_path))}


def check(**fields: Any) -> dict[str, Any]:
    return {"checks": [{"type": "command", "profile": "show", "args": {"path": "/srv"}, **fields}]}


@pytest.mark.parametrize(
    ("kind", "params", "more", "rules"),
    [
        ("package.install", JQ, LISTED, set()),
        ("package.install", JQ, {}, {"allowed"}),
        ("package.install", {"packages": "${inputs.many}"}, LISTED, set()),
        ("package.install", {"packages": [{"name": "jq", "version": "${inputs.x}"}]}, {}, set()),
        ("package.install", {**JQ, "removes": ["${inputs.x}"]}, LISTED, {"literal"}),
        ("package.install", {**JQ, "repositories": "${inputs.many}"}, LISTED, {"literal"}),
        ("package.install", {"packages": [{"name": "jq;id"}]}, {"allowed_packages": ["jq;id"]}, {"params"}),
        ("package.install", JQ, LISTED | {"destructive": False}, {"destructive"}),
        ("service.control", {"unit": "a.service", "action": "start"}, {"allowed_units": ["a.service"]}, set()),
        ("service.control", {"unit": "a.service", "action": "start"}, {"allowed_units": ["b.service"]}, {"allowed"}),
        ("service.control", {"unit": "${inputs.x}", "action": "stop"}, {}, set()),
        ("service.control", {"unit": "a.service", "action": "mask"}, {"allowed_units": ["a.service"]}, {"params"}),
        ("service.control", {"unit": "a.service", "action": "kill"}, {"allowed_units": ["a.service"]}, {"params"}),
        ("service.control", {"unit": "a", "action": "start"}, {"allowed_units": ["a"]}, {"params"}),
        ("python.env.create", {"path": "/srv/e", "lock": "${inputs.x}", "indexes": ["https://a.example"]}, {}, set()),
        ("python.env.create", {"path": "/srv/e", "lock": "x", "indexes": ["${inputs.x}"]}, {}, {"literal"}),
        ("python.env.create", {"path": "/srv/e", "lock": "x", "python": "${inputs.x}"}, {}, {"literal"}),
        ("python.env.create", {"path": "/srv/e", "lock": "x", "indexes": ["http://a.example"]}, {}, {"params"}),
        ("health.check", check(), {}, set()),
        ("health.check", check(profile="absent"), {}, {"command-profile"}),
        ("health.check", check(args={}), {}, {"command-profile"}),
        ("health.check", check(args={"path": "/srv", "more": "x"}), {}, {"command-profile"}),
        ("health.check", check(profile="told", args={}), {}, {"command-profile"}),
        ("health.check", check(profile="other", stdout_contains="x"), {}, {"command-profile"}),
        ("health.check", {"checks": [*check()["checks"], *check(profile="other")["checks"]]}, {}, {"command-profile"}),
    ],
)  # fmt: skip
def test_SK_05_06_08_12_what_a_kind_must_keep_is_found(
    tmp_path: Path, kind: str, params: dict[str, Any], more: dict[str, Any], rules: set[str]
) -> None:
    assert findings(tmp_path, kind, params, **more) == rules


def test_SK_05_SK_08_a_name_is_that_very_name() -> None:
    allowed = {"allowed_packages": ["jq"], "allowed_units": ["a.service"]}
    definition = definition_from(BASE | {"steps": []} | allowed)
    check_allowed("package.install", convert({"packages": [{"name": "jq"}]}, Install), definition)
    check_allowed("service.control", convert({"unit": "a.service", "action": "stop"}, Control), definition)
    check_allowed("file.render", {"packages": [{"name": "curl"}], "unit": "b.service"}, definition)
    for kind, params, code in (
        ("package.install", {"packages": [{"name": "jq"}, {"name": "jq2"}]}, "package_not_allowed"),
        ("service.control", {"unit": "a.service.service"}, "unit_not_allowed"),
    ):
        with pytest.raises(HostlerError) as caught:
            check_allowed(kind, params, definition)
        assert caught.value.code == code


def test_SK_05_a_definition_that_installs_packages_needs_approval() -> None:
    step = {"id": "one", "kind": "package.install", "params": {"packages": [{"name": "jq"}]}}
    assert needs_approval(definition_from(BASE | {"steps": [step], "destructive": False}), {})


def test_SK_12_a_definition_whose_check_runs_a_command_as_root_needs_approval() -> None:
    from hostler.catalog.command_profile import command_profile_from

    definition = definition_from(
        BASE | {"steps": [{"id": "one", "kind": "health.check", "params": check()}], "destructive": False}
    )
    assert not needs_approval(definition, {"show": command_profile_from(SHOW)})
    assert needs_approval(definition, {"show": command_profile_from(SHOW | {"run_as": "root"})})


def test_the_lists_leave_the_digest_of_older_definitions_as_it_was() -> None:
    definition = definition_from(BASE | {"steps": []})
    assert b"allowed_packages" not in definition.canonical()
    assert b"allowed_units" not in definition.canonical()
    assert definition.digest() != definition_from(BASE | {"steps": [], "allowed_units": ["a.service"]}).digest()


def test_SK_12_the_profiles_of_a_step_are_named_once_and_never_by_a_binding() -> None:
    checks = [{"type": "tcp"}, {"type": "command", "profile": "a"}, {"type": "command", "profile": "a"}]
    assert profiles_of(StepTemplate(id="x", kind="health.check", params={"checks": checks})) == ("a",)
    assert profiles_of(StepTemplate(id="x", kind="health.check", params={"checks": "${inputs.x}"})) == ()
    assert profiles_of(StepTemplate(id="x", kind="file.render", params={"profile": "a"})) == ()
