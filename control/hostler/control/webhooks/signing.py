"""Standard Webhooks signatures. A webhook's secret is derived from one key file and its id, and stored nowhere."""

import base64
import hashlib
import hmac
from pathlib import Path

from hostler.control.key_file import KeyFile

_PURPOSE = b"hostler webhook secret v1 "


class WebhookKey:
    """`webhook.key` of the keys directory, 32 random bytes; made on first use where it is absent."""

    def __init__(self, path: Path) -> None:
        self._file = KeyFile(path, "webhook_key_unavailable")

    def ready(self) -> None:
        """Raises `webhook_key_unavailable` when the file is absent and cannot be made; `invalid_config`."""
        self._file.root()

    def secret(self, webhook_id: str) -> bytes:
        """32 bytes that only this control plane and the webhook's owner know. Raises as `ready` does."""
        return self._file.derived(_PURPOSE + webhook_id.encode())


def shown(secret: bytes) -> str:
    """The form that receivers' libraries take."""
    return "whsec_" + base64.b64encode(secret).decode()


def signature(secret: bytes, message_id: str, timestamp_s: int, body: bytes) -> str:
    """`v1,` and the HMAC-SHA256 over `id.timestamp.body` (standardwebhooks.com)."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
