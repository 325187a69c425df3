"""PF-12: every rule of the linter bites, names the line, and leaves good profiles alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.lint import lint
from hostler.catalog.load import load_profiles, parse

SHIPPED = Path(__file__).resolve().parents[3] / "profiles"
GOOD: dict[str, Any] = {
    "type": "unit.test",
    "version": "v1",
    "inputs": {"type": "object", "additionalProperties": False, "properties": {"path": {"type": "string"}}},
    "capabilities": {"os.kernel": "linux"},
    "steps": [
        {
            "id": "one",
            "kind": "command.exec_allowlisted",
            "params": {"profile": "show", "args": {"path": "${inputs.path}"}},
        }
    ],
}
COMMAND: dict[str, Any] = {
    "id": "show",
    "command": "/usr/bin/stat",
    "args": ["--", "${path}"],
    "arg_schema": {"path": {"type": "string"}},
    "timeout_seconds": 5,
    "effects": {},
}


def findings(tmp_path: Path, definition: dict[str, Any], command: dict[str, Any] = COMMAND) -> set[str]:
    for name, document in (("definitions", definition), ("commands", command)):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "a.yaml").write_text(json.dumps(document, indent=1))  # YAML as well
    found = lint(load_profiles(tmp_path))
    assert all(f.line >= 1 and f.file.endswith("a.yaml") for f in found)
    return {f.rule for f in found}


def step(**changes: Any) -> dict[str, Any]:
    return GOOD | {"steps": [GOOD["steps"][0] | changes]}


def test_PF_12_the_shipped_profiles_are_in_order() -> None:
    assert lint(load_profiles(SHIPPED)) == []


def test_a_good_profile_has_no_finding(tmp_path: Path) -> None:
    assert findings(tmp_path, GOOD) == set()


@pytest.mark.parametrize(
    ("definition", "rule"),
    [
        (GOOD | {"capabilities": {}}, "capabilities"),
        (GOOD | {"steps": []}, "steps"),
        (GOOD | {"inputs": {"type": "object"}}, "inputs-schema"),
        (GOOD | {"steps": GOOD["steps"] * 2}, "step-id"),
        (step(kind="command.exec", params={"script": "rm -rf /"}), "step-kind"),
        (step(kind="foo.bar"), "step-kind"),
        (step(params={"profile": "absent"}), "command-profile"),
        (step(params={"profile": "${inputs.path}"}), "command-profile"),
        (step(params={"profile": "show"}), "command-args"),
        (step(params={"profile": "show", "args": {"path": "a", "more": "b"}}), "command-args"),
        (step(params={"profile": "show", "args": {"path": "x${inputs.path}"}}), "binding"),
        (step(params={"profile": "show", "args": {"path": "${inputs.absent}"}}), "binding"),
        (step(params={"profile": "show", "args": {"path": "${steps.one.stdout}"}}), "binding"),
        (step(kind="file.render", params={"path": "/etc/cron.d/x", "template": "x"}), "auto-executed"),
        (step(kind="file.render", params={"path": "/etc/systemd/system/x.service", "template": "x"}), "auto-executed"),
        (step(kind="file.render", params={"path": "relative", "template": "x"}), "params"),
        (step(kind="file.render", params={"path": "/a", "template": "x", "shell": "y"}), "params"),
        (step(kind="file.render", params={"path": "/a"}), "params"),
        (step(kind="artifact.pull_blob", params={"url": "http://a", "sha256": "0" * 64, "path": "/a"}), "params"),
    ],
)  # fmt: skip
def test_OP_05_OP_11_SK_18_a_broken_definition_is_found(tmp_path: Path, definition: dict[str, Any], rule: str) -> None:
    assert rule in findings(tmp_path, definition)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"command": "/bin/sh"}, "interpreter"),
        ({"command": "/usr/bin/python3.11"}, "interpreter"),
        ({"command": "/usr/bin/env"}, "interpreter"),
        ({"command": "/usr/bin/xargs"}, "interpreter"),
        ({"command": "stat"}, "command-path"),
        ({"command": "/usr/bin/../bin/stat"}, "command-path"),
        ({"arg_schema": {}}, "arg-schema"),
        ({"args": ["--path=${path}"], "arg_schema": {}}, "placeholder"),
        ({"env_passthrough": ["LD_PRELOAD"]}, "environment"),
        ({"env_passthrough": ["PATH"]}, "environment"),
        ({"env_passthrough": ["ld_audit"]}, "environment"),
        ({"env": {"PYTHONHOME": "/x"}}, "environment"),
        ({"env": {"NVIDIA_VISIBLE_DEVICES": "all"}}, "environment"),
        ({"env": {"BASH_ENV": "/x"}}, "environment"),
        ({"env": {"GLIBC_TUNABLES": "x"}}, "environment"),
        ({"env": {"PATH": "bin:/usr/bin"}}, "environment"),
        ({"env": {"PATH": "/usr/bin:"}}, "environment"),
        ({"timeout_seconds": 0}, "limits"),
    ],
)
def test_EX_03_EX_06_J4_a_dangerous_command_profile_is_found(tmp_path: Path, change: dict[str, Any], rule: str) -> None:
    assert rule in findings(tmp_path, GOOD, COMMAND | change)


def test_J4_a_search_path_that_the_profile_fixes_is_no_finding(tmp_path: Path) -> None:
    env = {"PATH": "/usr/sbin:/usr/bin", "TZDIR": "/usr/share/zoneinfo", "LANG": "C.UTF-8"}
    assert findings(tmp_path, GOOD, COMMAND | {"env": env}) == set()


def test_EX_03_a_command_profile_must_say_its_timeout(tmp_path: Path) -> None:
    without = {name: value for name, value in COMMAND.items() if name != "timeout_seconds"}
    assert "timeout" in findings(tmp_path, GOOD, without)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\na: 2\n", 2),
        ("a: [1\n", 2),
        ("a: !!python/object:os.system x\n", 1),
        ("a: 2020-01-01\n", 1),
        ("1: a\n", 1),
        ("a:\n  b: \tc: d\n", 2),
    ],
)
def test_broken_yaml_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(HostlerError) as caught:
        parse(text.encode(), "x.yaml")
    assert caught.value.code == "invalid_yaml"
    assert f"line {line}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", [b"a: &x 1\nb: *x\n", b"\xff\xfe", b"- a\n", b"", b"x" * 2_000_000, b"a: " + b"[" * 100 + b"]" * 100]
)
def test_yaml_outside_the_strict_part_is_refused(text: bytes) -> None:
    with pytest.raises(HostlerError) as caught:
        parse(text, "x.yaml")
    assert caught.value.code == "invalid_yaml"


def test_an_unknown_key_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(HostlerError, match=r"a\.yaml, line \d+.*unknown field `scirpt`"):
        findings(tmp_path, GOOD | {"scirpt": "x"})


@pytest.mark.parametrize(
    "effects",
    [
        None,
        {"writes": ["/"]},
        {"writes": ["/etc"]},
        {"writes": ["relative"]},
        {"writes": ["/srv/../etc"]},
        {"writes": ["/etc/cron.d"]},
        {"writes": ["/usr/lib/x"]},
        {"writes": ["/dev"]},
        {"writes": ["/dev/sda"]},
        {"writes": ["/dev/nvidia0/../sda"]},
        {"writes": ["/dev/dri/../sda"]},
        {"writes": ["/dev/kfd\n"]},
    ],
)
def test_J2_effects_are_declared_and_never_so_wide_that_they_mean_everything(tmp_path: Path, effects: Any) -> None:
    command = COMMAND | {"effects": effects} if effects else {k: v for k, v in COMMAND.items() if k != "effects"}
    assert findings(tmp_path, GOOD, command) == {"effects"}


def test_effects_below_a_folder_of_data_are_in_order(tmp_path: Path) -> None:
    assert findings(tmp_path, GOOD, COMMAND | {"effects": {"writes": ["/srv/models"], "syscalls": ["mount"]}}) == set()


def test_device_files_of_accelerators_may_be_declared(tmp_path: Path) -> None:
    writes = ["/dev/nvidiactl", "/dev/nvidia15", "/dev/nvidia-uvm", "/dev/kfd", "/dev/dri", "/dev/infiniband"]
    assert findings(tmp_path, GOOD, COMMAND | {"effects": {"writes": writes}}) == set()


@pytest.mark.parametrize("name", ["credential", "hub_token", "api_key"])
def test_OP_19_an_input_that_every_submit_is_refused_for_is_found(tmp_path: Path, name: str) -> None:
    properties = GOOD["inputs"]["properties"] | {name: {"type": "string"}}
    assert findings(tmp_path, GOOD | {"inputs": GOOD["inputs"] | {"properties": properties}}) == {"secrets"}


@pytest.mark.parametrize(
    ("required", "rules"),
    [
        ({"python.conda": True}, {"capabilities"}),
        ({"python.conda": "present"}, set()),
        ({"gpu.vendor": ["nvidia", "matrox"]}, set()),
        ({"gpu.vendor": ["matrox"]}, {"capabilities"}),
        ({"gpu.vendors": "nvidia"}, {"capabilities"}),
        ({"os.distro": "plan9-4"}, set()),
    ],
)
def test_CG_01_a_requirement_that_no_node_can_meet_is_found(
    tmp_path: Path, required: dict[str, Any], rules: set[str]
) -> None:
    assert findings(tmp_path, GOOD | {"capabilities": required}) == rules
