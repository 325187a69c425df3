"""The routes of rollouts; see `table`."""

from hostler.control.api import rollout_bodies as bodies
from hostler.control.api.route import Route
from hostler.control.api.routes import rollouts
from hostler.control.store.records import Page
from hostler.control.store.rollout_queries import RolloutSummary, RolloutView

_ALL = "/api/v1/admin/agent-rollouts"
_ONE = f"{_ALL}/{{rollout_id}}"
_MAY = "rollouts.admin"


def _move(name: str, summary: str, body: type = bodies.MoveReason) -> Route:
    handler = getattr(rollouts, name)
    return Route(
        "POST",
        f"{_ONE}/{name}",
        _MAY,
        handler,
        summary,
        body=body,
        action=f"rollout.{name}",
        answer=bodies.RolloutState,
    )


ROLLOUT_ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        _ALL,
        _MAY,
        rollouts.create,
        "Bring a version to many nodes in waves, or with dry_run show the waves",
        body=bodies.NewRollout,
        action="rollout.create",
        answer=bodies.RolloutMade,
    ),
    Route(
        "GET",
        _ALL,
        _MAY,
        rollouts.listing,
        "List rollouts, newest first",
        query=("cursor", "page_size", "state"),
        answer=Page[RolloutSummary],
    ),
    Route(
        "GET",
        _ONE,
        _MAY,
        rollouts.get,
        "Show a rollout with its waves, and a page of its nodes",
        query=("cursor", "page_size", "wave", "node_state"),
        answer=RolloutView,
    ),
    _move("approve", "Let the wave of a rollout that waits begin; the body names it", bodies.Approval),
    _move("pause", "Let nothing new of a rollout begin"),
    _move("resume", "Let a paused rollout go on", bodies.Resume),
    _move("abort", "End a rollout: what has not begun is skipped"),
    _move("rollback", "Bring back every node that took a rollout's version"),
)
