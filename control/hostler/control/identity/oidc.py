"""A bearer token that an OpenID provider signed → the caller (OD-24).

Only asymmetric signatures count, whatever a token's header says; issuer, audience and lifetime must fit. What
a person may do comes from the bindings in `control.toml`, never from the token.
"""

import re
from typing import Any

from hostler.base.clock import Clock, SystemClock
from hostler.base.errors import error
from hostler.control.identity.keys import IssuerKeys
from hostler.control.identity.settings import Binding, OidcSettings

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._|:+-]{0,127}", re.ASCII)
_LEEWAY_S = 60
_SHORTEST_RSA = 2048
MAX_TOKEN = 8192


def looks_like_jwt(token: str) -> bool:
    """Whether it is three base64url parts; our own tokens hold no dot."""
    return len(token) <= MAX_TOKEN and _JWT.fullmatch(token) is not None


class Oidc:
    """Attributes:
    settings: issuer, audience and bindings.
    """

    def __init__(self, settings: OidcSettings, keys: IssuerKeys | None = None, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._keys = keys or IssuerKeys(settings)

    async def verify(self, token: str) -> tuple[str, Binding, float]:
        """(name, the binding that fits, for how many seconds the token still holds).

        Raises:
            HostlerError: `unauthenticated`, `scope_denied` where no binding fits, `identity_unavailable`.
        """
        claims = await self._claims(token)
        name = self._name(claims)
        for binding in self.settings.bindings:
            if _holds(claims.get(binding.claim), binding.value):
                return name, binding, claims["exp"] - self._clock.now_ms() / 1000
        raise error("scope_denied", f"{name} holds no role here", hint="bind one in [[oidc.bindings]] of control.toml")

    async def _claims(self, token: str) -> dict[str, Any]:
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS or not isinstance(header.get("kid"), str):
                raise error("unauthenticated", "the token's signature is not of a kind that counts")
            key = jwt.PyJWK(await self._keys.get(header["kid"]), algorithm=header["alg"])
            if _is_short_rsa(key.key):
                raise error("unauthenticated", "the issuer's key is too short")
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[header["alg"]],
                audience=self.settings.audience,
                issuer=self.settings.issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as err:
            raise error("unauthenticated", f"the token does not hold: {type(err).__name__}") from err
        return claims

    def _name(self, claims: dict[str, Any]) -> str:
        """`oidc:NAME`; the colon keeps it apart from principals with a token of ours."""
        chosen = claims.get(self.settings.name_claim) or claims["sub"]
        if not isinstance(chosen, str) or not _NAME.fullmatch(chosen):
            raise error("unauthenticated", f"the token's {self.settings.name_claim} cannot name anybody")
        return f"oidc:{chosen}"


def _is_short_rsa(key: Any) -> bool:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    return isinstance(key, RSAPublicKey) and key.key_size < _SHORTEST_RSA


def _holds(claim: Any, value: str) -> bool:
    """Exactly the value, or a list that has it; nothing is taken apart."""
    return claim == value if isinstance(claim, str) else isinstance(claim, list) and value in claim
