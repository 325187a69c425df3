"""What is sealed opens for one key, under one context, once (CR-04)."""

import pytest

from hostler.base.errors import HostlerError
from hostler.pki.sealing import Recipient, seal

CONTEXT = b"digest of a request"


def code_of(recipient: Recipient, sealed: bytes, context: bytes = CONTEXT) -> str:
    with pytest.raises(HostlerError) as caught:
        recipient.open(sealed, context)
    return caught.value.code


def test_CR_04_the_one_it_was_sealed_to_opens_it_and_nobody_else() -> None:
    recipient, other = Recipient(), Recipient()
    sealed = seal(recipient.public, b"canary", CONTEXT)
    assert b"canary" not in sealed
    assert code_of(other, sealed) == "bad_signature"
    assert bytes(recipient.open(sealed, CONTEXT)) == b"canary"


def test_a_key_opens_once() -> None:
    recipient = Recipient()
    sealed = seal(recipient.public, b"canary", CONTEXT)
    recipient.open(sealed, CONTEXT)
    assert code_of(recipient, sealed) == "bad_signature"


def test_another_context_does_not_open_it() -> None:
    recipient = Recipient()
    assert code_of(recipient, seal(recipient.public, b"canary", CONTEXT), b"another request") == "bad_signature"


@pytest.mark.parametrize("place", [0, 31, 32, 37, -1])
def test_one_changed_byte_is_noticed(place: int) -> None:
    recipient = Recipient()
    sealed = bytearray(seal(recipient.public, b"canary", CONTEXT))
    sealed[place] ^= 1
    assert code_of(recipient, bytes(sealed)) == "bad_signature"


@pytest.mark.parametrize("size", [0, 1, 32, 47, 65_537])
def test_what_cannot_have_been_sealed_is_refused(size: int) -> None:
    assert code_of(Recipient(), bytes(size)) == "bad_signature"


def test_a_public_key_that_gives_no_secret_is_refused() -> None:
    with pytest.raises(HostlerError) as caught:
        seal(bytes(32), b"canary", CONTEXT)
    assert caught.value.code == "invalid_request"


def test_every_length_comes_back_whole() -> None:
    for size in (0, 1, 15, 16, 17, 4096):
        recipient = Recipient()
        assert bytes(recipient.open(seal(recipient.public, bytes(size), CONTEXT), CONTEXT)) == bytes(size)
