"""Envelopes: what is accepted, and the whole space around it that is not."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope as RefereeEnvelope
from securesystemslib.signer import SSlibKey

from hostler.base.envelope import Envelope, Signature
from hostler.base.errors import HostlerError
from hostler.pki import dsse
from hostler.pki.keys import FileSigner, new_ed25519, new_p256

TYPE = "application/test"
SIGNER = new_ed25519()
GOOD = dsse.sign(b"payload", TYPE, [SIGNER])
GOOD_JSON = dsse.to_json(GOOD)


def refused(envelope: Envelope, keys: list[FileSigner], threshold: int = 1) -> str:
    with pytest.raises(HostlerError) as caught:
        dsse.verify(envelope, TYPE, [key.public for key in keys], threshold)
    return caught.value.code


def test_a_good_envelope_gives_its_payload() -> None:
    assert dsse.verify(GOOD, TYPE, [SIGNER.public]) == b"payload"


def test_the_pre_authentication_encoding_is_the_specification_s() -> None:
    assert dsse.pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_another_payload_type_is_refused_before_any_key_is_asked() -> None:
    assert refused(msgspec.structs.replace(GOOD, payload_type="x"), [SIGNER]) == "malformed_envelope"


def test_T6_no_signature_and_an_unknown_key_are_untrusted() -> None:
    assert refused(msgspec.structs.replace(GOOD, signatures=()), [SIGNER]) == "untrusted_key"
    assert refused(GOOD, [new_ed25519()]) == "untrusted_key"


def test_T6_an_hmac_made_with_the_public_key_is_a_bad_signature() -> None:
    import hmac

    forged = hmac.digest(SIGNER.public.spki_der, dsse.pae(TYPE, b"payload"), "sha256")
    claim = Signature(SIGNER.public.key_id, forged)
    assert refused(msgspec.structs.replace(GOOD, signatures=(claim,)), [SIGNER]) == "bad_signature"


def test_T7_one_key_counts_once_however_often_it_signs() -> None:
    twice = msgspec.structs.replace(GOOD, signatures=GOOD.signatures * 2)
    assert refused(twice, [SIGNER, new_ed25519(), new_ed25519()], threshold=2) == "bad_signature"


def test_T7_the_same_key_under_two_names_counts_once() -> None:
    renamed = Signature("f" * 64, GOOD.signatures[0].sig)
    both = msgspec.structs.replace(GOOD, signatures=(*GOOD.signatures, renamed))
    assert refused(both, [SIGNER, new_ed25519()], threshold=2) == "bad_signature"


def test_a_threshold_is_met_by_different_keys_of_any_type() -> None:
    other = new_p256()
    both = dsse.sign(b"payload", TYPE, [SIGNER, other])
    assert dsse.verify(both, TYPE, [SIGNER.public, other.public], 2) == b"payload"


def test_a_threshold_below_one_accepts_nothing() -> None:
    assert refused(GOOD, [SIGNER], threshold=0) == "untrusted_key"


@given(st.integers(0, len(GOOD_JSON) - 1), st.integers(1, 255))
@settings(max_examples=400)
def test_T4_no_changed_byte_of_the_json_form_gives_another_payload(place: int, change: int) -> None:
    altered = bytearray(GOOD_JSON)
    altered[place] ^= change
    try:
        payload = dsse.verify(dsse.from_json(bytes(altered)), TYPE, [SIGNER.public])
    except HostlerError:
        return
    # base64 has spare bits in its last character: what is left are spellings of the same bytes
    assert payload == b"payload"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"payload":"","payloadType":""}',
        b'{"payload":"!","payloadType":"x","signatures":[]}',
        b'{"payload":"","payloadType":"x","signatures":[],"alg":"none"}',
        b'{"payload":"","payloadType":"x","signatures":[{"keyid":"a","sig":"","alg":"none"}]}',
        b"[" * 100_000,
    ],
)
def test_T5_what_is_not_one_envelope_is_malformed(text: bytes) -> None:
    with pytest.raises(HostlerError) as caught:
        dsse.from_json(text)
    assert caught.value.code == "malformed_envelope"


@pytest.mark.parametrize(
    ("make", "scheme", "kind"), [(new_ed25519, "ed25519", "ed25519"), (new_p256, "ecdsa-sha2-nistp256", "ecdsa")]
)
def test_a_tool_that_is_not_ours_verifies_our_envelopes(make, scheme: str, kind: str) -> None:
    from cryptography.hazmat.primitives import serialization

    signer = make()
    text = dsse.to_json(dsse.sign(b"payload", TYPE, [signer]))
    public = serialization.load_der_public_key(signer.public.spki_der)
    key = SSlibKey.from_crypto(public, signer.public.key_id, scheme)
    assert key.keytype == kind
    referee = RefereeEnvelope.from_dict(msgspec.json.decode(text))
    assert referee.verify([key], 1)


def test_a_private_key_is_neither_pickled_nor_shown() -> None:
    import pickle

    with pytest.raises(TypeError):
        pickle.dumps(SIGNER)
    assert "PRIVATE" not in repr(SIGNER)
