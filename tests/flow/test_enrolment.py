"""Enrolment over the real port: one token, one node, whoever comes first."""

import asyncio
import logging
from pathlib import Path

import grpc.aio
import pytest

from hostler.pki import tls
from hostler.pki.keys import new_p256
from hostler.pki.tokens import new_enrolment_token
from hostler.pki.x509 import make_csr, read_identity
from hostler.v1 import node_pb2, node_pb2_grpc
from support import fake_node
from support.plane import DOMAIN, Plane, plane


def code_of(err: grpc.aio.AioRpcError) -> str:
    return str(dict(err.trailing_metadata() or ()).get("hostler-error-code", ""))


async def redeem(control: Plane, token: str, signer=None):
    return await fake_node.enroll(token, control.config.enroll_listen, control.ca_pems, DOMAIN, signer=signer)


async def refused(control: Plane, token: str) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await redeem(control, token)
    assert raised.value.details()
    return code_of(raised.value)


async def test_PK_02_a_token_gives_an_identity_for_the_key_that_asked(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        signer, answer = await redeem(control, await control.token("gpu-1"))
        identity = read_identity(answer.certificate_pem)
        assert (identity.role, identity.name, identity.trust_domain) == ("node", answer.node_id, DOMAIN)
        assert identity.thumbprint == signer.public.key_id
        assert (answer.org_id, answer.project_id, answer.control_epoch) == ("acme", "train", 1)
        assert answer.keyset == (tmp_path / "pki/control/keyset.json").read_bytes()
        (seen,) = (await control.call("GET", "/api/v1/admin/nodes"))["items"]
        assert (seen["name"], seen["thumbprint"]) == ("gpu-1", identity.thumbprint)


async def test_PK_02_I5_exactly_one_of_two_racing_hosts_wins_and_the_loss_is_an_alarm(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        token = await control.token("gpu-1")
        results = await asyncio.gather(*(redeem(control, token) for _ in range(5)), return_exceptions=True)
        losers = [each for each in results if isinstance(each, grpc.aio.AioRpcError)]
        assert len(losers) == 4
        assert {code_of(each) for each in losers} == {"enrolment_token_used"}
        assert control.rows("SELECT count(*) FROM nodes") == [(1,)]
        assert control.rows("SELECT count(*) FROM events WHERE type = 'node.enrolment_token_reused'") == [(4,)]


async def test_I5_the_same_host_may_ask_again_when_the_answer_was_lost(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        token, key = await control.token("gpu-1"), new_p256()
        _, first = await redeem(control, token, key)
        _, second = await redeem(control, token, key)
        assert first.node_id == second.node_id


async def test_an_unknown_or_malformed_token_is_refused(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        assert await refused(control, new_enrolment_token().text) == "enrolment_token_invalid"
        assert await refused(control, "") == "enrolment_token_invalid"
        assert await refused(control, "hst1_' OR 1=1 --") == "enrolment_token_invalid"
        assert control.rows("SELECT count(*) FROM nodes") == [(0,)]


async def test_a_request_that_does_not_prove_its_key_costs_no_token(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        token = await control.token("gpu-1")
        proved, other = make_csr(new_p256(), "node"), make_csr(new_p256(), "node")
        stolen = proved[:-70] + other[-70:]
        for csr in (stolen, b"", b"0" * 100):
            request = node_pb2.EnrollRequest(token=token, csr_der=csr)
            credentials, options = tls.channel_credentials(control.ca_pems), tls.channel_options(DOMAIN)
            async with grpc.aio.secure_channel(control.config.enroll_listen, credentials, options) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await node_pb2_grpc.EnrollmentServiceStub(channel).Enroll(request)
            assert code_of(raised.value) in ("bad_signature", "invalid_request")
        await redeem(control, token)


async def test_guessing_is_slowed_down_and_a_whole_rack_is_not(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        for number in range(40):
            await redeem(control, await control.token(f"gpu-{number}"))
        codes = []
        while "rate_limited" not in codes and len(codes) < 62:  # a new minute may begin in between, once
            codes.append(await refused(control, new_enrolment_token().text))
        assert codes[-1] == "rate_limited"
        assert len(codes) > 30
        assert await refused(control, await control.token("late")) == "rate_limited"


async def test_S1_the_token_is_in_no_log_line_and_no_row(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with plane(tmp_path) as control:
        token = await control.token("gpu-1")
        await redeem(control, token)
        assert await refused(control, token) == "enrolment_token_used"
    secret = token.rpartition("_")[2]
    assert secret not in caplog.text
    for file in (tmp_path / "state").iterdir():
        assert secret.encode() not in file.read_bytes()


async def test_the_enrolment_port_serves_nothing_else(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        credentials, options = tls.channel_credentials(control.ca_pems), tls.channel_options(DOMAIN)
        async with grpc.aio.secure_channel(control.config.enroll_listen, credentials, options) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await node_pb2_grpc.NodeServiceStub(channel).Renew(node_pb2.RenewRequest())
        assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
