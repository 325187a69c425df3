"""`hostler-control policy`: rules tried out before they count (OD-35)."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostler.control.main import main

ROOT = Path(__file__).resolve().parents[4]
EXAMPLE = ROOT / "control" / "policy.example.rego"


@pytest.fixture
def question(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["policy", "question"]) == 0
    asked: dict[str, Any] = json.loads(capsys.readouterr().out)
    return asked


def test_it_says_what_the_rules_say(
    question: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "question.json"
    path.write_text(json.dumps(question))
    assert main(["policy", "test", "--file", str(EXAMPLE), str(path)]) == 0
    assert capsys.readouterr().out == "allowed\n"
    path.write_text(json.dumps(question | {"sources": {"pull.uri": "https://elsewhere.example.org/"}}))
    assert main(["policy", "test", "--file", str(EXAMPLE), str(path)]) == 1
    assert capsys.readouterr().out == "refused: pull.uri fetches from a store that is not ours\n"
    assert main(["policy", "test", "--file", str(EXAMPLE), "--query", "data.other.deny", str(path)]) == 2
    assert "data.other.deny is undefined" in capsys.readouterr().err


def test_the_configured_rules_are_the_default_and_a_wrong_question_is_named(
    question: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, path = tmp_path / "control.toml", tmp_path / "question.json"
    config.write_text("")
    path.write_text(json.dumps(question))
    assert main(["policy", "test", "--config", str(config), str(path)]) == 2
    assert "has no [policy_engine]" in capsys.readouterr().err
    config.write_text(f'[policy_engine]\nfiles = ["{EXAMPLE}"]\n')
    assert main(["policy", "test", "--config", str(config), str(path)]) == 0
    path.write_text(json.dumps(question | {"actro": "ann"}))
    assert main(["policy", "test", "--config", str(config), str(path)]) == 1
    assert "actro" in capsys.readouterr().err
    path.write_text(json.dumps(question))
    config.write_text("[policy_engine]\nfiles = []\n")
    assert main(["policy", "test", "--config", str(config), str(path)]) == 2
