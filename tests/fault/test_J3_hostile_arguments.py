"""J3: no value becomes an option, a second argument or a command: refused at submit, and by the node in any case."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.admission.verdict import Refusal
from hostler.base.errors import HostlerError
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import StepTemplate
from support import builders
from support.agent import core
from support.commands import ME
from support.house import House, open_house

SAFE = {"type": "string", "pattern": "^/[A-Za-z0-9._/-]*$", "maxLength": 200}
LOOSE = {"type": "string"}
HOSTILE = {
    "dash": "-rf",
    "long option": "--reference=/etc/shadow",
    "dash after space": " -x",
    "NUL": "/a\0b",
    "newline": "/a\nb",
    "newline at the end": "/a\n",
    "return": "/a\rb",
    "escape": "/a\x1b[2J",
    "substitution": "/a$(touch /tmp/x)",
    "backticks": "/a`id`",
    "semicolon": "/a;id",
    "1 MB": "/" + "x" * 1_000_000,
    "look-alike": "/еtc/passwd",
    "full width slash": "／etc",
    "zero width": "/a\u200bb",
    "right to left": "/a\u202eb",
    "not in normal form": "/e\u0301",
    "space that is none": "/a\u00a0b",
    "empty": "",
    "a list": ["/a", "-rf"],
    "an object": {"a": "/a"},
    "a number": 1,
    "true": True,
    "null": None,
    "a binding": "${inputs.other}",
}
# For the schema that lets everything through the argument's own rules decide; these are then plain text.
JUST_TEXT = {"dash after space", "substitution", "backticks", "semicolon", "empty", "a binding", "a number"}


def documents(schema: dict[str, Any], marker: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    command = {
        "id": "touch",
        "command": "/usr/bin/touch",
        "base_args": [str(marker)],
        "args": ["${path}"],
        "arg_schema": {"path": {} if schema is LOOSE else schema},
        "run_as": ME,
        "timeout_seconds": 5,
    }
    definition = {
        "type": "unit.touch",
        "version": "v1",
        "inputs": {"type": "object", "additionalProperties": False, "properties": {"path": schema}},
        "capabilities": {"os.kernel": "linux"},
        "steps": [
            {
                "id": "one",
                "kind": "command.exec_allowlisted",
                "params": {"profile": "touch", "args": {"path": "${inputs.path}"}},
            }
        ],
    }
    return definition, command


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    marker = tmp_path_factory.mktemp("j3") / "marker"
    definition, command = documents(SAFE, marker)
    with open_house([definition], [command]) as made:
        made.marker = marker  # type: ignore[attr-defined]
        made.serve()
        made.enrol("a")
        made.start("a")
        yield made


@pytest.mark.xdist_group("house-j3")
@pytest.mark.timeout(60)
def test_J3_at_submit_every_hostile_value_is_refused_and_nothing_is_made(house: House) -> None:
    for name, value in HOSTILE.items():
        with pytest.raises(HostlerError) as caught:
            house.submit("unit.touch@v1", {"path": value})
        assert caught.value.code in ("input_schema", "too_large", "invalid_request"), name
        assert len(caught.value.message) < 1000, name
    assert house.client.call("GET", "/api/v1/projects/test/operations")["items"] == []
    assert not house.marker.exists()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("schema", ["strict", "loose", "of inputs alone"])
async def test_J3_a_taken_over_control_plane_cannot_pass_one_to_a_command(
    tmp_path: Path, name: str, schema: str
) -> None:
    marker = tmp_path / "marker"
    document, command = documents(LOOSE if schema == "loose" else SAFE, marker)
    if schema == "loose":
        document["inputs"]["properties"]["path"] = {}
    if schema == "of inputs alone":
        command["arg_schema"]["path"] = {}
    steps = [StepTemplate(**step) for step in document["steps"]]
    profile = CommandProfile(**{k: tuple(v) if isinstance(v, list) else v for k, v in command.items()})
    definition = builders.definition(*steps, inputs=document["inputs"])
    (tmp_path / "core").mkdir()
    async with core(tmp_path / "core", catalog=lambda k: builders.catalog(k, definition, commands=[profile])) as node:
        try:
            spec = builders.task(node.keys, node.catalog, inputs={"path": HOSTILE[name]})
            verdict = await node.deliver(builders.envelope(node.keys, spec))
            ends = [step.error_code for step in await node.step_reports() if step.receipt]
            assert node.chain().ok
        finally:
            await node.runner._parts.host.close()
    if schema == "loose" and name in JUST_TEXT:
        return  # one argument of plain text: that the program is told nothing else, EX-05 shows
    if isinstance(verdict, Refusal):
        assert verdict.error_code in ("input_schema", "malformed_envelope")
        assert ends == []
    else:
        assert ends == ["input_schema"]
    assert not marker.exists()
