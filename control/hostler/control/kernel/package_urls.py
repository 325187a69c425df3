"""Short-lived addresses of packages: who holds one may fetch that file until it ends, and nothing else (LC-12, API-18).

The package is signed and no secret; the address only keeps the endpoint from being anybody's mirror.
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from urllib.parse import quote

from hostler.base.errors import error
from hostler.control.kernel.agent_settings import AgentSettings

PACKAGES = "/packages/v1"
METADATA = f"{PACKAGES}/metadata.json"
_TIME, _MAC = 6, 21
_LENGTH = (_TIME + _MAC) * 4 // 3


def mint(settings: AgentSettings, file: str, now_ms: int, ttl_ms: int = 0) -> tuple[str, int]:
    """The address, and when it ends (Unix milliseconds, a whole second).

    Args:
        ttl_ms: how long it is good; 0 for as long as the settings say.
    """
    expires_s = (now_ms + (ttl_ms or settings.url_ttl_ms)) // 1000
    at = expires_s.to_bytes(_TIME)
    token = urlsafe_b64encode(at + _mac(settings.url_key, at, file)).decode()
    return f"{settings.public_url}{PACKAGES}/{token}/{quote(file)}", expires_s * 1000


def metadata_url(settings: AgentSettings) -> str:
    return f"{settings.public_url}{METADATA}"


def check(key: bytes, token: str, file: str, now_ms: int) -> None:
    """Raises `not_found` for a token that was not made for the file, `package_url_expired` for one that has ended."""
    data = b""
    if len(token) == _LENGTH and token.isascii():
        try:
            data = urlsafe_b64decode(token)
        except ValueError:
            data = b""
    at, mac = data[:_TIME], data[_TIME:]
    if not hmac.compare_digest(mac, _mac(key, at, file)):
        raise error("not_found", "there is no package under that address")
    if int.from_bytes(at) * 1000 <= now_ms:
        raise error("package_url_expired", f"the address of {file} has ended")


def _mac(key: bytes, at: bytes, file: str) -> bytes:
    return hmac.digest(key, at + file.encode(), hashlib.sha256)[:_MAC]
