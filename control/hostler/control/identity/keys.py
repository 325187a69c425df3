"""An issuer's public keys: fetched over HTTPS, bounded, remembered, asked for again when a new one appears."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.control.identity.settings import OidcSettings

Fetch = Callable[[str], Awaitable[bytes]]
MAX_BYTES = 1 << 20
MAX_KEYS = 64
_FRESH_S = 3600.0
_NOT_AGAIN_S = 60.0  # a stranger's key ids must not make us hammer the issuer
_TIMEOUT_S = 10.0


class IssuerKeys:
    """key id → JWK (as JSON). Keys of a failed refresh stay until they are an hour too old."""

    def __init__(
        self, settings: OidcSettings, fetch: Fetch | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._fetch = fetch or https_fetch(settings.ca_file)
        self._now = now
        self._keys: dict[str, dict[str, Any]] = {}
        self._fetched_at = self._asked_at = float("-inf")
        self._lock = asyncio.Lock()

    async def get(self, key_id: str) -> dict[str, Any]:
        """Raises `unauthenticated` for a key the issuer does not have, `identity_unavailable` if it does not answer."""
        async with self._lock:
            stale = self._now() - self._fetched_at > _FRESH_S
            if (stale or key_id not in self._keys) and self._now() - self._asked_at > _NOT_AGAIN_S:
                await self._refresh()
            if self._now() - self._fetched_at > 2 * _FRESH_S:
                raise error("identity_unavailable", f"the keys of {self._settings.issuer} cannot be fetched")
        found = self._keys.get(key_id)
        if found is None:
            raise error("unauthenticated", "the token is signed with a key that its issuer does not have")
        return found

    async def _refresh(self) -> None:
        self._asked_at = self._now()
        try:
            self._keys = parse_keys(await self._fetch(await self._address()))
        except HostlerError:
            if not self._keys:
                raise
            return
        self._fetched_at = self._now()

    async def _address(self) -> str:
        if self._settings.jwks_url:
            return self._settings.jwks_url
        issuer = self._settings.issuer
        document = _json(await self._fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration"))
        address = document.get("jwks_uri")
        if document.get("issuer") != issuer or not isinstance(address, str) or not address.startswith("https://"):
            raise error("identity_unavailable", f"the discovery document of {issuer} is not its own")
        return address


def parse_keys(data: bytes) -> dict[str, dict[str, Any]]:
    """Signature keys of a JWK set, by key id: asymmetric ones only. Raises `identity_unavailable`."""
    listed = _json(data).get("keys")
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise error("identity_unavailable", "the issuer's key set is none, or too long")
    keys = {}
    for key in listed:
        if not isinstance(key, dict) or key.get("kty") not in ("RSA", "EC", "OKP") or key.get("use", "sig") != "sig":
            continue
        if isinstance(key.get("kid"), str) and "d" not in key:
            keys[key["kid"]] = key
    return keys


def https_fetch(ca_file: str) -> Fetch:
    """GET with bounds, no redirects, the system's CAs or those of `ca_file`."""

    async def fetch(url: str) -> bytes:
        import httpx

        try:
            context = ssl.create_default_context(cafile=ca_file or None)
            async with (
                httpx.AsyncClient(verify=context, trust_env=False, timeout=_TIMEOUT_S) as http,
                http.stream("GET", url) as answer,
            ):
                if answer.status_code != 200:
                    raise error("identity_unavailable", f"{url} answers {answer.status_code}")
                data = bytearray()
                async for chunk in answer.aiter_bytes():
                    data += chunk
                    if len(data) > MAX_BYTES:
                        raise error("identity_unavailable", f"{url} answers more than {MAX_BYTES} bytes")
                return bytes(data)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as err:  # OSError: a ca_file that cannot be read
            raise error("identity_unavailable", f"{url} does not answer: {type(err).__name__}") from err

    return fetch


def _json(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError as err:
        raise error("identity_unavailable", "the issuer does not answer in JSON") from err
