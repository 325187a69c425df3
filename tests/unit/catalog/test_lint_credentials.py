"""What a mint step must keep before anybody signs it: CR-02, CR-03, CR-07."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostler.catalog.lint import lint
from hostler.catalog.load import load_profiles

INTENT = {"endpoint": "https://hub.test", "repository": "${inputs.name}"}
PARAMS: dict[str, Any] = {"credential_type": "hf_token", "intent": INTENT, "for_steps": ["use"]}


def findings(tmp_path: Path, params: dict[str, Any] | None = None, **step: Any) -> list[str]:
    uses = {"checks": [{"type": "tcp", "host": "${steps.mint.handle}", "port": 1}]}
    other = uses if step.pop("other", None) else {"checks": []}
    mint = {"id": "mint", "kind": "credential.mint", "params": PARAMS | (params or {}), "reusable": False} | step
    definition = {
        "type": "unit.test",
        "version": "v1",
        "inputs": {"type": "object", "additionalProperties": False, "properties": {"name": {"type": "string"}}},
        "capabilities": {"os.kernel": "linux"},
        "steps": [
            {"id": "first", "kind": "health.check", "params": {"checks": []}},
            mint,
            {"id": "use", "kind": "health.check", "params": {"checks": []}},
            {"id": "other", "kind": "health.check", "params": other},
        ],
    }
    (tmp_path / "definitions").mkdir()
    (tmp_path / "commands").mkdir()
    (tmp_path / "definitions" / "one.yaml").write_text(json.dumps(definition))
    return [f"{found.rule}: {found.message}" for found in lint(load_profiles(tmp_path)) if found.rule == "credentials"]


def test_a_good_one_has_nothing_to_mend(tmp_path: Path) -> None:
    assert findings(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "step", "said"),
    [
        ({"credential_type": "root"}, {}, "no credential type 'root'"),
        ({"for_steps": ["first"]}, {}, "'first' is no later step"),
        ({"for_steps": ["mint"]}, {}, "'mint' is no later step"),
        ({"for_steps": "${inputs.name}"}, {}, "named outright"),
        ({}, {"reusable": True}, "is reusable"),
        ({}, {"other": True}, "'other' uses the credential and is not named"),
        ({"intent": {**INTENT, "repository": "${steps.first.results}"}}, {}, "output of a step"),
        ({"intent": {"endpoint": "http://x", "repository": "a"}}, {}, "intent of hf_token"),
        ({"intent": {"repository": "a", "more": "b"}}, {}, "intent of hf_token"),
        ({"intent": "${inputs.name}"}, {}, "written out"),
    ],
)
def test_CR_02_what_must_not_be_signed_is_found(
    tmp_path: Path, changes: dict[str, Any], step: dict[str, Any], said: str
) -> None:
    assert any(said in found for found in findings(tmp_path, changes, **step))
