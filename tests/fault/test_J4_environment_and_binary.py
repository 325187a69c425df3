"""J4: nothing of the agent's environment reaches a command, and a pinned executable that was replaced does not run."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.cli.demo_files import program
from support.house import PATH, House, open_house

HOSTILE = {
    "LD_LIBRARY_PATH": "/nowhere",
    "LD_BIND_NOW": "1",
    "PATH": "/nowhere/evil:/usr/bin",
    "PYTHONPATH": "/nowhere",
    "PYTHONSTARTUP": "/nowhere",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "BASH_ENV": "/nowhere",
    "GCONV_PATH": "/nowhere",
    "HOSTLER_SECRET": "canary",
}


def definition(profile: str) -> dict[str, Any]:
    return {
        "type": f"unit.{profile}",
        "version": "v1",
        "inputs": {"type": "object", "additionalProperties": False, "properties": {}},
        "capabilities": {"os.kernel": "linux"},
        "steps": [{"id": "one", "kind": "command.exec_allowlisted", "params": {"profile": profile}}],
    }


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("j4")
    for each in (folder, *list(folder.parents)[:3]):
        each.chmod(0o755)
    tool = folder / "tool"
    shutil.copy("/usr/bin/echo", tool)
    commands: list[dict[str, Any]] = [
        {"id": "shows", "command": "/usr/bin/cat", "base_args": ["/proc/self/environ"], "timeout_seconds": 5},
        {"id": "fixed", "command": "/usr/bin/cat", "base_args": ["/proc/self/environ"], "env": {"A": "b"},
         "env_passthrough": ["HOSTLER_SECRET"], "timeout_seconds": 5},
        {"id": "pinned", "command": str(tool), "base_args": ["the one that was registered"], "timeout_seconds": 5,
         "sha256": hashlib.sha256(tool.read_bytes()).hexdigest()},
    ]  # fmt: skip
    hostile = ["/usr/bin/env", *(f"{name}={value}" for name, value in HOSTILE.items())]

    def programs(name: str) -> list[str]:
        return [*(hostile if name == "hostler-agent" else []), program(name)]

    with open_house([definition(command["id"]) for command in commands], commands, programs) as made:
        made.tool = tool  # type: ignore[attr-defined]
        made.serve()
        made.enrol("a")
        made.start("a")
        yield made


pytestmark = [pytest.mark.xdist_group("house-j4"), pytest.mark.timeout(60)]


def printed(house: House, ref: str) -> tuple[dict[str, Any], str]:
    operation = house.finished(house.submit(f"unit.{ref}@v1"))
    found = house.client.call("GET", f"{PATH}/{operation['operation_id']}/logs")["items"]
    return operation, "".join(line["text"] for line in found)


def test_J4_of_the_agent_s_environment_nothing_reaches_the_command(house: House) -> None:
    agent = Path(f"/proc/{house.pids['a']}/environ").read_bytes()
    assert b"NVIDIA_VISIBLE_DEVICES=all" in agent  # otherwise this shows nothing
    operation, text = printed(house, "shows")
    assert (operation["status"], text) == ("succeeded", "")


def test_J4_what_the_signed_profile_names_reaches_it_and_no_more(house: House) -> None:
    operation, text = printed(house, "fixed")
    assert operation["status"] == "succeeded"
    assert sorted(filter(None, text.split("\0"))) == ["A=b", "HOSTLER_SECRET=canary"]


def test_J4_an_executable_replaced_after_it_was_registered_does_not_run(house: House) -> None:
    tool: Path = house.tool  # type: ignore[attr-defined]
    good = tool.read_bytes()
    assert printed(house, "pinned")[1] == "the one that was registered"
    try:
        for evil in (Path("/usr/bin/printf").read_bytes(), good + b"\0", b"#!/bin/sh\ntouch /nowhere\n", b""):
            tool.unlink()
            tool.write_bytes(evil)
            tool.chmod(0o755)
            operation, text = printed(house, "pinned")
            assert operation["status"] == "failed"
            assert [receipt["error_code"] for receipt in house.receipts(operation["operation_id"])] == [
                "command_changed"
            ]
            assert "registered" not in text
        tool.unlink()
        tool.symlink_to("/usr/bin/printf")
        assert printed(house, "pinned")[0]["status"] == "failed"
    finally:
        tool.unlink()
        tool.write_bytes(good)
        tool.chmod(0o755)
    assert printed(house, "pinned")[1] == "the one that was registered"
