"""Operation inputs: defaults, schema, and the refusal of secrets (OP-02, OP-19)."""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hostler.base.digest import canonical_json
from hostler.base.errors import error

_SECRET_NAME = re.compile(
    r"(?:^|[_.-])(?:passw(?:or)?d|passphrase|secret|token|api_?key|private_?key|credentials?|access_?key)(?:$|[_.-])",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{36,}"
    r"|\bhf_[A-Za-z0-9]{30,}"
    r"|\bhs[tb]1_[A-Za-z0-9_-]{20,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\."
    r"|https?://[^/\s@]+:[^/\s@]+@"
    r"|[?&](?:X-Amz-Signature|X-Goog-Signature|Signature|sig|token)=[^&\s]{8,}",
)


def with_defaults(schema: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """`inputs` and the `default` of every top-level property that is not given."""
    defaults = {
        name: field["default"]
        for name, field in schema.get("properties", {}).items()
        if isinstance(field, Mapping) and "default" in field and name not in inputs
    }
    return {**inputs, **defaults}


def check_inputs(schema: Mapping[str, Any], inputs: Any, what: str = "inputs") -> None:
    """Raises `input_schema` naming the offending value by JSON pointer (OP-02)."""
    failure = next(iter(_validator(canonical_json(schema)).iter_errors(inputs)), None)
    if failure is None:
        return
    pointer = "".join(f"/{part}" for part in failure.instance_path)
    reason = failure.message.splitlines()[0]
    shown = reason if len(reason) <= 300 else f"{reason[:300]}…"
    raise error("input_schema", f"{what}{pointer}: {shown}", pointer=pointer)


@functools.lru_cache(maxsize=512)
def _validator(schema: bytes) -> Any:
    """Compiled once a schema. The regex engine is linear: a pattern cannot be made to hang."""
    import jsonschema_rs
    import msgspec

    return jsonschema_rs.Draft202012Validator(
        msgspec.json.decode(schema), pattern_options=jsonschema_rs.RegexOptions(), validate_formats=True
    )


def check_schema(schema: Mapping[str, Any]) -> str:
    """Why `schema` is no usable input schema, or ""."""
    import jsonschema_rs

    if schema.get("type") != "object":
        return "the inputs schema must be of type object"
    if schema.get("additionalProperties") is not False:
        return "the inputs schema must say additionalProperties: false"
    try:
        _validator(canonical_json(schema))
    except (jsonschema_rs.ValidationError, ValueError) as err:
        return f"the inputs schema is not valid: {str(err).splitlines()[0]}"
    return ""


def refuse_secrets(inputs: Any) -> None:
    """Raises `secret_in_payload` when an input's name or value looks like secret material."""
    for pointer, name, value in _leaves("", "", inputs):
        if isinstance(value, str) and value and (named_like_a_secret(name) or _SECRET_VALUE.search(value)):
            raise error("secret_in_payload", f"input {pointer} looks like a secret", pointer=pointer)


def named_like_a_secret(name: str) -> bool:
    """Whether `refuse_secrets` refuses whatever text an input of this name holds."""
    return _SECRET_NAME.search(name) is not None


def _leaves(pointer: str, name: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(f"{pointer}/{key}", str(key), item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(f"{pointer}/{index}", name, item)
    else:
        yield pointer, name, value
