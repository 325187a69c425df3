"""X1 between the agent's processes, and on the wire: a relay is cut before it holds up anything else."""

import pytest

from hostler.agent.outside import outside as module
from hostler.agent.outside.frames import OpenRelay, Tls
from hostler.agent.outside.outside import Outside, RemoteRelay
from hostler.agent.outside.relays import MOST_FRAMES, RelayCall
from hostler.base.errors import HostlerError, error
from hostler.v1 import node_pb2
from hostler.wire.codec_relay import relay_message, relay_value
from hostler.wire.relay import (
    CHUNK,
    STDIN,
    WINDOW,
    RelayBeat,
    RelayData,
    RelayEnd,
    RelayFrame,
    RelayOpen,
    RelayResize,
    RelayWindow,
)

TLS = Tls(trust_domain="d", ca_pems=())


async def nobody() -> None:
    raise AssertionError


def outside() -> Outside:
    return Outside(nobody)  # type: ignore[arg-type]


async def test_X1_a_relay_that_is_sent_more_than_a_window_is_cut() -> None:
    relay = RemoteRelay(1, outside())
    for _ in range(WINDOW // CHUNK):
        assert relay.took(RelayData(STDIN, bytes(CHUNK)))
    assert not relay.took(RelayData(STDIN, b"x"))
    fresh = RemoteRelay(2, outside())
    assert all(fresh.took(RelayBeat()) for _ in range(MOST_FRAMES))
    assert not fresh.took(RelayBeat())


async def test_what_came_before_the_end_is_given_first() -> None:
    relay = RemoteRelay(1, outside())
    relay.took(RelayEnd())
    relay.gone(error("controller_unreachable", "gone"))
    assert await relay.receive() == RelayEnd()
    with pytest.raises(HostlerError, match="gone"):
        await relay.receive()


async def test_a_node_has_so_many_relays_and_no_more() -> None:
    door = outside()
    door._relays = {number: RemoteRelay(number, door) for number in range(module._MOST_RELAYS)}
    with pytest.raises(HostlerError) as refused:
        async with door.relay(TLS, "a", "rly_1"):
            pass
    assert refused.value.code == "rate_limited"


async def test_X1_a_call_that_is_behind_takes_no_more_than_it_can_hold() -> None:
    async def forward(frame: RelayFrame) -> None:
        raise AssertionError(frame)

    call = RelayCall(OpenRelay(relay=1, tls=TLS, address="a", relay_id="r"), forward)
    assert all(call.put(RelayBeat()) for _ in range(MOST_FRAMES))
    assert not call.put(RelayBeat())


@pytest.mark.parametrize(
    "frame",
    [
        RelayOpen("r"),
        RelayData(STDIN, b"x"),
        RelayWindow(1),
        RelayResize(1, 2),
        RelayEnd(3, "code", "said"),
        RelayBeat(),
    ],
)
def test_a_frame_is_what_it_was(frame: RelayFrame) -> None:
    assert relay_value(relay_message(frame)) == frame


def test_a_frame_longer_than_a_frame_may_be_is_refused() -> None:
    long = node_pb2.RelayFrame(data=node_pb2.RelayData(stream=0, data=bytes(CHUNK + 1)))
    for message in (long, node_pb2.RelayFrame()):
        with pytest.raises(HostlerError):
            relay_value(message)
