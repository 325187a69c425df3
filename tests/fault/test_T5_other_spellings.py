"""T5: signed by the right key, and still not what our own encoder would have written: refused."""

import msgspec
import pytest

from hostler.agent.admission.admit import admit
from hostler.base.digest import sha256_hex
from hostler.base.envelope import TASK_TYPE, Envelope
from hostler.pki import dsse
from hostler.wire.codec_task import encode_task
from support import builders
from support.agent import refused
from support.keys import NOW, Keys

KEYS = Keys()
FREE = {"type": "object", "additionalProperties": False, "properties": {"n": {}, "é": {}}}
CATALOG = builders.catalog(KEYS, builders.definition(inputs=FREE))
SPEC = builders.task(KEYS, CATALOG)
VIEW = builders.view(KEYS, CATALOG)


def signed(payload: bytes) -> Envelope:
    return dsse.sign(payload, TASK_TYPE, [KEYS.dispatch])


def test_T5_an_unknown_signed_field_is_refused_by_name() -> None:
    unknown = bytes([0x82, 0x7D, 2]) + b"hi"  # field 2000, length-delimited
    verdict = admit(signed(encode_task(SPEC) + unknown), VIEW, NOW)
    assert refused(verdict) == ("unknown_signed_field", "form")


def test_T5_a_field_sent_twice_is_refused() -> None:
    payload = encode_task(SPEC)
    again = bytes([0x0A, len(SPEC.task_id)]) + SPEC.task_id.encode()  # field 1: task_id
    assert refused(admit(signed(payload + again), VIEW, NOW)) == ("malformed_envelope", "form")


def test_T5_fields_in_another_order_are_refused() -> None:
    payload = encode_task(SPEC)
    size = 2 + payload[1]
    assert refused(admit(signed(payload[size:] + payload[:size]), VIEW, NOW)) == ("malformed_envelope", "form")


def test_T5_bytes_that_are_no_protobuf_are_refused() -> None:
    assert refused(admit(signed(b"\xff" * 40), VIEW, NOW)) == ("malformed_envelope", "form")
    assert refused(admit(signed(b""), VIEW, NOW)) == ("malformed_envelope", "form")


@pytest.mark.parametrize(
    "inputs",
    [
        b'{"n":1,"n":2}',
        b'{"n":NaN}',
        b'{"n":Infinity}',
        b'{"n":1e400}',
        b'{"n":123456789012345678901234567890}',
        b'{"n": 1}',
        b'{"n":1.50}',
        b'{"n":"\\u0041"}',
        b'\xef\xbb\xbf{"n":1}',
        b'{"n":"\xff"}',
        b'{"n":"\\ud800"}',
        b'{"n":1}\n',
        b"",
        b"[" * 100_000,
    ],
    ids=[
        "duplicate key",
        "NaN",
        "Infinity",
        "float overflow",
        "big int",
        "white space",
        "other number",
        "escaped letter",
        "byte order mark",
        "not UTF-8",
        "lone surrogate",
        "trailing newline",
        "empty",
        "nested without end",
    ],
)
def test_T5_J3_inputs_in_another_spelling_are_refused(inputs: bytes) -> None:
    spec = builders.changed(SPEC, inputs_json=inputs, inputs_digest=sha256_hex(inputs))
    assert refused(admit(builders.envelope(KEYS, spec), VIEW, NOW)) == ("malformed_envelope", "inputs")


def test_T5_a_key_that_only_looks_like_another_after_normalisation_is_another_key() -> None:
    decomposed = msgspec.json.encode({"e\u0301": 1})
    spec = builders.changed(SPEC, inputs_json=decomposed, inputs_digest=sha256_hex(decomposed))
    assert refused(admit(builders.envelope(KEYS, spec), VIEW, NOW)) == ("input_schema", "inputs")


def test_T5_inputs_that_are_no_object_are_refused() -> None:
    spec = builders.changed(SPEC, inputs_json=b"[1]", inputs_digest=sha256_hex(b"[1]"))
    assert refused(admit(builders.envelope(KEYS, spec), VIEW, NOW)) == ("input_schema", "inputs")


def test_T5_a_payload_beyond_the_limit_is_refused_before_the_signature_is_checked() -> None:
    assert refused(admit(signed(b"x" * (1024 * 1024 + 1)), VIEW, NOW)) == ("malformed_envelope", "signature")
