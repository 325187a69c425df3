"""`oci_pull` from a registry's token server (distribution's token specification): pull of one repository (CR-08)."""

import base64
import binascii
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from hostler.base.errors import error
from hostler.catalog.credentials import OciIntent, OciPull
from hostler.control.credentials import outgoing
from hostler.control.credentials.config import RegistryTokenConfig
from hostler.control.credentials.contract import Ask, Made
from hostler.pki.storage import read_private


class _Answer(msgspec.Struct, frozen=True):
    token: str = ""
    access_token: str = ""
    expires_in: int = 60  # the specification's default


class _Access(msgspec.Struct, frozen=True):
    type: str
    name: str
    actions: tuple[str, ...]


class _Claims(msgspec.Struct, frozen=True):
    access: tuple[_Access, ...]
    exp: float = 0


class RegistryToken:
    """Asks for `pull` of one repository, and refuses a token that says more."""

    def __init__(self, config: RegistryTokenConfig) -> None:
        self.name = config.name
        self._config = config

    async def mint(self, ask: Ask) -> Made:
        config, intent = self._config, ask.intent
        assert isinstance(intent, OciIntent)
        asked = {"service": config.service, "scope": f"repository:{intent.repository}:pull", "account": config.username}
        password = read_private(Path(config.secret_file)).strip()
        basic = base64.b64encode(config.username.encode() + b":" + password).decode()
        body = await outgoing.ask(
            "GET",
            f"{config.token_url}?{urlencode(asked)}",
            ca_file=config.ca_file,
            headers={"authorization": f"Basic {basic}"},
        )
        answer = outgoing.decoded(body, _Answer, urlsplit(config.token_url).hostname or "")
        token = answer.token or answer.access_token
        if not token or answer.expires_in <= 0:
            raise error("minter_failed", "the token server gave no token")
        check_scope(token, intent.repository)
        made = OciPull(registry=intent.registry, token=token)
        return Made(material=made, expires_at_ms=ask.now_ms + answer.expires_in * 1000)


def check_scope(token: str, repository: str) -> None:
    """Raises `minter_failed` for a JWT that opens anything but pull of this repository, or nothing at all."""
    claims = _claims(token)
    if claims is None:
        return  # opaque: only the registry knows what it opens
    wider = [one for one in claims.access if (one.type, one.name) != ("repository", repository) or _beyond(one.actions)]
    if wider or not any("pull" in one.actions for one in claims.access):
        raise error("minter_failed", f"the token server's token does not open exactly pull of {repository}")


def _beyond(actions: tuple[str, ...]) -> bool:
    return any(action != "pull" for action in actions)


def _claims(token: str) -> _Claims | None:
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        raw: Any = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(raw, type=_Claims)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        return None
