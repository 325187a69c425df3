"""The command line: help, exit codes, one-sentence errors; what works on files works without a server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from hostler.cli.main import GROUPS, main

PROFILES = Path(__file__).resolve().parents[3] / "profiles"


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, list(arguments), input=stdin, env={"HOSTLER_CONFIG": None})


def commands() -> Iterator[tuple[str, ...]]:
    """Groups and what is in them, however deep."""
    for name in GROUPS:
        yield from _below((name,))


def _below(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(group := command_at(path), click.Group):
        for name in group.list_commands(click.Context(group)):
            yield from _below((*path, name))


def command_at(path: tuple[str, ...]) -> click.Command:
    command: click.Command | None = main
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    return command


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_every_command_has_help_that_says_something(path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) >= 4
    described = result.output.split("\n\n")[1].strip()
    assert described
    assert not described.startswith("Options")


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_every_option_says_what_it_is_for(path: tuple[str, ...]) -> None:
    command = command_at(path)
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert [each.opts for each in options if not (each.help or "").partition("[")[0]] == []


def test_help_comes_without_loading_what_it_does_not_need() -> None:
    code = (
        "import sys\nfrom hostler.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'httpx', 'grpc', 'rich', 'yaml', 'jsonschema_rs', 'cryptography'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_HOSTLER_COMPLETE" in result.output


def test_a_server_that_does_not_answer_is_exit_code_three(tmp_path: Path) -> None:
    result = run("--server", "http://127.0.0.1:1", "--project", "p", "operations", "list")
    assert result.exit_code == 3
    assert "[controller_unreachable]" in result.output


def test_a_missing_project_is_wrong_usage() -> None:
    result = run("operations", "list")
    assert result.exit_code == 2
    assert "--project" in result.output


@pytest.mark.parametrize(
    "text",
    ["server = ", 'server = "x"\nsevrer = "y"\n', "server = 1\n", "\x00", 'server = "http://a"\n[proj'],
    ids=["half-written", "unknown key", "wrong type", "binary", "cut off"],
)
def test_a_broken_configuration_is_one_sentence_and_exit_code_two(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    result = run("--config", str(path), "operations", "list")
    assert result.exit_code == 2
    assert "[invalid_config]" in result.output
    assert "Traceback" not in result.output
    assert str(path) in result.output


def test_a_token_file_that_others_can_read_is_refused_and_not_shown(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("hsb1_very-secret")
    token.chmod(0o644)
    result = run("--token-file", str(token), "--project", "p", "operations", "list")
    assert result.exit_code == 2
    assert "chmod 600" in result.output
    assert "very-secret" not in result.output


def test_PF_12_lint_names_file_line_and_rule_and_exits_one(tmp_path: Path) -> None:
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "bad.yaml").write_text(
        "type: a\nversion: v1\ninputs: {type: object, additionalProperties: false}\ncapabilities: {}\n"
        "steps:\n  - {id: x, kind: command.exec, params: {script: rm}}\n"
    )
    result = run("profiles", "lint", str(tmp_path))
    assert result.exit_code == 1
    assert "bad.yaml:6: [step-kind]" in result.output
    as_json = run("profiles", "lint", str(tmp_path), "--output", "json")
    assert {finding["rule"] for finding in json.loads(as_json.output)} == {"step-kind", "capabilities"}


def test_broken_yaml_is_one_sentence_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "bad.yaml").write_text("type: a\ntype: b\n")
    result = run("profiles", "lint", str(tmp_path))
    assert result.exit_code == 2
    assert "line 2" in result.output
    assert "[invalid_yaml]" in result.output


def test_the_shipped_profiles_lint_clean() -> None:
    assert run("profiles", "lint", str(PROFILES)).exit_code == 0


def test_the_ceremony_and_a_signed_catalog_work_offline_and_overwrite_nothing(tmp_path: Path) -> None:
    pki, bundle = tmp_path / "pki", tmp_path / "catalog.json"
    assert run("pki", "init", str(pki), "--trust-domain", "unit.test").exit_code == 0
    again = run("pki", "init", str(pki), "--trust-domain", "unit.test")
    assert again.exit_code == 1
    assert "[already_initialised]" in again.output
    signed = run("profiles", "sign", str(PROFILES), "--key", str(pki / "catalog/catalog.key"), "-o", str(bundle))
    assert signed.exit_code == 0, signed.output
    assert json.loads(bundle.read_bytes())["manifest"]["signatures"]
    shown = run("pki", "show", str(pki), "--output", "json")
    assert json.loads(shown.output)["trust_domain"] == "unit.test"
    (pki / "catalog/catalog.key").chmod(0o644)
    refused = run("profiles", "sign", str(PROFILES), "--key", str(pki / "catalog/catalog.key"), "-o", str(bundle))
    assert refused.exit_code == 2


@pytest.mark.parametrize("text", ["", "{}", "null", "[" * 5000])
def test_what_is_no_audit_bundle_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "audit.json"
    path.write_text(text)
    result = run("audit", "verify", str(path))
    assert result.exit_code == 1
    assert "Traceback" not in result.output


def test_J3_a_verdict_is_printed_whatever_time_a_checkpoint_claims(tmp_path: Path) -> None:
    from support.ledger import Ledger

    ledger = Ledger().grow("nod_a", 2)
    ledger.checkpoint(at_ms=10**18)
    whole, cut = tmp_path / "whole.json", tmp_path / "cut.json"
    whole.write_bytes(ledger.bundle())
    ledger.chains["nod_a"].pop()
    cut.write_bytes(ledger.bundle())
    good, bad = run("audit", "verify", str(whole)), run("audit", "verify", str(cut))
    assert (good.exit_code, bad.exit_code) == (0, 1)
    assert "nod_a  2 receipts, 2 under a checkpoint, 0 witnessed" in good.output
    assert "nod_a  receipt 1: receipts 1 to 1 are missing" in bad.output
    assert all("checkpoint 0 of 1000000000000000000 ms" in each.output for each in (good, bad))


@pytest.mark.parametrize(
    "arguments",
    [
        ["submit", "no-version", "--node", "a"],
        ["submit", "a@v1"],
        ["submit", "a@v1", "--node", "a", "-i", "novalue"],
        ["submit", "a@v1", "--node", "a", "-i", "x:={"],
        ["submit", "a@v1", "--label", "novalue"],
    ],
)
def test_wrong_usage_of_submit_is_exit_code_two_and_sends_nothing(arguments: list[str]) -> None:
    result = run("--server", "http://127.0.0.1:1", "--project", "p", "operations", *arguments)
    assert result.exit_code == 2, result.output


@pytest.mark.parametrize("text", ["- a\n", "a: [", "just text"])
def test_a_broken_input_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "inputs.yaml"
    path.write_text(text)
    arguments = ["operations", "submit", "a@v1", "--node", "a", "--input-file", str(path)]
    result = run("--server", "http://127.0.0.1:1", "--project", "p", *arguments)
    assert result.exit_code == 2
    assert "[invalid_yaml]" in result.output
    assert str(path) in result.output


def test_X1_what_a_task_wrote_does_not_act_on_the_readers_terminal() -> None:
    from hostler.cli.output import harmless

    assert harmless("\x1b]0;title\x07 a\tb \x9b2J \u00fc") == "\\x1b]0;title\\x07 a\tb \\x9b2J \u00fc"


def test_X1_nor_does_what_a_task_or_a_node_says_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """Its error, its progress, its name: in tables, on the time line and in refusals."""
    from hostler.base.errors import error
    from hostler.cli.output import print_error, table
    from hostler.cli.watch import print_operation

    evil = "\x1b]52;c;b3du\x07[red]x[/red]"
    step = {"step_id": "run", "status": "failed"}
    task = {
        "node_name": "gpu-1", "task_id": "tsk_1", "status": "failed", "steps": [step], "waiting_for": evil,
        "error_code": "exit_status", "error_message": evil, "error_hint": evil,
    }  # fmt: skip
    print_operation({"operation_id": "op_1", "status": "failed", "tasks": [task]})
    table(("WHY",), [(evil,)])
    print_error(error("container_failed", evil, hint=evil), "text")
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert shown.out.count("\\x1b]52;c;b3du\\x07[red]x[/red]") == 4
    assert shown.err.count("\\x1b]52;c;b3du\\x07[red]x[/red]") == 2
