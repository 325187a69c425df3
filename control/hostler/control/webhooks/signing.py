"""Standard Webhooks signatures. A webhook's secret is derived from one key file and its id, and stored nowhere."""

import base64
import hashlib
import hmac
import os
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hostler.base.errors import error
from hostler.pki.storage import read_private, write_private

KEY_BYTES = 32
_PURPOSE = b"hostler webhook secret v1 "


class WebhookKey:
    """`webhook.key` of the keys directory, 32 random bytes; made on first use where it is absent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = b""

    def ready(self) -> None:
        """Raises `webhook_key_unavailable` when the file is absent and cannot be made; `invalid_config`."""
        if self._key:
            return
        if not self._path.exists():
            self._make()
        key = read_private(self._path)
        if len(key) != KEY_BYTES:
            raise error("invalid_config", f"{self._path} holds {len(key)} bytes, not {KEY_BYTES}")
        self._key = key

    def secret(self, webhook_id: str) -> bytes:
        """32 bytes that only this control plane and the webhook's owner know. Raises as `ready` does."""
        self.ready()
        derive = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=_PURPOSE + webhook_id.encode())
        return derive.derive(self._key)

    def _make(self) -> None:
        try:
            write_private(self._path, os.urandom(KEY_BYTES))
        except OSError as err:
            raise error(
                "webhook_key_unavailable",
                f"{self._path} is absent and cannot be made: {err.strerror}",
                hint=f"as the owner of the directory: head -c 32 /dev/urandom > {self._path} && chmod 600 {self._path}",
            ) from err


def shown(secret: bytes) -> str:
    """The form that receivers' libraries take."""
    return "whsec_" + base64.b64encode(secret).decode()


def signature(secret: bytes, message_id: str, timestamp_s: int, body: bytes) -> str:
    """`v1,` and the HMAC-SHA256 over `id.timestamp.body` (standardwebhooks.com)."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
