"""The runner asks so that nobody on the way can read, forge or turn to other ends: CR-04, SE-04."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.lifecycle import identity
from hostler.agent.lifecycle.mints import Mints
from hostler.agent.outside.frames import Tls
from hostler.agent.secrets.secret import Secret
from hostler.agent.steps.contract import MintOrder
from hostler.base.clock import SystemClock
from hostler.base.digest import canonical_json
from hostler.base.envelope import MINTED_TYPE
from hostler.base.errors import HostlerError
from hostler.pki import dsse
from hostler.pki.ceremony import init, load_signer
from hostler.pki.keys import new_ed25519, new_p256
from hostler.pki.keyset import KeyRole
from hostler.pki.sealing import seal
from hostler.pki.trust import TrustStore
from hostler.pki.trust_files import load_trust
from hostler.v1 import node_pb2
from hostler.wire.mint import Minted, SignedMintRequest

CLOCK = SystemClock()
ORDER = MintOrder(
    task_id="tsk_1",
    operation_id="op_1",
    attempt_uid="att_1",
    step_id="mint",
    credential_type="hf_token",
    intent={"endpoint": "https://hub.test", "repository": "team/model"},
    part="",
)


class Between:
    """The network process and the control plane in one; `bend` may change what comes back."""

    def __init__(self, home: Path) -> None:
        init(home, trust_domain="unit.test", cluster_id="main", hosts=("127.0.0.1",), now_ms=CLOCK.now_ms())
        self.trust = TrustStore(load_trust(home / "trust.json"), CLOCK.now_ms())
        self.dispatch = load_signer(home / "control/dispatch.key")
        self.signer: Any = self.dispatch
        self.seen: list[SignedMintRequest] = []
        self.timeouts: list[float] = []
        self.bend: Callable[[Minted], Minted] = lambda minted: minted
        self.raw: Callable[[bytes], bytes] = lambda data: data
        self.type = MINTED_TYPE
        facts = identity.Facts(
            node_id="nod_1", trust_domain="unit.test", org_id="o", project_id="p", not_before_ms=0, not_after_ms=0,
            serial="1",
        )  # fmt: skip
        self.me = identity.Identity(facts, new_p256(), b"", new_ed25519())
        tls = Tls(trust_domain="unit.test", ca_pems=())
        self.mints = Mints(self.ask, lambda: (tls, "127.0.0.1:1"), lambda: self.me, lambda: self.trust, CLOCK)

    async def ask(self, tls: Tls, address: str, method: str, request: bytes, timeout_s: float = 20.0) -> bytes:
        assert method == "Mint"
        message = node_pb2.MintRequest.FromString(request)
        asked = msgspec.json.decode(message.request, type=SignedMintRequest)
        self.seen.append(asked)
        self.timeouts.append(timeout_s)
        digest = asked.request().digest()
        minted = Minted(
            request_digest=digest,
            credential_type=asked.credential_type,
            expires_at_ms=CLOCK.now_ms() + 60_000,
            one_time=True,
            sealed=seal(asked.public_key, b"canary material", digest.encode()),
        )
        payload = canonical_json(msgspec.to_builtins(self.bend(minted)))
        answer = dsse.to_json(dsse.sign(payload, self.type, (self.signer,)))
        return self.raw(node_pb2.MintResponse(minted=answer).SerializeToString())

    async def refused(self) -> str:
        with pytest.raises(HostlerError) as caught:
            await self.mints(ORDER)
        assert "canary" not in str(caught.value)
        return caught.value.code


@pytest.fixture
def between(tmp_path: Path) -> Between:
    return Between(tmp_path)


async def test_CR_01_the_request_names_everything_and_is_signed_by_the_runner(between: Between) -> None:
    made = await between.mints(ORDER)
    assert isinstance(made.secret, Secret)
    assert made.one_time
    assert made.secret.scrub("canary material") == "[secret]"
    (asked,) = between.seen
    assert {name: getattr(asked, name) for name in ORDER.__struct_fields__} == msgspec.structs.asdict(ORDER)
    assert asked.node_id == "nod_1"
    assert between.me.runner_key is not None
    assert between.me.runner_key.public.verifies(asked.signature, asked.request().signed_bytes())
    assert not between.me.signer.public.verifies(asked.signature, asked.request().signed_bytes())
    made.secret.close()


async def test_every_request_has_a_key_and_a_nonce_of_its_own(between: Between) -> None:
    for _ in range(2):
        (await between.mints(ORDER)).secret.close()
    first, second = between.seen
    assert first.public_key != second.public_key
    assert first.nonce != second.nonce


async def test_an_answer_that_the_dispatch_key_has_not_signed_is_refused(between: Between) -> None:
    """The network process knows the request's public key and could seal what it likes."""
    between.signer = new_ed25519()
    assert await between.refused() == "untrusted_key"
    between.signer = between.me.signer
    assert await between.refused() == "untrusted_key"


async def test_an_answer_of_another_kind_is_refused(between: Between) -> None:
    between.type = "application/vnd.hostler.task.v1+protobuf"
    assert await between.refused() == "malformed_envelope"


async def test_the_answer_to_another_request_is_refused(between: Between) -> None:
    replace = msgspec.structs.replace
    for bent in ({"request_digest": "0" * 64}, {"credential_type": "gcs_read"}, {"sealed": bytes(80)}):
        between.bend = lambda minted, bent=bent: replace(minted, **bent)  # type: ignore[misc]
        assert await between.refused() == "bad_signature", bent


@pytest.mark.parametrize("data", [b"\xff" * 20, b"", node_pb2.MintResponse(minted=b"{}").SerializeToString()])
async def test_an_answer_that_is_none(between: Between, data: bytes) -> None:
    between.raw = lambda _: data
    assert await between.refused() == "malformed_envelope"


async def test_a_node_without_a_runner_s_key_is_told_to_enrol_again(between: Between) -> None:
    between.me = identity.Identity(between.me.facts, between.me.signer, b"")
    assert await between.refused() == "mint_unsigned"
    assert between.seen == []


async def test_it_waits_longer_than_the_control_plane_gives_its_minters(between: Between) -> None:
    from hostler.control.credentials.service import _MINT_S, _START_S

    (await between.mints(ORDER)).secret.close()
    assert between.timeouts[0] > _MINT_S + _START_S


def test_SE_04_the_network_process_is_never_given_the_runner_s_key(between: Between) -> None:
    from hostler.agent.lifecycle.certificates import tls_of

    given = tls_of(between.me, between.trust)
    assert between.me.runner_key is not None
    assert between.me.runner_key.to_pem() not in given.key_pem + given.chain_pem
    assert between.trust.keys(KeyRole.DISPATCH)
