"""What the engine's own process does, looked at from inside it (AZ-11)."""

import json
import sys
from typing import Any

import pytest

from hostler.control.policy_engine import worker
from support.mutant import child_of_a_test

QUERY = "data.hostler.deny"
ODD: list[Any] = [
    "x\x00y", "\\u0000", "\ud7ff\U0001f600\"'\\ \n\t/", "${x} `a` {{ #", 2**64 + 5, 2**63, -(2**53), 1e300, 1e-7,
    [[[]]], {"": None}, {"a\x00b": [True, False]},
]  # fmt: skip


def reasons(source: str, question: Any = None) -> list[str]:
    return worker._Engine([["rules.rego", source]], QUERY).reasons(json.dumps(question or {}))


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_a_rule_sees_the_very_request_that_is_run(value: Any) -> None:
    source = f'package hostler\ndeny contains "seen" if input.value == {json.dumps(value)}\n'
    assert reasons(source, {"value": value}) == ["seen"]
    assert reasons(source, {"value": ["another"]}) == []


@pytest.mark.parametrize("value", ["true", "false", "null", "1", '"x"', '{"x": 1}', "[1]", '["x", 2]', "[[]]"])
def test_only_a_list_of_texts_is_an_answer(value: str) -> None:
    with pytest.raises(worker.Faulty, match="not a list of reasons"):
        reasons(f"package hostler\ndeny := {value}\n")


def test_a_rule_of_another_name_is_no_answer() -> None:
    with pytest.raises(worker.Faulty, match="undefined and not a list"):
        reasons("package hostel\ndeny := []\n")


@pytest.mark.parametrize(
    "does",
    ["open('/etc/hostname')", "socket.socket()", "os.pipe()", "open('/proc/self/mem')", "os.memfd_create('x')"],
)
def test_once_set_up_it_opens_nothing(does: str) -> None:
    code = f"""
import os, socket
from hostler.control.policy_engine import worker
worker._shut_in()
try:
    {does}
except OSError as err:
    print(err.errno)
"""
    assert child_of_a_test(code).stdout.strip() == "24", "EMFILE"


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "regopy", None)
    with pytest.raises(worker.Faulty, match=r"pip install 'hostler\[policy\]'"):
        worker._Engine([], QUERY)
