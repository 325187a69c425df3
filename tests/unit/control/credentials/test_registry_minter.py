"""CR-07, CR-08: tokens of a registry, from a server that keeps to the protocol, and from one that does not."""

import base64
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.catalog import credentials as types
from hostler.control.credentials import config, outgoing, registry_token
from support.certs import ServerCerts, make_server_certs
from support.issuers import NOW, SECRET, ask, common, failure
from support.tls_server import TlsServer


def jwt(*access: tuple[str, str, list[str]]) -> str:
    claims = {"access": [{"type": t, "name": n, "actions": a} for t, n, a in access], "exp": 1}
    part = base64.urlsafe_b64encode(msgspec.json.encode(claims)).rstrip(b"=").decode()
    return f"e30.{part}.c2ln"


@pytest.fixture
def registry(tmp_path: Path, server: TlsServer, certs: ServerCerts) -> registry_token.RegistryToken:
    more = {"token_url": f"{server.url}/token", "service": "r.test", "username": "robot", "ca_file": str(certs.ca)}
    return registry_token.RegistryToken(config.RegistryTokenConfig(**common(tmp_path, f"{SECRET}\n", **more)))


async def test_CR_08_the_registry_is_asked_for_pull_of_one_repository(
    registry: registry_token.RegistryToken, server: TlsServer
) -> None:
    token = jwt(("repository", "team/model", ["pull"]))
    server.answer = lambda _: (200, {"token": token, "expires_in": 300})
    made = await registry.mint(ask("oci_pull"))
    assert made.material == types.OciPull(registry="https://r.test", token=token)
    assert made.expires_at_ms == NOW + 300_000
    (asked,) = server.asked
    assert parse_qs(urlsplit(asked.path).query)["scope"] == ["repository:team/model:pull"]
    assert base64.b64decode(asked.headers["authorization"].removeprefix("Basic ")).decode() == f"robot:{SECRET}"


@pytest.mark.parametrize(
    "access",
    [
        [("repository", "team/model", ["pull", "push"])],
        [("repository", "team/model", ["pull"]), ("repository", "team/other", ["pull"])],
        [("repository", "team/other", ["pull"])],
        [("registry", "catalog", ["*"])],
        [],
    ],
)
async def test_CR_08_a_token_that_says_more_or_nothing_is_not_handed_on(
    registry: registry_token.RegistryToken, server: TlsServer, access: list[Any]
) -> None:
    server.answer = lambda _: (200, {"token": jwt(*access)})
    assert "exactly pull" in await failure(registry, ask("oci_pull"))


@pytest.mark.parametrize(
    "answer", [(401, {}), (200, {}), (200, b"<html>"), (302, {}), (200, {"token": "x", "expires_in": 0}), (200, b"[")]
)
async def test_what_an_issuer_answers_amiss_is_one_plain_error(
    registry: registry_token.RegistryToken, server: TlsServer, answer: Any
) -> None:
    server.answer = lambda _: answer
    await failure(registry, ask("oci_pull"))


async def test_an_answer_without_end_is_cut_off(registry: registry_token.RegistryToken, server: TlsServer) -> None:
    server.answer = lambda _: (200, b"x" * (outgoing.MAX_ANSWER_BYTES + 1))
    assert "more than" in await failure(registry, ask("oci_pull"))


async def test_an_issuer_with_another_ca_is_not_spoken_to(tmp_path: Path, server: TlsServer) -> None:
    other = make_server_certs(tmp_path / "other")
    more = {"token_url": f"{server.url}/token", "service": "r", "username": "robot", "ca_file": str(other.ca)}
    minter = registry_token.RegistryToken(config.RegistryTokenConfig(**common(tmp_path, **more)))
    assert "ConnectError" in await failure(minter, ask("oci_pull"))
    assert server.asked == []


async def test_an_issuer_without_tls_is_not_spoken_to() -> None:
    with pytest.raises(HostlerError, match="without TLS"):
        await outgoing.ask("GET", "http://127.0.0.1:1/")
