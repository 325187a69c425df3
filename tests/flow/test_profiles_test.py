"""PF-12: `hostler profiles test` runs shipped and own profiles by the agent's own program, without a control plane."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.load import load_profiles
from hostler.cli import rehearse
from hostler.cli.demo_files import program

pytestmark = pytest.mark.timeout(60)
SHIPPED = Path(__file__).resolve().parents[2] / "profiles"
DEFINITIONS = SHIPPED / "definitions"
RENDER = """\
type: unit.render
version: v1
inputs:
  type: object
  additionalProperties: false
  required: [workers]
  properties:
    workers: {type: integer, minimum: 1}
capabilities: {os.kernel: linux}
steps:
  - id: config
    kind: file.render
    params:
      path: /srv/app/app.conf
      template: "workers = {{ workers }}\\n"
      variables: {workers: "${inputs.workers}"}
"""


def run(profile: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [program("hostler"), "profiles", "test", str(profile), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)


def told(profile: Path, *arguments: str) -> Any:
    done = run(profile, "--output", "json", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_file_that_lies_anywhere_is_run_and_its_second_run_changes_nothing(tmp_path: Path) -> None:
    profile, root = tmp_path / "mine.yaml", tmp_path / "root"
    profile.write_text(RENDER)
    root.mkdir()
    done = run(profile, "-i", "workers:=4", "--root", str(root))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (root / "srv/app/app.conf").read_text() == "workers = 4\n"
    for line in ("    +workers = 4", "running     config (file.render)", "receipts    1, signed and chained"):
        assert line in done.stdout.splitlines()
    again = told(profile, "-i", "workers:=4", "--root", str(root))
    assert (again["receipts"][0]["changed"], again["chain"]["ok"]) == (False, True)


def test_wrong_inputs_and_broken_profiles_end_with_one_sentence(tmp_path: Path) -> None:
    profile = tmp_path / "mine.yaml"
    profile.write_text(RENDER)
    done = run(profile, "-i", "workers=four")
    assert (done.returncode, "[input_schema]" in done.stderr) == (1, True)
    profile.write_text(RENDER.replace("file.render", "command.exec"))
    done = run(profile, "-i", "workers:=4")
    assert done.returncode == 1
    assert "mine.yaml:12: [step-kind]" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_shipped_profile_that_runs_commands_wants_the_machine(tmp_path: Path) -> None:
    noop = DEFINITIONS / "node.smoke.noop@v1.yaml"
    refused = run(noop)
    assert refused.returncode == 1
    assert "commands run on the real machine" in refused.stderr
    assert "--allow-host" in refused.stderr
    done = told(noop, "--allow-host")
    assert done["receipts"][0]["exit_status"] == 0


def test_a_shipped_profile_changes_the_resolver_of_the_rehearsal_only(tmp_path: Path) -> None:
    digest = load_profiles(SHIPPED).configs["default"].digest()
    done = told(DEFINITIONS / "node.resolver.apply@v1.yaml", "-i", "version:=1", "-i", f"digest={digest}")
    assert done["steps"][0]["outputs"] == {"config": "default", "digest": digest, "version": 1}


def test_a_shipped_profile_probes_the_machine_when_it_may(tmp_path: Path) -> None:
    checks = json.dumps([{"type": "disk", "path": "/", "name": "space"}])
    done = told(DEFINITIONS / "runtime.readiness.verify@v2.yaml", "--allow-host", "-i", f"checks:={checks}")
    assert [step["status"] for step in done["steps"]] == ["succeeded"] * 3
    assert done["steps"][0]["outputs"]["stdout"].split()[1] == os.uname().release


def test_a_shipped_profile_is_planned_without_asking_its_source(tmp_path: Path) -> None:
    inputs = {"url": "https://127.0.0.1:1/model", "sha256": "0" * 64, "path": "/srv/model"}
    given = [word for name, value in inputs.items() for word in ("-i", f"{name}={value}")]
    done = told(DEFINITIONS / "model.artifact.stage@v1.yaml", "--plan", *given)
    assert [step["plan"]["changes"][0]["action"] for step in done["planned"]][:2] == ["fetch", "deferred"]


def test_where_no_agent_is_installed_the_command_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostlerError, match="there is no hostler-agent"):
        rehearse.find_agent()
