"""Tokens of an OpenID provider: what counts, and every way in which one does not (OD-24, AZ-01..05)."""

import base64
import hmac
import time
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from hostler.base.errors import HostlerError, error
from hostler.control.api.principal import Authenticator, Caller
from hostler.control.identity.keys import IssuerKeys, https_fetch, parse_keys
from hostler.control.identity.oidc import Oidc
from hostler.control.identity.settings import Binding, OidcSettings, check
from support.blob_server import Blob, BlobServer
from support.certs import make_server_certs

ISSUER, AUDIENCE = "https://login.example", "hostler"
KEY, STRANGER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
ADMINS = Binding(claim="groups", value="gpu-platform", role="platform_admin")
TRAIN = Binding(claim="team", value="train", role="project_member", org_id="acme", project_id="train")
SETTINGS = OidcSettings(
    issuer=ISSUER, audience=AUDIENCE, jwks_url=f"{ISSUER}/keys", name_claim="email", bindings=(ADMINS, TRAIN)
)


def jwk(key: Any, key_id: str = "k1") -> dict[str, Any]:
    algorithm = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": key_id, "use": "sig"}


class Issuer:
    """Answers with its keys and counts how often it is asked."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.keys, self.asked, self.down, self.now = list(keys), 0, False, 1000.0

    async def __call__(self, url: str) -> bytes:
        self.asked += 1
        if self.down:
            raise error("identity_unavailable", "down")
        return msgspec.json.encode({"keys": self.keys})


def oidc(issuer: Issuer | None = None, settings: OidcSettings = SETTINGS) -> Oidc:
    issuer = issuer or Issuer(jwk(KEY))
    return Oidc(settings, IssuerKeys(settings, issuer, lambda: issuer.now))


def token(key: Any = KEY, *, kid: str = "k1", alg: str = "ES256", **claims: Any) -> str:
    now = int(time.time())
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "u-17", "iat": now, "exp": now + 600, "groups": ["gpu-platform"]}
    said |= {"email": "ann@acme.example"} | claims
    return jwt.encode({k: v for k, v in said.items() if v is not None}, key, algorithm=alg, headers={"kid": kid})


async def caller(text: str, checked: Oidc | None = None) -> Caller:
    async def nobody(_: str) -> None:
        return None

    return await Authenticator(nobody, checked or oidc()).of(f"Bearer {text}")


async def refusal(text: str, checked: Oidc | None = None) -> str:
    with pytest.raises(HostlerError) as caught:
        await caller(text, checked)
    return caught.value.code


async def test_OD_24_a_good_token_holds_the_role_of_the_first_binding_that_fits() -> None:
    assert await caller(token()) == Caller(name="oidc:ann@acme.example", role="platform_admin")
    member = await caller(token(groups="others", team="train"))
    assert (member.role, member.org_id, member.project_id) == ("project_member", "acme", "train")
    assert (await caller(token(email=None))).name == "oidc:u-17"


async def test_who_holds_no_role_is_known_and_refused() -> None:
    assert await refusal(token(groups=["gpu-platform-interns"], team="Train")) == "scope_denied"


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"aud": "another"},
        {"exp": -120},  # seconds from now
        {"exp": None},
        {"iat": 3600},
        {"nbf": 3600},
        {"sub": None, "email": None},
        {"email": "ann\nroot"},
        {"email": ["ann"]},
        {"email": "x" * 200},
    ],
    ids=str,
)
async def test_a_token_that_is_not_for_us_or_not_now_is_nobody_s(claims: Any) -> None:
    timed = {name: value + int(time.time()) for name, value in claims.items() if isinstance(value, int)}
    assert await refusal(token(**claims | timed)) == "unauthenticated"


async def test_T6_no_signature_no_shared_secret_no_foreign_key_counts() -> None:
    assert await refusal(token(STRANGER)) == "unauthenticated"
    assert await refusal(token(kid="k2")) == "unauthenticated"
    pem = KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    head, body, _ = token().split(".")

    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()

    unsigned = part({"alg": "none", "kid": "k1"})
    assert await refusal(f"{unsigned}.{body}.AA") == "unauthenticated"
    confused = f"{part({'alg': 'HS256', 'kid': 'k1'})}.{body}"
    mac = base64.urlsafe_b64encode(hmac.digest(pem, confused.encode(), "sha256")).rstrip(b"=").decode()
    assert await refusal(f"{confused}.{mac}") == "unauthenticated"
    assert await refusal(f"{head}.{body}.AAAA") == "unauthenticated"


async def test_an_algorithm_that_is_not_the_key_s_own_does_not_count() -> None:
    key = rsa.generate_private_key(65537, 2048)
    checked = oidc(Issuer(jwk(KEY), jwk(key, "r1")))
    assert (await caller(token(key, kid="r1", alg="PS256"), checked)).role == "platform_admin"
    assert await refusal(token(key, kid="k1", alg="RS256"), checked) == "unauthenticated"


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")
async def test_a_short_rsa_key_does_not_count() -> None:
    key = rsa.generate_private_key(65537, 1024)
    assert await refusal(token(key, kid="r1", alg="RS256"), oidc(Issuer(jwk(key, "r1")))) == "unauthenticated"


def test_only_public_signature_keys_of_a_bounded_set_are_taken() -> None:
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "s"}
    private = {**jwk(KEY, "p"), "d": "AA"}
    sealing = {**jwk(KEY, "e"), "use": "enc"}
    kept = parse_keys(msgspec.json.encode({"keys": [secret, private, sealing, "x", jwk(KEY)]}))
    assert set(kept) == {"k1"}
    for data in (b"", b"[]", b'{"keys": 1}', msgspec.json.encode({"keys": [{}] * 65})):
        with pytest.raises(HostlerError, match="issuer"):
            parse_keys(data)


async def test_a_new_key_is_asked_for_and_a_stranger_s_key_id_does_not_hammer_the_issuer() -> None:
    issuer = Issuer(jwk(KEY))
    checked = oidc(issuer)
    await caller(token(), checked)
    for number in range(20):
        assert await refusal(token(STRANGER, kid=f"x{number}"), checked) == "unauthenticated"
    assert issuer.asked == 1
    issuer.keys.append(jwk(STRANGER, "k2"))
    issuer.now += 61
    assert (await caller(token(STRANGER, kid="k2"), checked)).role == "platform_admin"
    assert issuer.asked == 2


async def test_an_issuer_that_is_away_is_survived_for_a_while_and_no_longer() -> None:
    issuer = Issuer(jwk(KEY))
    checked = oidc(issuer)
    await caller(token(), checked)
    issuer.down = True
    issuer.now += 3700
    assert (await caller(token(sub="u-18"), checked)).role == "platform_admin"
    issuer.now += 3700
    assert await refusal(token(sub="u-19"), checked) == "identity_unavailable"


async def test_a_token_is_not_remembered_beyond_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    checked, text = oidc(), token(exp=int(time.time()) + 1)
    asked = 0
    verify = checked.verify

    async def counted(given: str) -> Any:
        nonlocal asked
        asked += 1
        name, binding, _ = await verify(given)
        return name, binding, -1.0  # over by now, inside the leeway

    monkeypatch.setattr(checked, "verify", counted)

    async def nobody(_: str) -> None:
        return None

    authenticator = Authenticator(nobody, checked)
    for _ in range(2):
        await authenticator.of(f"Bearer {text}")
    assert asked == 2


async def test_without_a_provider_a_jwt_is_an_unknown_token() -> None:
    asked: list[str] = []

    async def lookup(digest: str) -> None:
        asked.append(digest)

    with pytest.raises(HostlerError, match="not known"):
        await Authenticator(lookup).of(f"Bearer {token()[:500]}")
    assert asked


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "http://login.example"},
        {"jwks_url": "file:///etc/passwd"},
        {"bindings": (Binding(claim="a", value="b", role="tenant_admin"),)},
        {"bindings": (Binding(claim="a", value="b", role="platform_admin", org_id="acme"),)},
    ],
    ids=str,
)
def test_a_configuration_that_cannot_be_safe_is_refused(changes: Any) -> None:
    with pytest.raises(HostlerError) as caught:
        check(msgspec.structs.replace(SETTINGS, **changes))
    assert caught.value.code == "invalid_config"


async def test_keys_are_found_by_discovery_over_https_and_a_foreign_document_is_not_believed(tmp_path: Any) -> None:
    certs = make_server_certs(tmp_path)
    with BlobServer(certs) as server:
        issuer = server.url("")
        document = {"issuer": issuer, "jwks_uri": server.url("/keys")}
        server.blobs["/keys"] = Blob(msgspec.json.encode({"keys": [jwk(KEY)]}))
        server.blobs["/.well-known/openid-configuration"] = Blob(msgspec.json.encode(document))
        settings = msgspec.structs.replace(SETTINGS, issuer=issuer, jwks_url="", ca_file=str(certs.ca))
        assert (await caller(token(iss=issuer), Oidc(settings))).role == "platform_admin"
        foreign = document | {"issuer": "https://evil.example"}
        server.blobs["/.well-known/openid-configuration"] = Blob(msgspec.json.encode(foreign))
        assert await refusal(token(iss=issuer), Oidc(settings)) == "identity_unavailable"
        server.blobs["/long"] = Blob(b"x" * (2 << 20))
        with pytest.raises(HostlerError, match="more than"):
            await https_fetch(str(certs.ca))(server.url("/long"))
        with pytest.raises(HostlerError, match="does not answer"):
            await https_fetch("")(server.url("/keys"))  # a CA that nobody told us of


@pytest.mark.parametrize(("ca_file", "url"), [("/nowhere/ca.pem", ISSUER), ("", "https://[half")])
async def test_an_address_or_a_ca_file_that_cannot_be_used_is_no_fault_of_ours(ca_file: str, url: str) -> None:
    """Of the issuer's discovery document, and of the configuration: both are answered, not raised as they are."""
    with pytest.raises(HostlerError) as caught:
        await https_fetch(ca_file)(url)
    assert caught.value.code == "identity_unavailable"
