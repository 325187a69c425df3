"""Decoding that refuses what it does not know, and says where."""

from typing import Any, TypeVar, get_args

import msgspec

from hostler.base.digest import canonical_json
from hostler.base.errors import error

T = TypeVar("T")


def _refusal(err: msgspec.MsgspecError, code: str, what: str) -> Exception:
    text = str(err)
    reason, _, path = text.partition(" - at `")
    pointer = path.rstrip("`").replace("$", "", 1).replace(".", "/").replace("[", "/").replace("]", "")
    if "unknown field" in reason:
        code = "unknown_field" if code == "invalid_request" else code
    where = f" at {pointer}" if pointer else ""
    return error(code, f"{what}{where}: {reason[:1].lower()}{reason[1:]}", pointer=pointer)


def decode_json(data: bytes, type_: type[T], *, code: str = "invalid_request", what: str = "body") -> T:
    """Decodes JSON into a strict struct.

    Raises:
        HostlerError: with `code` (or `unknown_field`) and the pointer of the offending value.
    """
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as err:
        if isinstance(err, msgspec.MsgspecError):
            raise _refusal(err, code, what) from err
        raise error(code, f"{what}: not valid JSON text") from err


def decode_record(data: bytes, type_: type[T], *, code: str = "invalid_config", what: str = "record") -> T:
    """Decodes what this host wrote down itself, maybe by a later version of us: a field that is not known is passed
    over, at any depth, even where the type refuses it from others. Signed or foreign input is for `decode_json`.

    Raises:
        HostlerError: with `code` and the pointer of the offending value.
    """
    value = decode_json(data, object, code=code, what=what)
    return convert(_known(value, type_), type_, code=code, what=what)


def _known(value: Any, type_: Any) -> Any:
    inner = [each for each in get_args(type_) if each is not Ellipsis]
    if isinstance(value, list) and inner:
        return [_known(each, inner[0]) for each in value]
    if not isinstance(value, dict):
        return value
    types = [each for each in (type_, *inner) if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    if not types:
        return value
    fields = {each.encode_name: each.type for each in msgspec.structs.fields(types[0])}
    return {name: _known(each, fields[name]) for name, each in value.items() if name in fields}


def convert(value: Any, type_: type[T], *, code: str = "invalid_request", what: str = "document") -> T:
    """The same for an already parsed value (YAML, TOML)."""
    try:
        return msgspec.convert(value, type=type_)
    except msgspec.ValidationError as err:
        raise _refusal(err, code, what) from err


def decode_canonical(data: bytes, *, code: str, what: str) -> Any:
    """Decodes JSON that must be byte for byte its own canonical form.

    Duplicate keys, NaN, re-encodings, white space and un-normalised numbers all fail here, because
    none of them survives the round trip.
    """
    value = decode_json(data, object, code=code, what=what)
    if canonical_json(value) != data:
        raise error(code, f"{what}: not in canonical form")
    return value
