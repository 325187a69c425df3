"""The node's identity when things go wrong: asleep past expiry, crashed in the middle, cloned, revoked."""

import asyncio
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.agent.lifecycle import identity
from hostler.agent.lifecycle.certificates import recover
from hostler.agent.lifecycle.renew import REPAIR_NEEDED, Renewal
from hostler.base.clock import SystemClock
from hostler.base.errors import HostlerError
from hostler.control.keys import load_keys
from hostler.pki.authority import Authority
from hostler.pki.keys import new_p256
from hostler.pki.trust import TrustStore
from hostler.pki.trust_files import load_trust
from hostler.pki.x509 import read_identity
from support.fake_node import FakeNode
from support.house import House, open_house
from support.outside import ask_in_process
from support.plane import DOMAIN, Plane, plane

HOUR_MS = 3_600_000


def expired(control: Plane, node: FakeNode, hours_ago: int = 1) -> bytes:
    """A certificate of the node's that ran out; the store knows it."""
    keys = load_keys(control.config)
    then = SystemClock().now_ms() - (hours_ago + 24) * HOUR_MS
    return Authority(keys.ca, keys.ca_pem, DOMAIN).issue_node(node.node_id, node.signer.public, then)


def trust_of(control: Plane) -> TrustStore:
    return TrustStore(load_trust(control.home / "pki" / "trust.json"), SystemClock().now_ms())


def stored(tmp_path: Path, node: FakeNode, chain: bytes) -> identity.Identity:
    (tmp_path / "agent" / "identity").mkdir(parents=True, exist_ok=True)
    return identity.save(tmp_path / "agent", node.signer, chain, "acme", "train")


def age(control: Plane, days: int) -> None:
    """Makes every certificate in the store end so many days ago."""
    import sqlite3

    with sqlite3.connect(control.config.store_path) as db:
        db.execute("UPDATE certificates SET not_after_ms = ?", (SystemClock().now_ms() - days * 24 * HOUR_MS,))


async def test_PK_05_I2_a_node_that_slept_past_its_certificate_comes_back_with_its_enrolled_key(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        me = stored(tmp_path, node, expired(control, node))
        trust, renewed = trust_of(control), asyncio.Event()

        async def ask(old: identity.Identity) -> bytes:
            return (await recover(ask_in_process, old, trust, control.config.enroll_listen)).chain_pem

        async def no_dial(_: identity.Identity) -> bytes:
            raise AssertionError("an expired certificate opens nothing")

        rng, clock = random.Random(1), SystemClock()
        renewal = Renewal(tmp_path / "agent", me, no_dial, clock, rng, lambda _: renewed.set(), ask)
        running = asyncio.create_task(renewal.run())
        async with asyncio.timeout(10):
            await renewed.wait()
        running.cancel()
        assert renewal.drift == ""
        fresh = read_identity((tmp_path / "agent/identity/certificate.pem").read_bytes())
        assert fresh.not_after_ms > clock.now_ms()
        node.certificate = renewal.current.chain_pem
        async with node.session() as session:
            assert session.welcome is not None


async def test_PK_05_while_nobody_answers_it_says_that_its_certificate_needs_repair(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        me = stored(tmp_path, node, expired(control, node))
        asked = asyncio.Event()

        async def nobody(_: identity.Identity) -> bytes:
            asked.set()
            raise HostlerError("controller_unreachable", "nobody there")

        renewal = Renewal(tmp_path / "agent", me, nobody, SystemClock(), random.Random(1), lambda _: None, nobody)
        running = asyncio.create_task(renewal.run())
        await asked.wait()
        await asyncio.sleep(0)
        assert renewal.drift == REPAIR_NEEDED
        running.cancel()


@pytest.mark.parametrize("who", ["another key", "revoked", "too long", "unknown"])
async def test_PK_05_nobody_else_recovers_an_identity(tmp_path: Path, who: str) -> None:
    async with plane(tmp_path, recovery_days=30) as control:
        node = await control.enroll()
        chain, wanted = node.certificate, "certificate_invalid"
        if who == "another key":
            thief = FakeNode(node.node_id, new_p256(), chain, node.ca_pems, node.address, DOMAIN)
            me = identity.Identity(stored(tmp_path, node, chain).facts, thief.signer, chain)
        else:
            me = stored(tmp_path, node, chain)
        if who == "revoked":
            await control.call("POST", f"/api/v1/admin/nodes/{node.node_id}/revoke")
            wanted = "revoked"
        if who == "too long":
            age(control, days=31)
        if who == "unknown":
            import msgspec

            me = identity.Identity(msgspec.structs.replace(me.facts, node_id="nod_other"), me.signer, chain)
        with pytest.raises(HostlerError) as caught:
            await recover(ask_in_process, me, trust_of(control), control.config.enroll_listen)
        assert caught.value.code == wanted


async def test_PK_04_I3_a_crash_between_issued_and_stored_locks_nobody_out(tmp_path: Path, monkeypatch) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        me = stored(tmp_path, node, node.certificate)

        async def ask(_: identity.Identity) -> bytes:
            return await issued_by_renewal(node)

        def crash(*_: object) -> identity.Identity:
            raise SystemExit("killed")

        old = me.chain_pem
        for _ in range(3):
            renewal = Renewal(tmp_path / "agent", me, ask, SystemClock(), random.Random(1), lambda _: None, ask)
            with monkeypatch.context() as patched:
                patched.setattr(identity, "save", crash)
                with pytest.raises(SystemExit):
                    await renewal.renew()
        assert (tmp_path / "agent/identity/certificate.pem").read_bytes() == old
        async with node.session():
            pass  # the old one still opens a session
        await renewal.renew()
        before, node.certificate = node.certificate, renewal.current.chain_pem
        async with node.session():
            pass
        node.certificate = before
        with pytest.raises(Exception, match="replaced by a newer one"):
            async with node.session():
                pass


async def issued_by_renewal(node: FakeNode) -> bytes:
    from hostler.pki.x509 import make_csr
    from hostler.v1 import node_pb2, node_pb2_grpc

    async with node.channel() as channel:
        request = node_pb2.RenewRequest(csr_der=make_csr(node.signer, node.node_id))
        answer = await node_pb2_grpc.NodeServiceStub(channel).Renew(request, timeout=10)
    chain: bytes = answer.certificate_pem
    return chain


@pytest.fixture
def house() -> Iterator[House]:
    with open_house() as made:
        yield made


def test_PK_10_two_hosts_with_one_identity_are_noticed_and_neither_is_served(house: House) -> None:
    house.serve()
    house.enrol("a")
    house.start("a")
    house.finished(house.submit("node.smoke.noop@v1"))
    house.configure("b")
    shutil.copytree(house.home / "a" / "state", house.home / "b" / "state")
    house.launch("b")
    house.until(lambda: house.node("a")["hold"] == "identity_cloned", "a")
    waiting = house.submit("node.smoke.noop@v1")
    house.stop("b")
    assert house.operation(waiting)["status"] == "queued"
    assert "identity_cloned" in house.cli("nodes", "list")
    house.cli("nodes", "release", "a")
    house.restart("a")
    assert house.finished(waiting)["status"] == "succeeded"
