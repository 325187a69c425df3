"""Short-lived addresses of packages: who holds one may fetch that file until it ends, and nothing else (LC-12, API-18).

    /packages/v1/RUN.MAC/FILE     the lifecycle run that it was made for, and what proves run, file and end

Each is of one run: who used it is known by that, and it is of no use once the run is over.

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
_LONGEST_RUN = 64


def mint(settings: AgentSettings, file: str, run_id: str, now_ms: int, ttl_ms: int = 0) -> tuple[str, int]:
    """The address, and when it ends (Unix milliseconds).

    Args:
        ttl_ms: how long it is good; 0 for as long as the settings say.
    """
    expires_ms = now_ms + (ttl_ms or settings.url_ttl_ms)
    at = expires_ms.to_bytes(_TIME)
    proof = urlsafe_b64encode(at + _mac(settings.url_key, at, run_id, file)).decode()
    return f"{settings.public_url}{PACKAGES}/{run_id}.{proof}/{quote(file)}", expires_ms


def metadata_url(settings: AgentSettings) -> str:
    return f"{settings.public_url}{METADATA}"


def check(key: bytes, token: str, file: str, now_ms: int) -> str:
    """→ the run that it was made for, which the caller looks up.

    Raises:
        HostlerError: `not_found` for a token that was not made for the file, `package_url_expired` for one that has
            ended.
    """
    run_id, _, proof = token.rpartition(".")
    data = b""
    if len(proof) == _LENGTH and len(run_id) <= _LONGEST_RUN and token.isascii():
        try:
            data = urlsafe_b64decode(proof)
        except ValueError:
            data = b""
    at, mac = data[:_TIME], data[_TIME:]
    if not hmac.compare_digest(mac, _mac(key, at, run_id, file)):
        raise error("not_found", "there is no package under that address")
    if int.from_bytes(at) <= now_ms:
        raise error("package_url_expired", f"the address of {file} has ended")
    return run_id


def _mac(key: bytes, at: bytes, run_id: str, file: str) -> bytes:
    said = b"\0".join((run_id.encode(), file.encode()))
    return hmac.digest(key, at + said, hashlib.sha256)[:_MAC]
