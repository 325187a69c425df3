"""RT-07: reports go up from the oldest that is not acknowledged, and only over a link that is open."""

import asyncio
from pathlib import Path

import pytest

from hostler.agent.journal import outbox
from hostler.agent.journal.journal import Journal
from hostler.agent.session.outgoing import MAX_ROWS, Outgoing
from hostler.v1 import node_pb2
from hostler.wire.node import Heartbeat
from hostler.wire.report import LogLine
from support.clocks import StillClock


def line(number: int) -> LogLine:
    return LogLine(task_id="t", attempt_uid="u", step_id="s", step_index=0, stream="stdout", text=str(number), at_ms=0)


def sequences(batch: list[node_pb2.AgentMessage]) -> list[int]:
    return [report.outbox_seq for message in batch for report in message.reports.reports]


async def nothing_comes(outgoing: Outgoing) -> bool:
    try:
        async with asyncio.timeout(0.03):
            await outgoing.next_batch()
    except TimeoutError:
        return True
    return False


@pytest.fixture
async def outgoing(tmp_path: Path):
    journal = await Journal.open(tmp_path / "journal.db", StillClock())
    await journal._write(lambda db: [outbox.add(db, line(number)) for number in range(3)])
    made = Outgoing(journal, Heartbeat)
    journal.on_outbox(made.rows_added)
    yield made
    await journal.close()


async def test_nothing_is_sent_before_the_control_plane_has_welcomed_us(outgoing: Outgoing) -> None:
    assert await nothing_comes(outgoing)
    outgoing.link_up(30)
    assert sequences(await outgoing.next_batch()) == [1, 2, 3]


async def test_P5_RT_07_what_was_sent_into_a_broken_link_is_sent_again_first(outgoing: Outgoing) -> None:
    outgoing.link_up(30)
    assert sequences(await outgoing.next_batch()) == [1, 2, 3]
    outgoing.link_down()
    await outgoing._journal._write(lambda db: outbox.add(db, line(4)))
    # sending 4 now would let the control plane acknowledge 1 to 3, which it may never have seen
    assert await nothing_comes(outgoing)
    outgoing.link_up(30)
    assert sequences(await outgoing.next_batch()) == [1, 2, 3, 4]


async def test_an_acknowledged_row_is_not_sent_again(outgoing: Outgoing) -> None:
    outgoing.link_up(30)
    await outgoing.next_batch()
    await outgoing._journal.trim(2)
    outgoing.link_down()
    outgoing.link_up(30)
    assert sequences(await outgoing.next_batch()) == [3]


async def test_a_flood_goes_up_in_batches_without_gap_or_repeat(outgoing: Outgoing) -> None:
    await outgoing._journal._write(lambda db: [outbox.add(db, line(n)) for n in range(2 * MAX_ROWS)])
    outgoing.link_up(30)
    seen: list[int] = []
    while len(seen) < 2 * MAX_ROWS + 3:
        seen += sequences(await outgoing.next_batch())
    assert seen == list(range(1, 2 * MAX_ROWS + 4))
