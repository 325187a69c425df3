"""One way out to issuers: TLS, no proxy, no redirect, bounded in time and size, and silent about what it carried."""

import ssl
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from hostler.base.errors import error
from hostler.base.logs import get_logger

_log = get_logger("hostler.control.credentials")
TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 256 * 1024
T = TypeVar("T")


async def ask(
    method: str,
    url: str,
    *,
    ca_file: str = "",
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    expected: tuple[int, ...] = (200,),
) -> bytes:
    """The body of an answer whose status is expected.

    Raises:
        HostlerError: `minter_failed` naming the host and the status; never a header or body of either side.
    """
    import httpx

    host = urlsplit(url).hostname or ""
    if not url.startswith("https://"):
        raise error("minter_failed", f"{host} is not asked without TLS")
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
        async with (
            httpx.AsyncClient(verify=context, trust_env=False, timeout=TIMEOUT_S) as client,
            client.stream(method, url, headers=headers, content=content) as answer,
        ):
            body = bytearray()
            async for chunk in answer.aiter_bytes(16_384):
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise error("minter_failed", f"{host} answered with more than {MAX_ANSWER_BYTES} bytes")
            status = answer.status_code
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as err:
        # not chained: an exception of a client may hold the request
        _log.warning("issuer.unreachable", host=host, reason=type(err).__name__)
        raise error("minter_failed", f"{host} does not answer ({type(err).__name__})") from None
    if status not in expected:
        raise error("minter_failed", f"{host} answered with status {status}")
    return bytes(body)


def decoded(body: bytes, type_: type[T], host: str) -> T:
    """JSON as far as it is known. Raises `minter_failed`."""
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise error("minter_failed", f"the answer of {host} is not what was expected") from None


def decoded_secret(data: bytes, type_: Any, what: str) -> Any:
    """A secret file's JSON. Raises `invalid_config` without quoting any of it."""
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise error("invalid_config", f"the secret of minter {what} is not the JSON that its backend takes") from None
