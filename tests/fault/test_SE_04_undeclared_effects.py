"""SE-04: a command that changes what its profile does not declare fails its step, and the receipt says what it was."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.house import House, open_house

COMMANDS = [
    {
        "id": "toucher",
        "command": "/usr/bin/touch",
        "args": ["${a}", "${b}"],
        "arg_schema": {
            "a": {"type": "string", "pattern": "^/[a-z0-9/._-]+$"},
            "b": {"type": "string", "pattern": "^/"},
        },
        "timeout_seconds": 20,
        "expected_exit_codes": [0, 1],  # it may swallow what it was refused: the step fails all the same
        "effects": {"writes": ["/var/tmp"]},
    }
]
DEFINITIONS: list[Any] = [
    {
        "type": "unit.touch",
        "version": "v1",
        "inputs": {
            "type": "object",
            "additionalProperties": False,
            "required": ["a", "b"],
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        },
        "capabilities": {},
        "steps": [
            {
                "id": "touch",
                "kind": "command.exec_allowlisted",
                "params": {"profile": "toucher", "args": {"a": "${inputs.a}", "b": "${inputs.b}"}},
            }
        ],
    }
]


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house(DEFINITIONS, COMMANDS) as made:
        made.serve()
        made.enrol("a")
        made.start("a")
        yield made


def test_SE_04_an_undeclared_write_fails_the_step_and_stands_in_the_receipt(house: House) -> None:
    home = house.home
    operation_id = house.submit("unit.touch@v1", {"a": f"/var/tmp/{home.name}-x", "b": "/tmp/undeclared"})
    done = house.finished(operation_id)
    assert (done["status"], done["error_code"]) == ("failed", "undeclared_effect")
    assert "/tmp/undeclared" in done["error_message"]
    (receipt,) = house.receipts(operation_id)
    assert receipt["status"] == "failed"
    assert receipt["sandbox"]["undeclared"] == ["/tmp/undeclared"]
    assert receipt["sandbox"]["writes"] == ["/var/tmp"]
    assert receipt["sandbox"]["landlock"] > 0
    assert (receipt["sandbox"]["no_new_privileges"], receipt["sandbox"]["seccomp"]) == (True, True)


def test_SE_04_what_was_declared_is_done_and_the_receipt_says_under_what(house: House) -> None:
    name = house.home.name
    operation_id = house.submit("unit.touch@v1", {"a": f"/var/tmp/{name}-y", "b": f"/var/tmp/{name}-z"})
    assert house.finished(operation_id)["status"] == "succeeded"
    (receipt,) = house.receipts(operation_id)
    assert receipt["sandbox"]["undeclared"] == []
    for each in "xyz":
        Path(f"/var/tmp/{name}-{each}").unlink(missing_ok=True)
