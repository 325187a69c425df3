"""PF-12, EX-09: a rehearsal runs a profile through the real parts, stays inside its root, and says what happened."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.main import main
from hostler.agent.rehearse import MAX_INPUTS, Rehearsal, read_inputs, rehearse
from hostler.agent.rehearse_scope import CONFINED, beyond_root, check_scope
from hostler.agent.rehearse_tell import Told
from hostler.base.errors import HostlerError
from hostler.catalog.definition import StepTemplate
from hostler.catalog.kinds import KINDS
from hostler.catalog.load import load_profiles
from support.builders import definition

SHIPPED = Path(__file__).resolve().parents[3] / "profiles"
WRITE = {"id": "write", "kind": "file.render", "params": {"path": "/etc/app", "template": "{{ text }}\n"}}
WRITE["params"] = WRITE["params"] | {"variables": {"text": "${inputs.text}"}}  # type: ignore[dict-item]
CHECK = {"id": "check", "kind": "health.check", "params": {"checks": [{"type": "file", "path": "/etc/app"}]}}
NOOP = {"id": "noop", "kind": "command.exec_allowlisted", "params": {"profile": "touch"}}


def profiles(folder: Path, *steps: dict[str, Any], **more: Any) -> Path:
    """A directory with `demo.try@v1`, and the command profile `touch` that leaves a mark."""
    mark = folder / "mark"
    document = {
        "type": "demo.try",
        "version": "v1",
        "inputs": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"text": {"type": "string", "default": "hello"}},
        },
        "capabilities": {"os.kernel": "linux"},
        "steps": steps or (WRITE, CHECK),
    } | more
    command = {"id": "touch", "command": "/usr/bin/touch", "args": [str(mark)], "timeout_seconds": 5}
    command |= {"effects": {"writes": [str(folder)]}, "run_as": ""}
    for name, value in (("definitions", document), ("commands", command)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "a.yaml").write_text(json.dumps(value))
    return folder


def tried(wanted: Rehearsal) -> tuple[Told, list[str]]:
    lines: list[str] = []
    return asyncio.run(rehearse(wanted, lines.append)).told, lines


def code_of(wanted: Rehearsal) -> str:
    with pytest.raises(HostlerError) as raised:
        tried(wanted)
    return raised.value.code


def test_it_plans_runs_and_verifies_its_receipts(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    told, lines = tried(Rehearsal(profiles=profiles(tmp_path), ref="demo.try@v1", inputs={"text": "hi"}, root=root))
    assert told.ok
    assert (root / "etc/app").read_text() == "hi\n"
    assert [step["status"] for step in told.steps] == ["succeeded", "succeeded"]
    assert [step["plan"]["changes"][0]["action"] for step in told.planned] == ["create", "check"]
    assert [receipt["step_id"] for receipt in told.receipts] == ["write", "check"]
    assert told.chain is not None
    assert told.chain.length == 2
    assert any(line.strip() == "+hi" for line in lines)
    assert any("check file /etc/app passed" in line for line in lines)
    assert lines[-1] == "receipts    2, signed and chained"


def test_a_plan_leaves_nothing_behind(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    told, _ = tried(Rehearsal(profiles=profiles(tmp_path), ref="demo.try@v1", inputs={}, root=root, plan=True))
    assert (told.ok, told.mode, told.status) == (True, "plan", "planned")
    assert list(root.iterdir()) == []


def test_a_root_of_its_own_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    assert tried(Rehearsal(profiles=profiles(tmp_path), ref="demo.try@v1", inputs={}))[0].ok
    assert list(scratch.iterdir()) == []


def test_a_step_that_fails_is_told_with_its_code_and_the_receipts_before_it(tmp_path: Path) -> None:
    red = CHECK | {"params": {"checks": [{"type": "file", "path": "/absent"}]}}
    told, lines = tried(Rehearsal(profiles=profiles(tmp_path, WRITE, red), ref="demo.try@v1", inputs={}))
    assert (told.ok, told.status, told.error_code) == (False, "failed", "health_red")
    assert [receipt["status"] for receipt in told.receipts] == ["succeeded", "failed"]
    assert any("[health_red]" in line for line in lines)


def test_the_real_admission_says_no(tmp_path: Path) -> None:
    needs = {"os.kernel": "plan9"}
    folder = profiles(tmp_path, capabilities=needs)
    told, lines = tried(Rehearsal(profiles=folder, ref="demo.try@v1", inputs={}))
    assert (told.ok, told.status, told.error_code) == (False, "refused", "incompatible")
    assert told.receipts[0]["gate"] == "capability"
    assert not any("admitted" in line for line in lines)
    assert tried(Rehearsal(profiles=folder, ref="demo.try@v1", inputs={}, more=needs))[0].ok


def test_an_approved_plan_is_asked_for_and_given(tmp_path: Path) -> None:
    folder = profiles(tmp_path, require_plan_approval=True)
    told, _ = tried(Rehearsal(profiles=folder, ref="demo.try@v1", inputs={}))
    assert told.ok
    assert told.receipts[0]["approved_plan_digest"] == told.plan_digest != ""


def test_what_does_not_start_says_why(tmp_path: Path) -> None:
    folder = profiles(tmp_path)
    assert code_of(Rehearsal(profiles=folder, ref="demo.other@v1", inputs={})) == "unknown_definition"
    assert code_of(Rehearsal(profiles=folder, ref="demo.try@v1", inputs={"text": 7})) == "input_schema"
    root = Path("/")
    assert code_of(Rehearsal(profiles=folder, ref="demo.try@v1", inputs={}, root=root)) == "invalid_config"
    link = tmp_path / "link"
    link.symlink_to("/")
    assert code_of(Rehearsal(profiles=folder, ref="demo.try@v1", inputs={}, root=link)) == "invalid_config"
    absent = tmp_path / "absent"
    assert code_of(Rehearsal(profiles=folder, ref="demo.try@v1", inputs={}, root=absent)) == "invalid_config"
    other = profiles(tmp_path, backend_type="k8s_adapter")
    assert code_of(Rehearsal(profiles=other, ref="demo.try@v1", inputs={})) == "backend_not_implemented"
    broken = profiles(tmp_path, WRITE, WRITE)
    with pytest.raises(HostlerError, match=r"a\.yaml:1: \[step-id\]"):
        tried(Rehearsal(profiles=broken, ref="demo.try@v1", inputs={}))


def test_EX_09_a_command_runs_only_when_the_machine_itself_is_allowed(tmp_path: Path) -> None:
    folder = profiles(tmp_path, NOOP)
    (folder / "mark").touch()  # Landlock is given places that are there
    os.truncate(folder / "mark", 0)
    os.utime(folder / "mark", (1, 1))
    wanted = Rehearsal(profiles=folder, ref="demo.try@v1", inputs={})
    with pytest.raises(HostlerError, match="commands run on the real machine") as raised:
        tried(wanted)
    assert raised.value.code == "beyond_scratch_root"
    assert "--allow-host" in raised.value.hint
    assert (folder / "mark").stat().st_mtime == 1


@pytest.mark.parametrize("kind", sorted(set(KINDS) - CONFINED))
def test_every_kind_that_reaches_the_machine_is_refused_with_a_reason(kind: str) -> None:
    step = StepTemplate(id="x", kind=kind, params={})
    assert beyond_root(step, {})
    with pytest.raises(HostlerError, match=kind):
        check_scope(definition(step), {})


@pytest.mark.parametrize("kind", sorted(CONFINED))
def test_every_other_kind_may_be_rehearsed(kind: str) -> None:
    assert kind in KINDS
    assert not KINDS[kind].destructive
    assert beyond_root(StepTemplate(id="x", kind=kind, params={}), {}) == ""


def test_what_a_step_is_told_decides_too() -> None:
    command = StepTemplate(id="x", kind="health.check", params={"checks": [{"type": "command", "profile": "show"}]})
    assert beyond_root(command, {})
    pull = StepTemplate(id="x", kind="artifact.pull_oci", params={"place": "${inputs.place}"})
    assert beyond_root(pull, {"place": "containerd"})
    assert beyond_root(pull, {})
    assert beyond_root(pull, {"place": "files"}) == ""
    with pytest.raises(HostlerError, match="destroys"):
        check_scope(definition(destructive=True), {})


def test_every_shipped_profile_is_refused_or_stays_inside(tmp_path: Path) -> None:
    """What may be rehearsed of the shipped profiles is known: a new one has to be looked at."""
    inside = set()
    for each, _ in load_profiles(SHIPPED).definitions:
        if not any(beyond_root(step, {}) for step in each.steps) and not each.destructive:
            inside.add(each.ref)
    assert inside == {
        "model.artifact.stage@v1",
        "network.fabric.ready@v1",
        "node.agent.verify@v1",
        "node.resolver.apply@v1",
        "node.task.probe@v1",
    }


def test_inputs_are_bounded_and_an_object(tmp_path: Path) -> None:
    file = tmp_path / "inputs"
    for content in (b"[]", b"{", b" " * (MAX_INPUTS + 1)):
        file.write_bytes(content)
        with pytest.raises(HostlerError) as raised:
            read_inputs(str(file))
        assert raised.value.code == "invalid_request"
    with pytest.raises(HostlerError) as raised:
        read_inputs(str(tmp_path / "absent"))
    assert raised.value.code == "file_error"
    assert read_inputs("") == {}


def test_what_a_profile_says_cannot_steer_a_terminal(tmp_path: Path) -> None:
    _, lines = tried(
        Rehearsal(profiles=profiles(tmp_path), ref="demo.try@v1", inputs={"text": "\x1b[2Jgone\r\u202e"}, plan=True)
    )
    assert all(line.isprintable() for line in lines)
    assert any("gone" in line for line in lines)


def test_a_signal_cancels_the_task_and_its_end_is_told(tmp_path: Path) -> None:
    slow = CHECK | {"params": {"within_seconds": 3000, "checks": [{"type": "file", "path": "/absent"}]}}
    lines: list[str] = []

    def tell(line: str) -> None:
        lines.append(line)
        if line.startswith("running     check"):
            os.kill(os.getpid(), signal.SIGINT)

    wanted = Rehearsal(profiles=profiles(tmp_path, WRITE, slow), ref="demo.try@v1", inputs={})
    told = asyncio.run(rehearse(wanted, tell)).told
    assert (told.ok, told.status) == (False, "canceled")
    assert len(told.receipts) == 2


def test_the_program_prints_json_and_exits_by_the_outcome(tmp_path: Path, capsysbinary: Any) -> None:
    folder = profiles(tmp_path)
    assert main(["try", str(folder), "demo.try@v1", "--json"]) == 0
    told = json.loads(capsysbinary.readouterr().out)
    assert (told["status"], told["chain"]["ok"]) == ("succeeded", True)
    folder = profiles(tmp_path, CHECK)
    assert main(["try", str(folder), "demo.try@v1"]) == 1
    assert b"[health_red]" in capsysbinary.readouterr().out
    assert main(["try", str(folder), "demo.try@v1", "--root", "/"]) == 2
    assert main(["try", str(folder), "demo.try@v1", "--capability", "x"]) == 2
