"""AL-06: what was done for an allocation is remembered as long as the journal lives, and only under its own name."""

from pathlib import Path
from typing import Any

from hostler.agent.journal.binding import Binding
from support import builders
from support.agent import core
from support.keys import Keys

INPUTS = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"allocation_id": {"type": "string"}, "other": {"type": "string"}},
}


def catalog(keys: Keys) -> Any:
    steps = builders.render_step("one"), builders.render_step("two", path="/srv/two")
    return builders.catalog(keys, builders.definition(*steps, inputs=INPUTS))


async def test_AL_06_steps_are_kept_by_allocation_over_restarts_and_compaction(tmp_path: Path) -> None:
    keys = Keys()
    async with core(tmp_path, keys, catalog=catalog) as node:
        spec = await node.run_task(inputs={"allocation_id": "al-1"})
        await node.run_task(inputs={"allocation_id": "al-2"})
        await node.run_task(inputs={"other": "al-1"})
        await node.journal.compact(node.clock.now_ms() + 1)
        receipts = [step for step in await node.step_reports() if step.receipt_digest]
    async with core(tmp_path, keys, catalog=catalog) as node:
        past = node.journal.past("al-1")
        assert [(step.step_id, step.state, step.task_state) for step in past] == [
            ("one", "succeeded", ""),
            ("two", "succeeded", "succeeded"),
        ]
        assert {(step.operation_type, step.task_id) for step in past} == {("demo.write@v1", spec.task_id)}
        assert [step.receipt_digest for step in past] == [step.receipt_digest for step in receipts[:2]]
        assert past[0].outputs_json == receipts[0].outputs_json
        assert node.journal.past("al-3") == ()
        assert node.journal.past("") == ()


async def test_AL_06_the_allocation_of_the_envelope_wins_over_an_input(tmp_path: Path) -> None:
    async with core(tmp_path, catalog=catalog) as node:
        node.view_changes["binding"] = Binding(allocation_id="al-bound")
        await node.run_task(allocation_id="al-bound", inputs={"allocation_id": "al-said"})
        assert len(node.journal.past("al-bound")) == 2
        assert node.journal.past("al-said") == ()


async def test_AL_06_a_failed_step_is_remembered_as_failed(tmp_path: Path) -> None:
    async with core(tmp_path, catalog=catalog) as node:
        (node.root / "srv").write_text("no directory")
        await node.run_task(inputs={"allocation_id": "al-1"})
        (failed,) = node.journal.past("al-1")
        assert (failed.step_id, failed.state, failed.task_state) == ("one", "failed", "failed")
