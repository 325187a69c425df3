"""X1, OD-08: a relay is one principal's and one node's, good once, and holds nobody to more than was granted."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hostler.base.clock import SystemClock
from hostler.base.errors import HostlerError
from hostler.control.metrics import Metrics
from hostler.control.rpc import relays as module
from hostler.control.rpc.relays import Relay, Relays, hear
from hostler.wire.relay import (
    STDIN,
    STDOUT,
    WINDOW,
    RelayBeat,
    RelayData,
    RelayEnd,
    RelayFrame,
    RelayOpen,
    RelayResize,
    RelayWindow,
)


@pytest.fixture
async def relays() -> Relays:
    return Relays(Metrics(), SystemClock(), 1800)


def made(relays: Relays, owner: str = "ann") -> Relay:
    return relays.make("nod_1", "train", owner)


def code(refused: "pytest.ExceptionInfo[HostlerError]") -> str:
    return refused.value.code


async def test_OD_08_another_node_does_not_find_it(relays: Relays) -> None:
    relay = made(relays)
    for relay_id, node_id in ((relay.relay_id, "nod_2"), ("rly_none", "nod_1")):
        with pytest.raises(HostlerError) as refused, relays.of_node(relay_id, node_id):
            pass
        assert code(refused) == "not_found"
    with relays.of_node(relay.relay_id, "nod_1"):
        assert not relay.ended.is_set()


async def test_S2_another_project_or_principal_does_not_find_it(relays: Relays) -> None:
    relay = made(relays)
    for project_id, owner in (("other", "ann"), ("train", "ben")):
        with pytest.raises(HostlerError) as refused, relays.of_client(relay.relay_id, project_id, owner):
            pass
        assert code(refused) == "not_found"


async def test_X1_each_end_is_taken_once(relays: Relays) -> None:
    relay = made(relays)
    with relays.of_client(relay.relay_id, "train", "ann"):
        with pytest.raises(HostlerError) as refused, relays.of_client(relay.relay_id, "train", "ann"):
            pass
        assert code(refused) == "relay_taken"
        with relays.of_node(relay.relay_id, "nod_1"):
            with pytest.raises(HostlerError) as again, relays.of_node(relay.relay_id, "nod_1"):
                pass
            assert code(again) == "relay_taken"
    assert len(relays) == 0, "it was good for one session"


async def test_X1_one_that_nobody_uses_is_gone(relays: Relays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNUSED_S", 0.05)
    lonely, whole = made(relays), made(relays)
    with relays.of_client(whole.relay_id, "train", "ann"), relays.of_node(whole.relay_id, "nod_1"):
        await asyncio.sleep(0.1)
        assert not whole.ended.is_set()
    assert lonely.why is not None
    assert lonely.why.code == "relay_expired"
    with pytest.raises(HostlerError), relays.of_node(lonely.relay_id, "nod_1"):
        pass


async def test_one_principal_has_so_many_and_no_more(relays: Relays) -> None:
    for _ in range(module.MOST_OF_ONE):
        made(relays)
    with pytest.raises(HostlerError) as refused:
        made(relays)
    assert code(refused) == "rate_limited"
    made(relays, "ben")


async def test_X1_a_revoked_node_loses_its_sessions(relays: Relays) -> None:
    ours, theirs = made(relays), relays.make("nod_2", "train", "ann")
    relays.close_node("nod_1", "revoked", "the node is revoked")
    assert ours.why is not None
    assert ours.why.code == "revoked"
    assert theirs.why is None


async def test_X1_a_node_sends_no_more_than_it_was_granted(relays: Relays) -> None:
    relay = made(relays)
    relay.attach("agent")
    relay.attach("client")
    for _ in range(WINDOW // 32_768):
        relay.from_agent(RelayData(STDOUT, b"x" * 32_768))
    with pytest.raises(HostlerError) as refused:
        relay.from_agent(RelayData(STDOUT, b"x"))
    assert code(refused) == "relay_closed"


@pytest.mark.parametrize(
    "frame",
    [RelayData(STDIN, b"x"), RelayData(STDIN, b""), RelayData(3, b"x"), RelayData(2**32 - 1, b"x"),
     RelayResize(24, 80), RelayOpen("rly_2")],
)  # fmt: skip
async def test_X1_a_node_says_only_what_a_node_may_say(relays: Relays, frame: RelayFrame) -> None:
    """Streams of its own alone: a number above a byte has no place in what the client is sent."""
    relay = made(relays)
    relay.attach("client")
    with pytest.raises(HostlerError) as refused:
        relay.from_agent(frame)
    assert code(refused) == "relay_closed"
    assert list(relay._up) == []


async def test_X1_a_client_sends_no_more_than_it_was_granted(relays: Relays) -> None:
    relay = made(relays)
    relay.from_agent(RelayWindow(10))
    relay.input(STDIN, b"0123456789")
    with pytest.raises(HostlerError) as refused:
        relay.input(STDIN, b"x")
    assert code(refused) == "relay_closed"


async def test_what_was_taken_is_granted_again_and_the_end_comes_last(relays: Relays) -> None:
    relay = made(relays)
    relay.attach("client")
    relay.from_agent(RelayData(STDOUT, b"abc"))
    relay.from_agent(RelayEnd(exit_code=3))
    relay.close("relay_closed", "gone")
    assert [frame async for frame in relay.to_client()] == [RelayData(STDOUT, b"abc"), RelayEnd(exit_code=3)]
    assert list(relay._down) == [RelayWindow(WINDOW), RelayWindow(3)]


async def test_X1_of_a_flood_of_sizes_only_the_last_goes_down(relays: Relays) -> None:
    relay = made(relays)
    for rows in range(1, 500):
        relay.resize(rows, 80)
    sent: list[RelayFrame] = []

    async def down() -> None:
        async for frame in relay.to_agent():
            sent.append(frame)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await down()
    assert sent == [RelayResize(499, 80)]


async def test_X1_a_flood_of_what_costs_no_grant_is_kept_nowhere(relays: Relays) -> None:
    relay = made(relays)
    for _ in range(500):
        relay.from_agent(RelayWindow(1))
        relay.from_agent(RelayData(STDOUT, b""))
        relay.end_input()
    for _ in range(500):
        relay.from_agent(RelayEnd(exit_code=3))
    assert list(relay._up) == [RelayWindow(500), RelayEnd(exit_code=3)]
    assert list(relay._down) == [RelayEnd()]


async def test_X1_a_node_that_falls_silent_or_leaves_ends_it(relays: Relays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT_S", 0.1)

    async def says(*frames: RelayFrame, then_s: float) -> AsyncIterator[RelayFrame]:
        for frame in frames:
            yield frame
        await asyncio.sleep(then_s)

    for then_s, words in ((5.0, "said nothing"), (0.0, "has left")):
        relay = made(relays)
        async with asyncio.timeout(2):
            await hear(relay, says(RelayBeat(), then_s=then_s))
        assert relay.why is not None
        assert words in relay.why.message
