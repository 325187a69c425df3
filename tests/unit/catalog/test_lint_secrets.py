"""What a profile must keep about secrets: CR-03, CR-04."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostler.catalog.lint import lint
from hostler.catalog.load import load_profiles

COMMAND: dict[str, Any] = {
    "id": "login",
    "command": "/usr/bin/stat",
    "args": ["--", "${password}"],
    "secret_files": ["password"],
    "secret_env": ["TOKEN"],
    "timeout_seconds": 5,
    "effects": {},
}
MINT = {"id": "mint", "reusable": False, "kind": "command.exec_allowlisted", "params": {"profile": "mint"}}
SECRETS = {"password": "${steps.mint.stdout}", "TOKEN": "${steps.mint.stdout}"}


def findings(tmp_path: Path, secrets: Any = None, mint: Any = None, **command: Any) -> list[str]:
    use = {
        "id": "use",
        "kind": "command.exec_allowlisted",
        "params": {"profile": "login", "secrets": secrets or SECRETS},
    }
    definition = {
        "type": "unit.test",
        "version": "v1",
        "inputs": {"type": "object", "additionalProperties": False, "properties": {"word": {"type": "string"}}},
        "capabilities": {"os.kernel": "linux"},
        "steps": [mint or MINT, use],
    }
    plain = {"id": "mint", "command": "/usr/bin/true", "timeout_seconds": 5, "effects": {}}
    for name, documents in (("definitions", [definition]), ("commands", [COMMAND | command, plain])):
        (tmp_path / name).mkdir()
        for number, document in enumerate(documents):
            (tmp_path / name / f"{number}.yaml").write_text(json.dumps(document, indent=1))
    return [f"{found.rule}: {found.message}" for found in lint(load_profiles(tmp_path))]


def test_a_step_that_gives_its_command_what_it_takes_has_no_finding(tmp_path: Path) -> None:
    assert findings(tmp_path) == []


@pytest.mark.parametrize(
    "secrets",
    [
        {"password": "hunter2", "TOKEN": "${steps.mint.stdout}"},
        {"password": "${inputs.word}", "TOKEN": "${steps.mint.stdout}"},
        {"password": "${steps.mint.stdout}"},
        SECRETS | {"more": "${steps.mint.stdout}"},
        "${steps.mint.stdout}",
    ],
)
def test_CR_03_a_secret_comes_from_a_step_and_goes_where_the_profile_says(tmp_path: Path, secrets: Any) -> None:
    assert [found for found in findings(tmp_path, secrets) if found.startswith("secrets: ")]


def test_CR_03_what_a_secret_comes_from_is_not_reusable(tmp_path: Path) -> None:
    assert "secrets: step 'mint' is reusable, and the secret it makes is not" in findings(
        tmp_path, mint=MINT | {"reusable": True}
    )


@pytest.mark.parametrize(
    "change",
    [
        {"args": ["--"]},
        {"arg_schema": {"password": {"type": "string"}}},
        {"secret_env": ["password"]},
        {"secret_env": ["A-B"]},
        {"secret_env": ["TOKEN", "TOKEN"]},
        {"env": {"TOKEN": "x"}},
        {"env_passthrough": ["TOKEN"]},
        {"secret_env": [f"T{n}" for n in range(8)]},
    ],
)
def test_CR_04_a_profile_whose_secrets_are_unclear_is_found(tmp_path: Path, change: dict[str, Any]) -> None:
    assert [found for found in findings(tmp_path, **change) if found.startswith("secrets: ")]


def test_J4_a_secret_cannot_fill_a_variable_that_changes_what_runs(tmp_path: Path) -> None:
    assert [found for found in findings(tmp_path, secret_env=["LD_PRELOAD"]) if found.startswith("environment: ")]
