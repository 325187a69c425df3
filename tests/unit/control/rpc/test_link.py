"""One session's end: by silence, by its certificate, by the first reason given."""

from pathlib import Path

import grpc.aio
import pytest

from hostler.base.errors import HostlerError
from hostler.control.engine import Engine
from hostler.control.metrics import Metrics
from hostler.control.rpc.catalog_feed import CatalogFeed
from hostler.control.rpc.ingest import Ingest
from hostler.control.rpc.link import Link, Links, speak
from hostler.control.rpc.progress import ProgressBoard
from hostler.control.samples import SampleBoard
from hostler.pki.x509 import PeerIdentity
from hostler.wire.codec_node import agent_message, control_value
from hostler.wire.node import Close, Heartbeat, Hello, Sample, Welcome
from support.control import Fleet, fleet_in
from support.keys import NOW

BEAT_S = 15
CERTIFICATE_MS = 3_600_000


def link_of(engine: Engine, node_id: str, serial: str = "1") -> Link:
    peer = PeerIdentity(
        trust_domain="test.hostler", role="node", name=node_id, thumbprint="t", serial=serial,
        not_before_ms=NOW, not_after_ms=NOW + CERTIFICATE_MS,
    )  # fmt: skip
    board = ProgressBoard(engine.clock)
    share = Ingest(engine.clock, 1 << 30, 1 << 30).share()
    return Link(engine, board, CatalogFeed(engine), peer, f"ses_{serial}", BEAT_S, "", Metrics(), share)


async def heard(link: Link) -> list[object]:
    return [control_value(message) async for message in link.messages(wait_s=0)]


def sweep(fleet: Fleet, link: Link) -> None:
    link.close_if_over(fleet.clock.now_ms(), fleet.clock.monotonic())


