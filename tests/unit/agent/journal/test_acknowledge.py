"""RT-07, P9: what the control plane has is dropped soon, many rows at once, and nothing else is."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.journal import journal as journals
from support.agent import core
from support.keys import Keys
from support.workloads import until


async def test_P9_acknowledgements_cost_no_commit_while_a_step_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "TRIM_S", 1.0)
    trimmed: list[int] = []
    async with core(tmp_path, Keys()) as node:
        await node.run_task()
        node.journal.on_trim(trimmed.append)
        for row in (1, 2, 3):
            node.journal.acknowledge(row)
        assert (node.journal.acknowledged, node.journal.outbox_rows) == (3, 0), "counts at once"
        assert len(await node.journal.pending(0, 100)) == 3, "the disk hears of it later"
        await until(lambda: trimmed)
        assert (await node.journal.pending(0, 100), trimmed) == ([], [3]), "of all three at once"


async def test_RT_07_an_agent_that_ends_in_between_has_dropped_it(tmp_path: Path) -> None:
    keys = Keys()
    async with core(tmp_path, keys) as node:
        await node.run_task()
        node.journal.acknowledge(2)
    async with core(tmp_path, keys) as node:
        assert [row for row, _ in await node.journal.pending(0, 100)] == [3]


async def test_K4_a_disk_that_does_not_take_it_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for room would wait for ever: where nothing is sent, nothing more is acknowledged."""
    monkeypatch.setattr(journals, "TRIM_S", 0.01)
    monkeypatch.setattr(journals, "TRIM_AGAIN_S", 0.05)
    trimmed: list[int] = []
    async with core(tmp_path, Keys()) as node:
        await node.run_task()
        node.journal.on_trim(trimmed.append)
        with monkeypatch.context() as sick:
            sick.setattr(journals.outbox, "trim", _refused)
            node.journal.acknowledge(3)
            await asyncio.sleep(0.2)
            assert trimmed == []
        await until(lambda: trimmed)
        assert (await node.journal.pending(0, 100), trimmed) == ([], [3])


def _refused(*_: Any, **__: Any) -> None:
    raise sqlite3.OperationalError("disk I/O error")


async def test_RT_07_rows_that_are_not_there_yet_cannot_be_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "TRIM_S", 0.0)
    async with core(tmp_path, Keys()) as node:
        node.journal.acknowledge(1 << 40)
        await node.run_task()
        await asyncio.sleep(0.1)
        assert [row for row, _ in await node.journal.pending(0, 100)] == [1, 2, 3]
