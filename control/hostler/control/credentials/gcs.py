"""`gcs_read`: a service account's token, exchanged for one with a credential access boundary.

https://cloud.google.com/iam/docs/downscoping-short-lived-credentials
"""

import base64
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from hostler.base.errors import error
from hostler.catalog.credentials import GcsIntent, GcsRead
from hostler.control.credentials import outgoing
from hostler.control.credentials.config import GcsConfig
from hostler.control.credentials.contract import Ask, Made
from hostler.pki.storage import read_private

_READ_ONLY = "https://www.googleapis.com/auth/devstorage.read_only"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a type
_FORM = {"content-type": "application/x-www-form-urlencoded"}
LIFETIME_S = 3600


class _Account(msgspec.Struct, frozen=True):
    client_email: str
    private_key: str

    def __repr__(self) -> str:
        return "[secret]"


class _Token(msgspec.Struct, frozen=True):
    access_token: str
    expires_in: int = LIFETIME_S

    def __repr__(self) -> str:
        return "[secret]"


class GcsDownscope:
    """Google ends the token with the account's own, after an hour at most: it cannot be made shorter."""

    def __init__(self, config: GcsConfig) -> None:
        self.name = config.name
        self._config = config

    async def mint(self, ask: Ask) -> Made:
        assert isinstance(ask.intent, GcsIntent)
        broad = await self._own_token(ask.now_ms)
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": _ACCESS_TOKEN,
            "subject_token_type": _ACCESS_TOKEN,
            "subject_token": broad.access_token,
            "options": msgspec.json.encode(boundary(ask.intent)).decode(),
        }
        narrow = await self._ask(self._config.sts_url, form)
        # the exchange may leave the time out: then it is the subject's
        seconds = min(narrow.expires_in, broad.expires_in)
        return Made(material=GcsRead(token=narrow.access_token), expires_at_ms=ask.now_ms + seconds * 1000)

    async def _own_token(self, now_ms: int) -> _Token:
        account: _Account = outgoing.decoded_secret(read_private(Path(self._config.secret_file)), _Account, self.name)
        assertion = _assertion(account, self._config.token_url, now_ms // 1000, self.name)
        return await self._ask(
            self._config.token_url,
            {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion},
        )

    async def _ask(self, url: str, form: dict[str, str]) -> _Token:
        body = await outgoing.ask(
            "POST", url, ca_file=self._config.ca_file, headers=_FORM, content=urlencode(form).encode()
        )
        token = outgoing.decoded(body, _Token, urlsplit(url).hostname or "")
        if not token.access_token or token.expires_in <= 0:
            raise error("minter_failed", f"{urlsplit(url).hostname} gave no token")
        return token


def boundary(intent: GcsIntent) -> dict[str, Any]:
    """Objects under the prefix, or the one that it names; the intent's alphabet has no quote to break out with."""
    name = f"projects/_/buckets/{intent.bucket}/objects/{intent.prefix}"
    is_prefix = not intent.prefix or intent.prefix.endswith("/")
    condition = f"resource.name.startsWith('{name}')" if is_prefix else f"resource.name == '{name}'"
    rule = {
        "availableResource": f"//storage.googleapis.com/projects/_/buckets/{intent.bucket}",
        "availablePermissions": ["inRole:roles/storage.objectViewer"],
        "availabilityCondition": {"expression": condition},
    }
    return {"accessBoundary": {"accessBoundaryRules": [rule]}}


def _assertion(account: _Account, audience: str, now_s: int, name: str) -> str:
    claims = {
        "iss": account.client_email,
        "scope": _READ_ONLY,
        "aud": audience,
        "iat": now_s,
        "exp": now_s + LIFETIME_S,
    }
    signed = b".".join(_b64(msgspec.json.encode(part)) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    try:
        key = serialization.load_pem_private_key(account.private_key.encode(), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise error("invalid_config", f"the secret of minter {name} holds no RSA key") from None
    return (signed + b"." + _b64(key.sign(signed, padding.PKCS1v15(), hashes.SHA256()))).decode()


def _b64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
