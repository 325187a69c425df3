"""Which version of its API a Docker Engine is spoken to in. Pure."""

import re

OLDEST = "1.41"  # of Docker 20.10, the oldest that is still kept up; what we ask is the same in later ones
_TOO_OLD = re.compile(rb"client version \S{1,20} is too old. Minimum supported API version is (1\.[0-9]{1,4})\b")


def wanted(status: int, said: bytes) -> str:
    """By an engine that refuses a version as too old, as 29.0 does, and has done nothing; "" for any other answer."""
    found = _TOO_OLD.search(said[:4096]) if status == 400 else None
    return found[1].decode() if found else ""
