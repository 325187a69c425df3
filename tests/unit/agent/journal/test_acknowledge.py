"""RT-07, P9: what the control plane has is dropped soon, many rows at once, and nothing else is; none is sent twice."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.journal import journal as journals
from hostler.agent.session.outgoing import Outgoing
from support.agent import core
from support.keys import Keys


async def test_P9_acknowledgements_cost_no_commit_while_a_step_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "TRIM_S", 0.05)
    trimmed: list[int] = []
    async with core(tmp_path, Keys()) as node:
        await node.run_task()
        node.journal.on_trim(trimmed.append)
        for row in (1, 2, 3):
            node.journal.acknowledge(row)
        assert (node.journal.acknowledged, node.journal.outbox_rows) == (3, 0), "counts at once"
        assert len(await node.journal.pending(0, 100)) == 3, "the disk hears of it later"
        await asyncio.sleep(0.3)
        assert (await node.journal.pending(0, 100), trimmed) == ([], [3]), "of all three at once"


async def test_RT_07_an_agent_that_ends_in_between_has_dropped_it(tmp_path: Path) -> None:
    keys = Keys()
    async with core(tmp_path, keys) as node:
        await node.run_task()
        node.journal.acknowledge(2)
    async with core(tmp_path, keys) as node:
        assert [row for row, _ in await node.journal.pending(0, 100)] == [3]


async def test_RT_07_a_new_link_sends_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    async with core(tmp_path, Keys()) as node:
        await node.run_task()
        beat: Any = None
        outgoing = Outgoing(node.journal, beat)
        node.journal.acknowledge(2)
        outgoing.link_up(30)
        outgoing._next_beat = float("inf")
        (message,) = await outgoing.next_batch()
        assert [report.outbox_seq for report in message.reports.reports] == [3]


async def test_RT_07_rows_that_are_not_there_yet_cannot_be_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "TRIM_S", 0.0)
    async with core(tmp_path, Keys()) as node:
        node.journal.acknowledge(1 << 40)
        await node.run_task()
        await asyncio.sleep(0.1)
        assert [row for row, _ in await node.journal.pending(0, 100)] == [1, 2, 3]
