"""LC-21, LC-16: what a version on trial says of itself does not hang on a clock that somebody sets meanwhile."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hostler.agent.trial_side import HOLD_S, TrialSide
from hostler.agent.upgrade.places import Places
from hostler.agent.upgrade.records import RUNNING, Said, Trial
from support.agent import Core, core
from support.clocks import StillClock
from support.slots import places_in

DAY_MS = 86_400_000
TRIAL = Trial(
    key="uid", task_id="tsk_order", kind="activate", version="2.0.0", commit="c" * 40, slot="two", from_version="1.0.0",
    from_slot="one", trial_ms=90_000, baseline_serial="before", boot_id="boot", ordered_ms=1, phase=RUNNING,
)  # fmt: skip


class Clock(StillClock):
    """Of its two hands one can be set."""

    set_by_ms = 0

    def now_ms(self) -> int:
        return self.ms + self.set_by_ms


class Daemon:
    """As much of the agent as a trial looks at."""

    def __init__(self, node: Core, clock: Clock) -> None:
        self.clock, self.journal = clock, node.journal
        self.session = SimpleNamespace(state="connected", heard_for_seconds=0.0)
        self.renewal = SimpleNamespace(current=_identity("before"), renew_within=lambda _: None)
        self.report = SimpleNamespace(refresh=lambda: None)

    def passed(self, seconds: float) -> None:
        """With the same session."""
        self.clock.forward(int(seconds * 1000))
        self.session.heard_for_seconds += seconds


def _identity(serial: str) -> SimpleNamespace:
    return SimpleNamespace(facts=SimpleNamespace(serial=serial))


class Side:
    """One look of the loop after another."""

    def __init__(self, agent: Daemon, places: Places) -> None:
        self._side = TrialSide(cast("Any", agent), places, TRIAL.slot)
        self.said = Said(key=TRIAL.key, slot=TRIAL.slot, version="2.0.0")

    def look(self) -> Said:
        self.said = self._side._look(TRIAL, self.said)
        return self.said


@pytest.mark.parametrize("set_by_ms", [0, -DAY_MS, DAY_MS])
async def test_LC_21_a_session_is_held_whatever_the_clock_is_set_to(tmp_path: Path, set_by_ms: int) -> None:
    clock = Clock()
    async with core(tmp_path, clock=clock) as node:
        agent = Daemon(node, clock)
        side = Side(agent, places_in(tmp_path))
        agent.passed(HOLD_S)
        assert not side.look().connected_ms, "of the old certificate's session nobody asks"
        agent.renewal.current = _identity("after")
        assert side.look().renewed_ms
        clock.set_by_ms = set_by_ms
        agent.passed(HOLD_S / 2)
        assert not side.look().connected_ms, "not for long enough yet"
        agent.passed(HOLD_S / 2)
        assert side.look().connected_ms


@pytest.mark.parametrize("set_by_ms", [0, -900])
async def test_LC_21_a_task_that_ends_during_the_trial_counts_once_it_is_taken(tmp_path: Path, set_by_ms: int) -> None:
    clock = Clock()
    async with core(tmp_path, clock=clock) as node:
        side = Side(Daemon(node, clock), places_in(tmp_path))
        side.look()
        clock.set_by_ms = set_by_ms
        assert not side.look().task_done_ms, "none has ended"
        await node.run_task()
        assert not side.look().task_done_ms, "nobody has heard of it"
        _, last = node.journal.outbox_weight()
        node.journal.acknowledge(last)
        assert side.look().task_done_ms


async def test_LC_21_the_task_that_ordered_the_trial_proves_nothing(tmp_path: Path) -> None:
    clock = Clock()
    async with core(tmp_path, clock=clock) as node:
        order = await node.run_task()
        assert not node.journal.has_succeeded(but=order.task_id)
        await node.run_task()
        assert node.journal.has_succeeded(but=order.task_id)
    async with core(tmp_path, clock=clock) as node:
        assert not node.journal.has_succeeded(but=""), "what the version before has done is not this one's"
