"""One repository of one registry, as one step may ask it: documents by digest, and tokens for them.

A credential goes to the registry it is for, to nobody a redirect names, and to a token server elsewhere only where the
allow-lists name that server. The scope that is asked for is ours, whatever the challenge says: pull, of this
repository (CR-08).
"""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

import msgspec

from hostler.agent.fetch.blob import Owner
from hostler.agent.fetch.budget import refusal_of
from hostler.agent.fetch.connection import NOTHING, Target, target_of
from hostler.agent.fetch.document import Document, Question, read
from hostler.agent.fetch.ranges import Answer
from hostler.agent.oci.manifest import OCI_INDEX
from hostler.base.errors import error
from hostler.catalog.credentials import OciPull
from hostler.catalog.oci import Reference

TOKEN_BYTES = 65_536
DEFAULT_LIFETIME_S = 60  # what the token protocol says when the answer does not
_CHALLENGE = re.compile(r'(\w+)="([^"\\\x00-\x1f]{0,2000})"', re.ASCII)
_HEADER_TEXT = re.compile(r"[\x21-\x7e]{1,16384}", re.ASCII)


class Vault(Protocol):
    """Where the step keeps secrets; see `hostler.agent.secrets`."""

    def login(self) -> OciPull | None: ...

    def keep(self, token: bytearray, lifetime_s: float) -> None: ...

    def token(self) -> str: ...


@dataclass(frozen=True)
class Access:
    """Attributes:
    allowed: whether a URL may be asked at all.
    named: whether an allow-list names it outright, and not merely no list forbids it.
    """

    allowed: Callable[[str], bool]
    named: Callable[[str], bool]
    vault: Vault


class _Token(msgspec.Struct, frozen=True):
    token: str = ""
    access_token: str = ""
    expires_in: float = DEFAULT_LIFETIME_S


class Registry:
    def __init__(self, reference: Reference, access: Access, owner: Owner) -> None:
        self.reference = reference
        self._access, self._owner = access, owner
        self._home = target_of(reference.source)
        self._scheme = "bearer"
        login = access.vault.login()
        if login is not None and login.registry not in (f"https://{reference.registry}", reference.registry):
            raise error("credential_mismatch", f"the credential is for another registry than {reference.registry}")

    def blob_url(self, digest: str) -> str:
        return f"{self.reference.source}blobs/{digest}"

    async def document(self, digest_or_tag: str, accept: str, most: int) -> Document:
        """A manifest. Raises `source_denied` or `source_unreachable` for any answer but 200."""
        url = f"{self.reference.source}manifests/{digest_or_tag}"
        return await self._get(url, accept, most)

    async def referrers(self, digest: str, most: int) -> Document | None:
        """The index of what refers to a manifest (OCI distribution specification 1.1); None where there is no API."""
        found = await self._ask(f"{self.reference.source}referrers/{digest}", OCI_INDEX, most)
        return _there(found, self._home.shown)

    async def optional(self, digest_or_tag: str, accept: str, most: int) -> Document | None:
        """A manifest, or None where there is none of that digest or tag."""
        found = await self._ask(f"{self.reference.source}manifests/{digest_or_tag}", accept, most)
        return _there(found, self._home.shown)

    async def blob(self, digest: str, most: int) -> Document:
        """A small blob, whole in memory; its digest is the caller's to check."""
        return await self._get(self.blob_url(digest), "*/*", most)

    async def _get(self, url: str, accept: str, most: int) -> Document:
        found = await self._ask(url, accept, most)
        if found.answer.status != 200:
            raise refusal_of(found.answer.status, target_of(url).shown)
        return found

    async def _ask(self, url: str, accept: str, most: int) -> Document:
        question = Question(url=url, most=most, allowed=self._access.allowed, headers=self.headers, accept=accept)
        found = await read(question, self._owner)
        if found.answer.status == 401 and await self.challenged(self._home, found.answer):
            found = await read(question, self._owner)
        return found

    def headers(self, target: Target) -> Mapping[str, str]:
        """What one request carries to show who we are; nothing for anybody but the registry itself."""
        if target.origin != self._home.origin:
            return NOTHING
        if self._scheme == "basic":
            return _basic(self._access.vault.login())
        token = self._access.vault.token()
        return {"Authorization": f"Bearer {token}"} if token else NOTHING

    async def challenged(self, target: Target, answer: Answer) -> bool:
        """Whether there is something to answer a 401 with, other than what was sent. Gets a token where that is it."""
        if target.origin != self._home.origin:
            return False
        scheme, _, rest = answer.get("www-authenticate").partition(" ")
        login = self._access.vault.login()
        if scheme.lower() == "basic":
            fresh = self._scheme != "basic" and login is not None and bool(login.username)
            self._scheme = "basic" if fresh else self._scheme
            return fresh
        if scheme.lower() != "bearer" or (login is not None and login.token):
            return False
        await self._ask_for_token(dict(_CHALLENGE.findall(rest[:8192])), login)
        return True

    async def _ask_for_token(self, challenge: dict[str, str], login: OciPull | None) -> None:
        realm = challenge.get("realm", "")
        if not self._may_ask(realm, login is not None):
            where = target_of(realm).shown if realm else "nowhere"
            raise error("source_denied", f"{self._home.host} sends us to {where} for a token, no allowed source")
        scope = f"repository:{self.reference.repository}:pull"
        query = f"service={quote(challenge.get('service', ''), safe='')}&scope={quote(scope, safe=':/')}"
        server = target_of(realm)

        def headers(target: Target) -> Mapping[str, str]:
            return _basic(login) if target.origin == server.origin else NOTHING

        url = f"{realm}{'&' if '?' in realm else '?'}{query}"
        may = self._may_ask
        question = Question(
            url=url, most=TOKEN_BYTES, allowed=lambda hop: may(hop, login is not None), headers=headers, retries=2
        )
        found = await read(question, self._owner)
        if found.answer.status != 200:
            raise refusal_of(found.answer.status, server.shown)
        try:
            token = msgspec.json.decode(found.body, type=_Token)
        except msgspec.MsgspecError:
            raise error("bad_response", f"{server.shown} sent no token") from None
        text = token.token or token.access_token
        if _HEADER_TEXT.fullmatch(text) is None:
            raise error("bad_response", f"{server.shown} sent no token that could go into a request")
        self._access.vault.keep(bytearray(text.encode()), max(token.expires_in, DEFAULT_LIFETIME_S))

    def _may_ask(self, url: str, with_credential: bool) -> bool:
        """The registry's own host answers for its tokens. Another one is asked where it may be, and is shown a
        credential only where a list names it."""
        if target_of(url).origin == self._home.origin:
            return True
        return self._access.named(url) if with_credential else self._access.allowed(url)


def _there(found: Document, shown: str) -> Document | None:
    if found.answer.status == 404:
        return None
    if found.answer.status != 200:
        raise refusal_of(found.answer.status, shown)
    return found


def _basic(login: OciPull | None) -> Mapping[str, str]:
    if login is None or not login.username:
        return NOTHING
    pair = base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}
