"""DM-07, API-20: who watches a rollout sees its end, also where the control plane starts anew in between."""

from collections.abc import Iterator
from typing import Any

import pytest

from hostler.base.errors import HostlerError, error
from hostler.cli import rollouts_show


def rollout(state: str, finished_at_ms: int = 0) -> dict[str, Any]:
    return {"state": state, "states": {"running": 1}, "finished_at_ms": finished_at_ms}


def following(monkeypatch: pytest.MonkeyPatch, *answers: dict[str, Any] | HostlerError) -> dict[str, Any]:
    monkeypatch.setattr(rollouts_show, "_EVERY_S", 0.0)
    left: Iterator[dict[str, Any] | HostlerError] = iter(answers)

    def ask() -> dict[str, Any]:
        said = next(left)
        if isinstance(said, HostlerError):
            raise said
        return said

    return rollouts_show.follow(ask, quiet=True)


def test_API_20_a_control_plane_that_is_away_for_a_moment_ends_no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    away = error("controller_unreachable", "no answer")
    found = following(monkeypatch, rollout("running"), away, away, rollout("succeeded", 1))
    assert found["state"] == "succeeded"


def test_API_20_one_that_never_answered_and_one_that_stays_away_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    away = error("controller_unreachable", "no answer")
    for answers in ([away], [rollout("running"), *[away] * 31], [rollout("running"), error("not_found", "gone")]):
        with pytest.raises(HostlerError) as caught:
            following(monkeypatch, *answers)
        assert caught.value is answers[-1]
