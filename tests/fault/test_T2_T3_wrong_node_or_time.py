"""T2, T3, PK-10: addressed to another node, another key, another time: no effect, one signed receipt."""

from pathlib import Path

import pytest

from hostler.pki.keys import new_p256
from hostler.wire.report import TaskStatus
from support import builders
from support.agent import Core, core, refused
from support.keys import NOW, Keys


async def assert_no_effect(node: Core, code: str) -> None:
    """Nothing on the host, one signed receipt, one report."""
    assert node.files() == []
    assert len(node.journal.receipts()) == 1
    assert node.chain().ok
    (report,) = await node.outbox()
    assert (report.status, report.error_code) == (TaskStatus.REFUSED, code)
    assert report.receipt == node.journal.receipts()[0]


async def test_T2_a_task_for_another_node_is_wrong_node(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        spec = builders.task(node.keys, node.catalog, node_id="nod_b")
        assert refused(await node.deliver(builders.envelope(node.keys, spec))) == ("wrong_node", "target")
        await assert_no_effect(node, "wrong_node")


async def test_T2_a_foreign_envelope_moves_no_sequence_mark(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        spec = builders.task(node.keys, node.catalog, node_id="nod_b", sequence=2**62)
        await node.deliver(builders.envelope(node.keys, spec))
        assert node.journal.high_sequence == 0
        await node.run_task()


async def test_PK_10_a_task_for_an_earlier_key_of_this_node_is_wrong_node_key(tmp_path: Path) -> None:
    async with core(tmp_path) as node:
        other = new_p256().public.key_id
        spec = builders.task(node.keys, node.catalog, node_key_thumbprint=other)
        assert refused(await node.deliver(builders.envelope(node.keys, spec))) == ("wrong_node_key", "target")
        await assert_no_effect(node, "wrong_node_key")


@pytest.mark.parametrize("past", [0, 1, 3_600_000])
async def test_T3_an_expired_task_is_refused_from_the_very_millisecond(tmp_path: Path, past: int) -> None:
    async with core(tmp_path) as node:
        spec = builders.task(node.keys, node.catalog, expires_at_ms=NOW - past)
        spec = builders.changed(spec, not_before_ms=NOW - past - 10)
        assert refused(await node.deliver(builders.envelope(node.keys, spec))) == ("expired", "freshness")
        await assert_no_effect(node, "expired")


@pytest.mark.parametrize("ahead", [1, 3_600_000])
async def test_T3_I4_a_task_of_the_future_is_not_accepted_early(tmp_path: Path, ahead: int) -> None:
    async with core(tmp_path) as node:
        spec = builders.task(node.keys, node.catalog, not_before_ms=NOW + ahead)
        spec = builders.changed(spec, expires_at_ms=NOW + ahead + 10)
        assert refused(await node.deliver(builders.envelope(node.keys, spec))) == ("not_yet_valid", "freshness")
        await assert_no_effect(node, "not_yet_valid")


async def test_T3_a_task_that_expired_while_the_agent_was_down_is_not_started(tmp_path: Path) -> None:
    keys = Keys()
    async with core(tmp_path, keys) as node:
        admitted = node.judge(builders.envelope(keys, builders.task(keys, node.catalog)))
        await node.journal.accept(admitted)
    async with core(tmp_path, keys) as node:
        node.clock.forward(3_600_000)
        (stored,) = await node.journal.open_tasks()
        await node.runner.resume(stored, node.catalog, node.cancelled)
        (report,) = await node.task_reports()
        assert (report.status, report.error_code) == (TaskStatus.FAILED, "expired")
        assert node.files() == []
