"""OP-12: a new service needs a new YAML file. The house serves, the agent runs; then the profile is written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.cli.demo_files import builtin_profiles
from support.house import House, open_house

pytestmark = [pytest.mark.timeout(90), pytest.mark.xdist_group("house-op12")]
PROFILE = """\
# Written while everything runs; no line of code knows its name.
type: unit.greeting
version: v1
description: Leave a greeting, look at it, and say how big the folder is
inputs:
  type: object
  additionalProperties: false
  required: [who]
  properties:
    who: {type: string, pattern: "^[A-Za-z ]{1,40}$"}
capabilities: {os.kernel: linux}
steps:
  - id: write
    kind: file.render
    params:
      path: /srv/greeting
      template: "hello {{ who }}\\n"
      variables: {who: "${inputs.who}"}
  - id: ready
    kind: health.check
    params:
      checks:
        - {type: file, path: "${steps.write.path}", sha256: "${steps.write.sha256}"}
  - id: count
    kind: command.exec_allowlisted
    params:
      profile: unit_word_count
      args: {text: "${steps.write.sha256}"}
"""
COMMAND = """\
id: unit_word_count
command: /usr/bin/expr
base_args: ["length"]
args: ["${text}"]
arg_schema:
  text: {type: string, pattern: "^[0-9a-f]{64}$"}
timeout_seconds: 10
effects: {}
"""


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as made:
        made.serve()
        made.enrol("a")
        made.start("a")
        yield made


def test_OP_12_a_profile_written_at_run_time_runs_without_a_change_of_code(house: House, tmp_path: Path) -> None:
    processes = dict(house.pids)
    profiles = tmp_path / "profiles"
    for name, text in (("definitions/greeting", PROFILE), ("commands/count", COMMAND)):
        (profiles / name).parent.mkdir(parents=True, exist_ok=True)
        (profiles / f"{name}.yaml").write_text(text)
    for file in sorted(builtin_profiles().glob("*/*.yaml")):  # a catalog holds all that may run
        target = profiles / file.parent.name / file.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(file.read_bytes())

    assert "are in order" in house.cli("profiles", "lint", str(profiles))
    tried = house.cli("profiles", "test", str(profiles / "definitions/greeting.yaml"), "-i", "who=you", "--allow-host")
    assert "receipts    3, signed and chained" in tried
    keys = [word for key in sorted((house.home / "pki/catalog").glob("*.key")) for word in ("--key", str(key))]
    house.cli("profiles", "sign", str(profiles), *keys, "--version", "2", "-o", str(tmp_path / "catalog.json"))
    assert "new: unit.greeting@v1" in house.cli("profiles", "publish", str(tmp_path / "catalog.json"))

    done = house.finished(house.submit("unit.greeting@v1", {"who": "world"}))
    assert done["status"] == "succeeded", done
    assert (house.home / "a/root/srv/greeting").read_text() == "hello world\n"
    steps = [(step["step_id"], step["status"]) for step in done["tasks"][0]["steps"]]
    assert steps == [("write", "succeeded"), ("ready", "succeeded"), ("count", "succeeded")]
    assert [receipt["step_id"] for receipt in house.receipts(done["operation_id"])] == ["write", "ready", "count"]
    assert house.pids == processes  # nothing was started again
    assert house.finished(house.submit("node.smoke.noop@v1"))["status"] == "succeeded"
