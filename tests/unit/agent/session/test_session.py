"""The session against a control plane that says whatever the test wants, hostile things among them."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.journal.journal import Journal
from hostler.agent.outside.frames import Tls
from hostler.agent.session import session as module
from hostler.agent.session.inbox import Inbox
from hostler.agent.session.outgoing import Outgoing
from hostler.agent.session.session import Session
from hostler.base.errors import HostlerError, error
from hostler.v1 import node_pb2
from hostler.wire.node import Close, FromControl, Heartbeat, Hello, KeysetUpdate, ReportAck, Tasks, Welcome
from support.control import FrozenClock
from support.keys import NOW

Said = FromControl | HostlerError | None


class Script:
    """Plays `outside`: each link says its lines, then stays open (None) or ends by an error."""

    def __init__(self, *links: list[Said]) -> None:
        self._links = list(links)
        self.opened: list[bool] = []
        self.sent: list[node_pb2.AgentMessage] = []
        self.hellos: list[node_pb2.AgentMessage] = []
        self.over = asyncio.Event()

    @asynccontextmanager
    async def link(self, tls: Tls, address: str, hello: bytes, *, polls: bool) -> AsyncIterator["Script"]:
        self.opened.append(polls)
        self.hellos.append(node_pb2.AgentMessage.FromString(hello))
        if not self._links:
            self.over.set()
            await asyncio.Event().wait()
        self._lines = self._links.pop(0)
        yield self

    async def values(self) -> AsyncIterator[FromControl]:
        for line in self._lines:
            await asyncio.sleep(0)
            if line is None:
                self.over.set()
                await asyncio.Event().wait()
            if isinstance(line, HostlerError):
                raise line
            assert line is not None
            yield line
        raise error("controller_unreachable", "the script is at its end")

    async def send(self, messages: list[bytes]) -> None:
        self.sent += [node_pb2.AgentMessage.FromString(message) for message in messages]


class Bed:
    """A session, and what it told the others."""

    def __init__(self, journal: Journal, script: Script, transport: Any = "auto") -> None:
        self.inbox, self.asked = Inbox(), []
        self.states: list[str] = []
        self.journal = journal
        outgoing = Outgoing(journal, Heartbeat)
        self.session = Session(
            outside=script,  # type: ignore[arg-type]
            target=lambda: (Tls(trust_domain="x", ca_pems=()), "h:1"),
            hello=lambda: Hello(agent_version="1"),
            journal=journal,
            inbox=self.inbox,
            outgoing=outgoing,
            transport=transport,
            rng=random.Random(1),
            renew_within=self.asked.append,
            clock=FrozenClock(),
            changed=lambda: self.states.append(self.session.state),
        )


Play = Callable[..., Any]


@pytest.fixture
async def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Play]:
    """Runs a session through links until the last line was said."""
    monkeypatch.setattr(module, "full_jitter", lambda *_, **__: 0.0)
    journal = await Journal.open(tmp_path / "journal.db", FrozenClock())

    async def run(*links: list[Said], transport: str = "auto") -> tuple[Bed, Script]:
        script = Script(*links)
        bed = Bed(journal, script, transport)
        running = asyncio.create_task(bed.session.run())
        async with asyncio.timeout(10):
            await script.over.wait()
        await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
        return bed, script

    yield run
    await journal.close()


def welcome(**more: Any) -> Welcome:
    return Welcome(**({"session_id": "s", "server_time_ms": NOW, "control_epoch": 1, "heartbeat_seconds": 5} | more))


async def test_P1_who_remembers_less_than_this_node_has_seen_makes_it_hold(play: Play) -> None:
    bed, _ = await play([welcome(), None])
    await bed.journal.begin_epoch(1)
    bed.journal._raise_sequence(9)
    bed, _ = await play([welcome(sequence=9), None])
    assert not bed.journal.held
    bed, _ = await play([welcome(sequence=8), None])
    assert bed.journal.held


async def test_P1_a_lower_epoch_is_held_off_and_a_higher_one_proves_nothing_by_itself(play: Play) -> None:
    bed, _ = await play([welcome(), None])
    await bed.journal.begin_epoch(3)
    bed, _ = await play([welcome(control_epoch=2), None])
    assert (bed.session.hold, bed.journal.held) == ("controller_rollback", False)
    bed, _ = await play([welcome(control_epoch=2**62), None])
    assert bed.journal.control_epoch == 3, "an epoch comes with the root's keyset, not with a welcome"
    assert bed.session.hold == ""


async def test_nothing_is_sent_before_the_welcome_but_the_hello(play: Play) -> None:
    bed, script = await play([Tasks(()), KeysetUpdate(b"k"), None])
    assert script.sent == []
    assert [hello.WhichOneof("body") for hello in script.hellos] == ["hello"]
    assert isinstance(await bed.inbox.get(), Tasks), "what comes is judged elsewhere, whenever it comes"
    assert bed.session.state == "connecting"


async def test_PK_08_a_node_told_to_renew_does_so_soon(play: Play) -> None:
    bed, _ = await play([welcome(renew_certificate=True), None])
    assert bed.asked == [10.0]


@pytest.mark.parametrize("code", ["revoked", "identity_cloned", "controller_rollback", "certificate_invalid"])
async def test_I1_a_close_that_says_why_is_shown_as_a_hold(play: Play, code: str) -> None:
    bed, _ = await play([welcome(), Close(error_code=code, message="no")])
    assert bed.session.hold == code


async def test_a_close_with_an_unknown_code_is_only_a_close(play: Play) -> None:
    bed, script = await play([welcome(), Close(error_code="x" * 5000, message="y")], [welcome(), None])
    assert (bed.session.hold, bed.session.state) == ("", "connected")
    assert len(script.opened) == 2


async def test_OP_15_a_stream_that_never_opens_gives_way_to_polling_and_back(play: Play) -> None:
    broken = [error("controller_unreachable", "no stream here")]
    _, script = await play(*[broken] * 6)
    assert script.opened == [False, False, False, True, True, True, False]


async def test_acknowledgements_of_what_was_never_sent_harm_nothing(play: Play) -> None:
    bed, _ = await play([welcome(), ReportAck(2**62), None])
    assert bed.journal.outbox_rows == 0
    assert bed.session.state == "connected"


async def test_I4_how_far_the_clocks_are_apart_is_known(play: Play) -> None:
    bed, _ = await play([welcome(server_time_ms=NOW - 3_600_000), None])
    assert bed.session.clock_skew_ms == 3_600_000


async def test_CG_03_a_welcome_under_a_protocol_that_is_not_spoken_here_holds_the_agent(play: Play) -> None:
    bed, _ = await play([welcome(protocol=99)])
    assert (bed.session.state, bed.session.hold) == ("disconnected", "protocol_mismatch")
    bed, _ = await play([welcome(protocol=2), None])
    assert (bed.session.state, bed.session.hold) == ("connected", "")


async def test_every_change_of_the_link_is_told_at_once(play: Play) -> None:
    bed, _ = await play([welcome(), Close(error_code="draining", message="restart")], [welcome(), None])
    assert bed.states == ["connected", "disconnected", "connected"]


async def test_EF_05_silence_is_counted_from_the_end_of_a_link(play: Play) -> None:
    bed, _ = await play()
    assert (bed.session.silent_seconds, bed.session.heard_for_seconds) == (float("inf"), 0.0), "nobody was heard yet"
    bed, _ = await play([welcome(), None])
    assert bed.session.silent_seconds == 0.0
    bed.session._since -= 7
    assert bed.session.heard_for_seconds == 7.0
    bed, _ = await play([welcome()])
    assert bed.session.state == "disconnected"
    bed.session._heard_at -= 5
    assert (bed.session.silent_seconds, bed.session.heard_for_seconds) == (5.0, 0.0)


async def test_K3_a_control_plane_that_forgot_counts_as_nobody(play: Play) -> None:
    bed, _ = await play([welcome(), None])
    await bed.journal.begin_epoch(3)
    bed, _ = await play([welcome(control_epoch=2), None])
    bed.session._since -= 7
    assert bed.session.heard_for_seconds == 0.0
