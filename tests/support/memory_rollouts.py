"""What the kernel asks of rollouts, over rows in dictionaries; a part of `memory_view.MemoryView`."""

from typing import Any

from hostler.control.kernel.agent_rows import RolloutNodeRow, RolloutRow
from hostler.control.kernel.rows import Row, TaskRow


class MemoryRollouts:
    """Implements `kernel.rollout_view.RolloutView`."""

    rows: dict[type[Row], dict[Any, Row]]

    def _rollouts(self, type_: Any) -> list[Any]:
        return list(self.rows[type_].values())

    def open_rollouts(self) -> list[RolloutRow]:
        found = [row for row in self._rollouts(RolloutRow) if not row.finished_at_ms]
        return sorted(found, key=lambda row: (row.created_at_ms, row.rollout_id))

    def rollout_nodes(self, rollout_id: str, first_wave: int, last_wave: int) -> list[RolloutNodeRow]:
        rows = [row for row in self._rollouts(RolloutNodeRow) if row.rollout_id == rollout_id]
        return sorted((r for r in rows if first_wave <= r.wave <= last_wave), key=lambda row: row.node_id)

    def _in_open(self) -> list[RolloutNodeRow]:
        open_ids = {row.rollout_id for row in self.open_rollouts()}
        return [r for r in self._rollouts(RolloutNodeRow) if r.rollout_id in open_ids and r.state != "skipped"]

    def open_rollout_nodes_of(self, node_id: str) -> list[RolloutNodeRow]:
        return [row for row in self._in_open() if row.node_id == node_id]

    def nodes_in_rollouts(self) -> dict[str, str]:
        return {row.node_id: row.rollout_id for row in self._in_open()}

    def busy_nodes(self) -> set[str]:
        return {task.node_id for task in self._rollouts(TaskRow) if not task.finished_at_ms and task.node_id}
