"""J3, EX-05: an argument is one value and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.base.errors import HostlerError
from hostler.catalog.argv import build_argv
from hostler.catalog.command_profile import CommandProfile, command_profile_from

TEXT = CommandProfile(
    id="show",
    command="/usr/bin/show",
    base_args=("--one",),
    args=("--", "${name}"),
    arg_schema={"name": {"type": "string", "maxLength": 100_000}},
)


def test_EX_05_fixed_parts_stand_before_the_one_value() -> None:
    assert build_argv(TEXT, {"name": "a b; $(id) `id` \"'"}) == ("/usr/bin/show", "--one", "--", "a b; $(id) `id` \"'")


@pytest.mark.parametrize(
    "value",
    [
        "-x",
        "--help",
        "a\0b",
        "a\nb",
        "a\rb",
        "\x1b[2J",
        "\u200b",
        "x" * 1_000_000,
        "раypal",
        "e\u0301",
        "\ud800",
        True,
        1.5,
        None,
        ["a"],
        {"a": 1},
    ],
    ids=[
        "dash",
        "dashes",
        "NUL",
        "newline",
        "return",
        "escape",
        "zero width",
        "1 MB",
        "look-alike",
        "not NFC",
        "surrogate",
        "bool",
        "float",
        "null",
        "list",
        "object",
    ],
)
def test_J3_what_could_be_taken_for_something_else_is_refused(value: object) -> None:
    with pytest.raises(HostlerError) as caught:
        build_argv(TEXT, {"name": value})
    assert caught.value.code == "input_schema"


def test_J3_an_argument_of_five_thousand_bytes_is_refused_whatever_its_schema_says() -> None:
    assert len(build_argv(TEXT, {"name": "x" * 4096})[-1]) == 4096
    with pytest.raises(HostlerError):
        build_argv(TEXT, {"name": "x" * 5000})


def test_J3_a_dash_is_accepted_only_where_the_schema_says_so() -> None:
    allowed = CommandProfile(
        id="a", command="/a", args=("${n}",), arg_schema={"n": {"type": "string", "x-allow-leading-dash": True}}
    )
    assert build_argv(allowed, {"n": "-x"}) == ("/a", "-x")
    whole = CommandProfile(id="a", command="/a", args=("${n}",), arg_schema={"n": {"type": "integer"}})
    assert build_argv(whole, {"n": -3}) == ("/a", "-3")


def test_a_missing_a_superfluous_and_an_unschemed_argument_are_refused() -> None:
    for args in ({}, {"name": "a", "more": "b"}):
        with pytest.raises(HostlerError):
            build_argv(TEXT, args)
    with pytest.raises(HostlerError):
        build_argv(CommandProfile(id="a", command="/a", args=("${n}",)), {"n": "x"})


@given(st.text(max_size=40))
def test_EX_05_the_shape_of_argv_never_depends_on_a_value(text: str) -> None:
    try:
        argv = build_argv(TEXT, {"name": text})
    except HostlerError:
        return
    assert argv == ("/usr/bin/show", "--one", "--", text)


def test_EX_04_the_sample_of_the_source_document_loads_unchanged() -> None:
    sample = {
        "id": "nvidia_smi_health",
        "command": "/usr/bin/nvidia-smi",
        "allowed_args": ["--query-gpu=utilization.gpu,memory.used,memory.total", "--format=csv,noheader"],
        "arg_schema": {},
        "env_passthrough": [],
        "expected_exit_codes": [0],
        "timeout_seconds": 30,
        "capture_stdout": True,
        "capture_stderr": True,
    }
    profile = command_profile_from(sample)
    assert build_argv(profile, {})[1].startswith("--query-gpu")
    assert (profile.run_as, profile.retries) == ("", 0)
