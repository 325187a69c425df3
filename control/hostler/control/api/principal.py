"""Who asks: a bearer token's principal."""

import hashlib
import time
from collections.abc import Awaitable, Callable

import msgspec

from hostler.base.errors import error
from hostler.control.identity.oidc import Oidc, looks_like_jwt
from hostler.control.kernel.commands import Actor
from hostler.control.store.records import Principal

_CACHE_S = 5.0
_CACHE_SIZE = 4096


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """`org_id` and `project_id` are empty where the role is not limited to one."""

    name: str
    role: str
    org_id: str = ""
    project_id: str = ""

    def actor(self) -> Actor:
        return Actor(kind="user", name=self.name, role=self.role, org_id=self.org_id, project_id=self.project_id)


class Authenticator:
    """Token → principal. Tokens are looked up by their hash; a short cache keeps the hot path short."""

    def __init__(self, lookup: Callable[[str], Awaitable[Principal | None]], oidc: Oidc | None = None) -> None:
        self._lookup = lookup
        self._oidc = oidc
        self._cache: dict[str, tuple[float, Caller]] = {}

    def forget(self) -> None:
        """After a revocation: nobody is known from before."""
        self._cache.clear()

    async def of(self, authorization: str) -> Caller:
        """Raises `unauthenticated`; for a provider's token also `scope_denied` and `identity_unavailable`."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        vouched = self._oidc is not None and looks_like_jwt(token)
        if scheme.lower() != "bearer" or not token or (len(token) > 512 and not vouched):
            raise error("unauthenticated", "the request carries no bearer token")
        digest = hashlib.sha256(token.encode()).hexdigest()
        cached = self._cache.get(digest)
        if cached is not None and cached[0] > time.monotonic():
            return cached[1]
        remembered_s = _CACHE_S
        if vouched and self._oidc is not None:
            name, binding, left_s = await self._oidc.verify(token)
            principal = Caller(name=name, role=binding.role, org_id=binding.org_id, project_id=binding.project_id)
            remembered_s = min(_CACHE_S, left_s)
        else:
            principal = await self._stored(digest)
        if len(self._cache) >= _CACHE_SIZE:
            self._cache.clear()
        self._cache[digest] = (time.monotonic() + remembered_s, principal)
        return principal

    async def _stored(self, digest: str) -> Caller:
        stored = await self._lookup(digest)
        if stored is None:
            raise error("unauthenticated", "the bearer token is not known, revoked or expired")
        return Caller(name=stored.name, role=stored.role, org_id=stored.org_id, project_id=stored.project_id)


class Projects:
    """Project → tenant. Once a project has a tenant it keeps it, so the answer is remembered; "" is not."""

    def __init__(self, lookup: Callable[[str], Awaitable[str]]) -> None:
        self._lookup = lookup
        self._known: dict[str, str] = {}

    async def org_of(self, project_id: str) -> str:
        known = self._known.get(project_id)
        if known is not None:
            return known
        found = await self._lookup(project_id)
        if found:
            if len(self._known) >= _CACHE_SIZE:
                self._known.clear()
            self._known[project_id] = found
        return found
