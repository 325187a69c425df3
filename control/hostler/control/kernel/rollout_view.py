"""What decisions about rollouts ask of the store; a part of `model.View`."""

from collections.abc import Iterable
from typing import Protocol

from hostler.control.kernel.agent_rows import RolloutNodeRow, RolloutRow


class RolloutView(Protocol):
    def open_rollouts(self) -> Iterable[RolloutRow]:
        """Those that have no end yet, oldest first."""

    def rollout_nodes(self, rollout_id: str, first_wave: int, last_wave: int) -> Iterable[RolloutNodeRow]:
        """Of these waves, both included."""

    def open_rollout_nodes_of(self, node_id: str) -> Iterable[RolloutNodeRow]:
        """The node's part in rollouts that have no end yet, but for those that skip it."""

    def nodes_in_rollouts(self) -> dict[str, str]:
        """Node → the rollout without an end that it is a part of."""

    def busy_nodes(self) -> set[str]:
        """Nodes with tasks that have not ended."""
