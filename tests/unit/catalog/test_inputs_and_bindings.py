"""OP-02, OP-19, EX-05: inputs are checked, hold no secret, and bind as whole values."""

from typing import Any

import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.binding import bind, references
from hostler.catalog.inputs import check_inputs, check_schema, refuse_secrets, with_defaults

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1},
        "names": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}},
        "mode": {"type": "string", "default": "fast"},
    },
}


@pytest.mark.parametrize(
    ("inputs", "pointer"),
    [({}, ""), ({"size": 0}, "/size"), ({"size": 1, "x": 1}, ""), ({"size": 1, "names": ["a", "B"]}, "/names/1")],
)
def test_OP_02_a_broken_input_is_named_by_its_pointer(inputs: dict[str, Any], pointer: str) -> None:
    with pytest.raises(HostlerError) as caught:
        check_inputs(SCHEMA, inputs)
    assert (caught.value.code, caught.value.pointer) == ("input_schema", pointer)
    assert "\n" not in str(caught.value)


def test_defaults_are_filled_in_and_what_is_given_stands() -> None:
    assert with_defaults(SCHEMA, {"size": 2}) == {"size": 2, "mode": "fast"}
    assert with_defaults(SCHEMA, {"mode": "slow"}) == {"mode": "slow"}


def test_a_pattern_that_would_hang_a_backtracking_engine_is_answered_at_once() -> None:
    schema = {"type": "object", "additionalProperties": False, "properties": {"x": {"pattern": "^(a+)+$"}}}
    with pytest.raises(HostlerError):
        check_inputs(schema, {"x": "a" * 50_000 + "!"})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "object"},
        {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "nothing"}}},
        {"type": "object", "additionalProperties": False, "properties": {"a": {"pattern": "("}}},
    ],
)
def test_an_unusable_schema_is_explained(schema: dict[str, Any]) -> None:
    assert check_schema(schema)
    assert not check_schema(SCHEMA)


@pytest.mark.parametrize(
    "inputs",
    [
        {"password": "hunter2"},
        {"nested": {"api_key": "x"}},
        {"note": "-----BEGIN RSA PRIVATE KEY-----\nMII"},
        {"note": "AKIAABCDEFGHIJKLMNOP"},
        {"note": "ghp_" + "a" * 36},
        {"note": "hf_" + "a" * 34},
        {"url": "https://user:pass@example.com/x"},
        {"url": "https://bucket/x?X-Amz-Signature=0123456789abcdef"},
        {"list": ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig"]},
    ],
)
def test_OP_19_what_looks_like_a_secret_is_refused_without_repeating_it(inputs: dict[str, Any]) -> None:
    with pytest.raises(HostlerError) as caught:
        refuse_secrets(inputs)
    assert caught.value.code == "secret_in_payload"
    for value in ("hunter2", "AKIA", "ghp_", "user:pass", "0123456789abcdef", "eyJ"):
        assert value not in str(caught.value)


@pytest.mark.parametrize(
    "inputs", [{"url": "https://example.com/m?rev=1"}, {"tokens_per_batch": 8}, {"secret_sauce": ""}]
)
def test_OP_19_ordinary_inputs_pass(inputs: dict[str, Any]) -> None:
    refuse_secrets(inputs)


def test_bindings_stand_for_whole_values_of_any_type() -> None:
    params = {"a": "${inputs.list}", "b": {"c": ["${steps.pull.path}"]}, "d": "plain"}
    bound = bind(params, {"list": [1, {"x": None}]}, {"pull": {"path": "/p"}})
    assert bound == {"a": [1, {"x": None}], "b": {"c": ["/p"]}, "d": "plain"}
    assert references(params) == {"inputs.list", "steps.pull.path"}


def test_EX_05_a_bound_value_is_never_looked_into_again() -> None:
    assert bind({"a": "${inputs.x}"}, {"x": "${inputs.y}", "y": "secret"}, {}) == {"a": "${inputs.y}"}


@pytest.mark.parametrize(
    "text", ["a${inputs.x}", "${inputs.x} ", "${ inputs.x }", "${inputs.}", "$inputs.x", "${env.HOME}"]
)
def test_EX_05_text_that_only_resembles_a_binding_stays_text(text: str) -> None:
    assert bind({"a": text}, {"x": "value"}, {}) == {"a": text}


def test_an_absent_input_or_output_is_named() -> None:
    for params in ({"a": "${inputs.no}"}, {"a": "${steps.s.no}"}):
        with pytest.raises(HostlerError) as caught:
            bind(params, {}, {"s": {}})
        assert caught.value.code == "binding_error"
