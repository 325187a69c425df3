"""Tokens: one-use ones for enrolment, lasting ones for people. Only their hash is ever stored."""

import re
import secrets
from typing import NamedTuple

from hostler.base.digest import sha256_hex
from hostler.base.errors import error

_ENROLMENT = re.compile(r"hst1_([0-9a-f]{16})_[A-Za-z0-9_-]{43}", re.ASCII)


class Token(NamedTuple):
    """`text` is the secret; it is shown once."""

    text: str
    token_id: str
    sha256: str


def new_enrolment_token() -> Token:
    """256 random bits behind a public id."""
    token_id = secrets.token_hex(8)
    text = f"hst1_{token_id}_{secrets.token_urlsafe(32)}"
    return Token(text, token_id, token_hash(text))


def new_bearer_token() -> Token:
    text = f"hsb1_{secrets.token_urlsafe(32)}"
    return Token(text, "", token_hash(text))


def read_enrolment_token(text: str) -> Token:
    """Raises `enrolment_token_invalid` for anything that is not of the form we make."""
    match = _ENROLMENT.fullmatch(text.strip())
    if match is None:
        raise error("enrolment_token_invalid", "this is not an enrolment token")
    return Token(match[0], match[1], token_hash(match[0]))


def token_hash(text: str) -> str:
    """What is stored and compared; the tokens carry enough randomness for a plain digest."""
    return sha256_hex(text.encode())