async def test_a_node_that_misses_three_heartbeats_is_gone(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        node = await fleet.enroll("gpu-1")
        link = link_of(fleet.engine, node.node_id)
        await link.take(agent_message(Hello(agent_version="1")))
        fleet.clock.move(BEAT_S * 3000)
        sweep(fleet, link)
        assert not link.closing
        await link.take(agent_message(Heartbeat()))
        fleet.clock.move(BEAT_S * 3000)
        sweep(fleet, link)
        assert not link.closing
        fleet.clock.move(1)
        sweep(fleet, link)
        closed = (await heard(link))[-1]
        assert isinstance(closed, Close)
        assert "heartbeat" in closed.message


async def test_a_session_does_not_outlive_its_certificate(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        node = await fleet.enroll("gpu-1")
        link = link_of(fleet.engine, node.node_id)
        fleet.clock.move(CERTIFICATE_MS - 1)
        link.heard()
        sweep(fleet, link)
        assert not link.closing
        fleet.clock.move(1)
        sweep(fleet, link)
        assert [message for message in await heard(link) if isinstance(message, Close)]


async def test_an_agent_that_is_killed_while_it_is_spoken_to_ends_its_session_and_nothing_else(tmp_path: Path) -> None:
    async def write(_: object) -> None:
        raise grpc.aio.InternalError("the peer has gone")

    async with fleet_in(tmp_path) as fleet:
        node = await fleet.enroll("gpu-1")
        link = link_of(fleet.engine, node.node_id)
        await link.take(agent_message(Hello(agent_version="1")))
        await speak(link, write)
        assert link.closing


async def test_the_first_reason_for_a_close_is_the_one_told(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        node = await fleet.enroll("gpu-1")
        link = link_of(fleet.engine, node.node_id)
        link.close("revoked", "the node is revoked")
        link.close("controller_unreachable", "the agent has closed its side")
        (closed,) = await heard(link)
        assert isinstance(closed, Close)
        assert closed.error_code == "revoked"
        assert link.closed.is_set()


async def test_nothing_is_taken_before_the_hello(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        node = await fleet.enroll("gpu-1")
        link = link_of(fleet.engine, node.node_id)
        with pytest.raises(HostlerError) as raised:
            await link.take(agent_message(Heartbeat()))
        assert raised.value.code == "invalid_request"
        await link.take(agent_message(Hello(agent_version="1")))
        assert isinstance((await heard(link))[0], Welcome)


async def test_I1_a_node_revoked_while_its_session_opens_is_refused_at_the_hello(tmp_path: Path) -> None:
    from hostler.control.kernel.commands import RevokeNode
    from support.control import ADMIN

    async with fleet_in(tmp_path) as fleet:
        node = await fleet.enroll("gpu-1")
        link = link_of(fleet.engine, node.node_id)
        await fleet.execute(RevokeNode(actor=ADMIN, node_id=node.node_id))
        with pytest.raises(HostlerError) as raised:
            await link.take(agent_message(Hello(agent_version="1")))
        assert raised.value.code == "revoked"


async def test_of_two_sessions_the_newer_stays_whoever_ends_first(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        node = await fleet.enroll("gpu-1")
        links = Links()
        older, newer = link_of(fleet.engine, node.node_id, "1"), link_of(fleet.engine, node.node_id, "2")
        links.add(older)
        links.add(newer)
        assert older.closing
        assert not links.remove(older)
        assert links.get(node.node_id) is newer
        assert len(links) == 1
        assert links.remove(newer)
        assert links.get(node.node_id) is None


@pytest.mark.parametrize(
    "said",
    [{"protocol": 9, "protocol_oldest": 8}, {"protocol": 2, "envelope_types": ("application/other",)}],
    ids=["protocol", "envelopes"],
)
async def test_CG_03_a_hello_of_another_age_opens_nothing_and_people_can_see_why(
    tmp_path: Path, said: dict[str, object]
) -> None:
    async with fleet_in(tmp_path) as fleet:
        node = await fleet.enroll("gpu-1")
        link = link_of(fleet.engine, node.node_id)
        with pytest.raises(HostlerError) as refused:
            await link.take(agent_message(Hello(agent_version="9", **said)))  # type: ignore[arg-type]
        assert refused.value.code == "protocol_mismatch"
        assert await heard(link) == []
        seen = await fleet.engine.reader.node(node.node_id)
        assert (seen.connection, seen.drift) == ("enrolling", "protocol_mismatch")


@pytest.mark.parametrize(("said", "agreed"), [({}, 1), ({"protocol": 2, "protocol_oldest": 1}, 2)])
async def test_CG_03_the_welcome_says_what_was_agreed_also_to_one_that_is_one_behind(
    tmp_path: Path, said: dict[str, int], agreed: int
) -> None:
    async with fleet_in(tmp_path) as fleet:
        node = await fleet.enroll("gpu-1")
        link = link_of(fleet.engine, node.node_id)
        await link.take(agent_message(Hello(agent_version="1", **said)))
        (welcome,) = [each for each in await heard(link) if isinstance(each, Welcome)]
        assert welcome.protocol == agreed


async def test_CG_04_a_heartbeat_tells_of_a_capability_and_only_once(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        node = await fleet.enroll("gpu-1")
        link = link_of(fleet.engine, node.node_id)
        await link.take(agent_message(Hello(agent_version="1", capabilities={"gpu.vendor": "none"})))
        beat = Heartbeat(capabilities={"gpu.vendor": "amd", "NOT A KEY": "x"})
        for _ in range(3):
            await link.take(agent_message(beat))
        await link.take(agent_message(Heartbeat()))
        assert (await fleet.engine.reader.node(node.node_id)).capabilities == {"gpu.vendor": "amd"}
        assert len(await fleet.events(type_="node.capabilities_changed")) == 1


async def test_OB_09_measurements_cost_no_commit_and_a_flood_of_them_is_dropped(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        node = await fleet.enroll("gpu-1")
        link, board = link_of(fleet.engine, node.node_id), SampleBoard(fleet.clock)
        link._samples = board
        await link.take(agent_message(Hello(agent_version="1")))
        await link.take(agent_message(Heartbeat()))
        before = await fleet.engine.reader.newest_event()
        executed: list[object] = []
        execute = fleet.engine.execute

        async def counted(command: object) -> object:
            executed.append(command)
            return await execute(command)

        fleet.engine.execute = counted  # type: ignore[method-assign]
        for number in range(500):
            await link.take(agent_message(Heartbeat(sample=Sample(at_ms=number, load_1m=number))))
        assert executed == [], "a heartbeat that measures only writes nothing"
        assert await fleet.engine.reader.newest_event() == before
        assert (board.taken, board.dropped) == (1, 499)
        assert not link.closing


async def test_S8_reports_that_never_end_wait_for_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a row of 64 KiB to write; what a node says of itself in a day fits in one."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async with fleet_in(tmp_path) as fleet:
        node = await fleet.enroll("gpu-1")
        link = link_of(fleet.engine, node.node_id)
        await link.take(agent_message(Hello(agent_version="1")))
        monkeypatch.setattr("hostler.control.rpc.agent_feed.asyncio.sleep", sleep)
        await link.take(agent_message(Heartbeat(agent_report=b"x" * 4_000)))
        assert not slept
        for number in range(20):
            await link.take(agent_message(Heartbeat(agent_report=bytes([number]) * 65_000)))
        assert slept[-1] == 10.0
