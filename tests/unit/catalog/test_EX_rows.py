"""EX-03, EX-04, EX-06, EX-07: a command profile's form, field by field, and a child's environment."""

from pathlib import Path
from typing import Any

import pytest

from hostler.agent.host.host import Host
from hostler.base.errors import HostlerError
from hostler.catalog.argv import build_argv
from hostler.catalog.command_profile import command_profile_from
from hostler.catalog.lint import lint
from hostler.catalog.load import load_profiles
from support.commands import ME, host_in, run

WHOLE: dict[str, Any] = {
    "id": "whole", "command": "/usr/bin/stat", "base_args": ["-L"], "args": ["${path}"],
    "arg_schema": {"path": {"type": "string"}}, "env_passthrough": ["LANG"], "run_as": "nobody",
    "timeout_seconds": 5, "retries": 1, "effects": {},
}  # fmt: skip
# As seed 004 §4.7 gives it: the resolved form, its own field names.
NVIDIA_SMI_HEALTH: dict[str, Any] = {
    "id": "nvidia_smi_health", "command": "/usr/bin/nvidia-smi",
    "allowed_args": ["--query-gpu=utilization.gpu,memory.used,memory.total", "--format=csv,noheader"],
    "arg_schema": None, "env_passthrough": [], "expected_exit_codes": [0], "timeout_seconds": 30,
    "capture_stdout": True,    "capture_stderr": True,
}  # fmt: skip


def rules(tmp_path: Path, command: dict[str, Any]) -> set[str]:
    import json

    (tmp_path / "commands").mkdir()
    (tmp_path / "definitions").mkdir()
    (tmp_path / "commands/a.yaml").write_text(json.dumps(command, indent=1))
    return {finding.rule for finding in lint(load_profiles(tmp_path))}


@pytest.mark.parametrize("field", ["id", "command", "arg_schema", "timeout_seconds", "effects"])
def test_EX_03_each_field_without_a_safe_default_must_be_there(tmp_path: Path, field: str) -> None:
    without = {name: value for name, value in WHOLE.items() if name != field}
    if field in ("id", "command"):
        with pytest.raises(HostlerError, match=f"missing required field `{field}`"):
            rules(tmp_path, without)
    else:
        assert rules(tmp_path, without), f"a profile without {field} passes"


def test_EX_03_what_may_be_left_out_means_the_least(tmp_path: Path) -> None:
    """No base args, no environment, the unprivileged user, no retry."""
    assert rules(tmp_path, WHOLE) == set()
    least = command_profile_from({"id": "x", "command": "/usr/bin/true"})
    assert (least.base_args, least.env_passthrough, least.env, least.run_as, least.retries) == ((), (), {}, "", 0)


@pytest.mark.parametrize("field", ["shell", "script", "cmd", "user", "stdin"])
def test_EX_03_a_field_that_does_not_exist_is_refused(field: str) -> None:
    with pytest.raises(HostlerError) as caught:
        command_profile_from(WHOLE | {field: "x"})
    assert caught.value.code == "invalid_definition"


def test_EX_04_the_resolved_form_of_the_seed_loads_unchanged() -> None:
    profile = command_profile_from(NVIDIA_SMI_HEALTH)
    assert build_argv(profile, {}) == ("/usr/bin/nvidia-smi", *NVIDIA_SMI_HEALTH["allowed_args"])
    assert (profile.arg_schema, profile.timeout_seconds) == ({}, 30)


@pytest.mark.parametrize("name", ["sh", "bash", "python3.12", "env", "xargs", "sudo", "nsenter", "find", "busybox"])
def test_EX_06_a_shell_and_what_runs_other_programs_is_no_command(tmp_path: Path, name: str) -> None:
    assert "interpreter" in rules(tmp_path, WHOLE | {"command": f"/usr/bin/{name}"})


async def test_EX_07_a_child_sees_the_allowed_names_and_nothing_of_the_agent_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hostler.agent.host.execute import environment

    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "AWS_SECRET_ACCESS_KEY", "HOME"):
        monkeypatch.setenv(name, "/x")
    monkeypatch.setenv("LANG", "C.UTF-8")
    async with host_in(tmp_path) as host:
        assert isinstance(host, Host)
        done = await run(host, "/usr/bin/env", env=environment(["LANG", "NOT_SET"], {"FIXED": "1"}), run_as=ME)
    assert sorted(done.stdout.split()) == ["FIXED=1", "LANG=C.UTF-8"]
