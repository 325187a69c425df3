"""What the kernel asks of rollouts; a part of `view.StoreView`."""

from typing import Any, TypeVar

from hostler.control.kernel.agent_rows import RolloutNodeRow, RolloutRow
from hostler.control.kernel.rows import Row
from hostler.control.store import local_tasks

R = TypeVar("R", bound=Row)
_OPEN = "rollout_id IN (SELECT r.rollout_id FROM agent_rollouts r WHERE r.finished_at_ms = 0)"


MOST_REMEMBERED = 8  # rollouts


class RolloutQueries:
    """Implements `kernel.rollout_view.RolloutView`.

    Who is in a rollout never changes, and every step of one looks at all of them: their keys are kept.
    """

    _cache: dict[type[Row], dict[Any, Row]]
    _members: dict[str, list[tuple[int, tuple[str, str]]]]  # rollout → (wave, key)

    def get(self, type_: type[R], key: Any) -> R | None:
        raise NotImplementedError

    def _where(self, type_: type[R], condition: str, *parameters: Any) -> list[R]:
        raise NotImplementedError

    def _pairs(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def open_rollouts(self) -> list[RolloutRow]:
        return self._where(RolloutRow, "finished_at_ms = 0 ORDER BY created_at_ms, rollout_id")

    def rollout_nodes(self, rollout_id: str, first_wave: int, last_wave: int) -> list[RolloutNodeRow]:
        members = self._members.get(rollout_id) or self._learn(rollout_id)
        cached: dict[Any, Any] = self._cache[RolloutNodeRow]
        found = (cached.get(key) or self.get(RolloutNodeRow, key) for w, key in members if first_wave <= w <= last_wave)
        return [row for row in found if row is not None]

    def _learn(self, rollout_id: str) -> list[tuple[int, tuple[str, str]]]:
        rows = self._where(RolloutNodeRow, "rollout_id = ? ORDER BY node_id", rollout_id)
        if len(self._members) >= MOST_REMEMBERED:
            self._members.clear()
        self._members[rollout_id] = [(row.wave, (row.rollout_id, row.node_id)) for row in rows]
        return self._members[rollout_id]

    def open_rollout_nodes_of(self, node_id: str) -> list[RolloutNodeRow]:
        return self._where(RolloutNodeRow, f"node_id = ? AND state != 'skipped' AND {_OPEN}", node_id)

    def nodes_in_rollouts(self) -> dict[str, str]:
        sql = f"SELECT node_id, rollout_id FROM agent_rollout_nodes WHERE state != 'skipped' AND {_OPEN}"  # noqa: S608
        return dict(self._pairs(sql))

    def busy_nodes(self) -> set[str]:
        return {node_id for (node_id,) in self._pairs(local_tasks.BUSY_NODES)}
