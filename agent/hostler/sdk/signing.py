"""How tasks prove to each other who they are: HMAC-SHA256 over a call, by a key that the task API hands out.

Two keys: any task of the project has the project's and may call with it; that of a namespace is had by its own tasks
alone, and only what it signs may be a pickle (OD-32). What is said is not encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from dataclasses import dataclass

PROJECT, NAMESPACE = "project", "namespace"
WINDOW_S = 120.0  # clocks of two nodes may differ by that much
_MOST_SEEN = 200_000


@dataclass(frozen=True, repr=False)
class Keys:
    project: bytes
    namespace: bytes

    def of(self, kind: str) -> bytes:
        """b"" for a kind that there is not."""
        return {PROJECT: self.project, NAMESPACE: self.namespace}.get(kind, b"")


@dataclass(frozen=True)
class CallHead:
    """All of a call but its body, of which it has the digest."""

    audience: str  # attempt of the actor: what was signed for one try at a task is nothing to the next
    actor: str
    method: str
    media_type: str
    key: str
    nonce: str
    time: str
    body_sha256: str

    def signed(self, key: bytes) -> str:
        said = (self.audience, self.actor, self.method, self.media_type, self.key, self.nonce, self.time)
        return _mac(key, "hostler actor call v1", *said, self.body_sha256)


def answer_signature(key: bytes, nonce: str, status: int, media_type: str, body: bytes) -> str:
    """Binds an answer to its call: nobody else's is believed, let alone unpickled."""
    return _mac(key, "hostler actor answer v1", nonce, str(status), media_type, sha256(body))


def wall_clock() -> float:
    """Two tasks have no other clock in common."""
    return time.time()


def same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _mac(key: bytes, *words: str) -> str:
    said = b"".join(len(word.encode()).to_bytes(4, "big") + word.encode() for word in words)
    return hmac.new(key, said, hashlib.sha256).hexdigest()


class Seen:
    """Nonces of the last minutes: a call counts once."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._lock = threading.Lock()

    def is_fresh(self, nonce: str, said_at: str) -> bool:
        now = wall_clock()
        try:
            if not abs(now - float(said_at)) <= WINDOW_S:  # so that NaN is no time either
                return False
        except ValueError:
            return False
        with self._lock:
            if nonce in self._at:
                return False
            if len(self._at) >= _MOST_SEEN:
                self._at = {each: at for each, at in self._at.items() if now - at <= 2 * WINDOW_S}
                if len(self._at) >= _MOST_SEEN:
                    return False
            self._at[nonce] = now
            return True
