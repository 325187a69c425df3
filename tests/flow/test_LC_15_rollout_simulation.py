"""LC-15, LC-16: a hundred nodes in four regions, played by seed. Every run is the kernel's own; time and luck are not.

`HOSTLER_SLOW=1` plays many more seeds.
"""

import os
import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from hostler.control.kernel.agent_rows import AgentRunRow
from support.agents import NEW, OLD
from support.rollouts import Rollouts, healthy

REGIONS = {"ap": 25, "eu": 25, "sa": 25, "us": 25}
SEEDS = range(40 if os.environ.get("HOSTLER_SLOW") else 1)
SETTINGS = {"boundary": "region", "canary": 4, "max_parallel": 8, "soak_seconds": 60}
Fate = Callable[["Fleet", AgentRunRow], str]


class Change(NamedTuple):
    """A node began or ended a change towards a version, at a moment of the simulation."""

    node_id: str
    version: str
    what: str


class Fleet(Rollouts):
    """Nodes take their time and meet their fate; what happened is written down in order."""

    def __init__(self, seed: int) -> None:
        super().__init__(REGIONS)
        self.random = random.Random(seed)
        self.seen: list[Change] = []
        self.most = 0

    def region(self, node_id: str) -> str:
        return list(REGIONS)[self.nodes.index(node_id) // 25]

    def go(self, fate: Fate) -> None:
        """Until nothing moves any more: a rollout that is over, or one that waits for a person."""
        while self.rollout.state in ("running", "paused", "rolling_back"):
            runs = self.open_runs()
            self.most = max(self.most, len(runs))
            if not runs and self.rollout.state == "paused":
                return
            if runs:
                run = self.random.choice(runs)
                self.seen.append(Change(run.node_id, run.target_version, "began"))
                self._meet(run, fate(self, run) if run.target_version == NEW else "stand")
                self.seen.append(Change(run.node_id, run.target_version, "ended"))
            self.pass_time(self.random.randrange(1_000, 20_000))
            healthy(self)

    def _meet(self, run: AgentRunRow, fate: str) -> None:
        if fate == "stand":
            self.succeed(run.node_id)
        elif fate == "return":
            self.give_up(run.node_id)
        else:
            self.fail(run.node_id, fate)

    def touched(self) -> set[str]:
        """Nodes that were ever on their way to the new version."""
        return {change.node_id for change in self.seen if change.version == NEW}

    def versions(self) -> set[str]:
        return {self.node_row(node_id).agent_version for node_id in self.nodes}


def stands(fleet: Fleet, run: AgentRunRow) -> str:
    return "stand"


@pytest.mark.parametrize("seed", SEEDS)
def test_LC_15_canaries_of_every_region_go_first_and_then_region_by_region(seed: int) -> None:
    fleet = Fleet(seed)
    plan = fleet.create(**SETTINGS)
    assert [(wave.boundary, len(wave.nodes)) for wave in plan.waves] == [
        ("canary", 4), ("ap", 24), ("eu", 24), ("sa", 24), ("us", 24)
    ]  # fmt: skip
    fleet.go(stands)
    assert (fleet.rollout.state, fleet.states(), fleet.versions()) == ("succeeded", {"succeeded": 100}, {NEW})
    order = [change.node_id for change in fleet.seen if change.what == "began"]
    assert len(order) == len(set(order)) == 100
    assert {fleet.region(node_id) for node_id in order[:4]} == set(REGIONS)
    assert [fleet.part(node_id).wave for node_id in order] == sorted(fleet.part(node_id).wave for node_id in order)
    assert [fleet.region(node_id) for node_id in order[4:]] == [each for each in REGIONS for _ in range(24)]
    assert fleet.most == 8
    ends = {wave: max(row.took_at_ms for row in fleet.parts() if row.wave == wave) for wave in range(5)}
    starts = {wave: min(row.started_at_ms for row in fleet.parts() if row.wave == wave) for wave in range(5)}
    assert all(starts[wave + 1] >= ends[wave] + 60_000 for wave in range(4)), "each wave is watched first"


@pytest.mark.parametrize("seed", SEEDS)
def test_LC_16_a_bad_version_stops_at_the_canaries_and_everybody_is_back(seed: int) -> None:
    fleet = Fleet(seed)
    fleet.create(**SETTINGS)
    fleet.go(lambda *_: "return")
    assert fleet.touched() <= {row.node_id for row in fleet.parts() if row.wave == 0}
    assert (fleet.rollout.state, fleet.versions(), len(fleet.pauses())) == ("paused", {OLD}, 1)
    assert len(fleet.parts("pending")) == 100 - len(fleet.parts("rolled_back"))
    fleet.move("abort")
    assert fleet.states() == {"rolled_back": len(fleet.parts("rolled_back")), "skipped": 100 - len(fleet.touched())}


@pytest.mark.parametrize("seed", SEEDS)
def test_LC_16_a_version_bad_in_one_region_reaches_it_by_one_node_and_nothing_after_it(seed: int) -> None:
    fleet = Fleet(seed)
    fleet.create(**(SETTINGS | {"canary": 1, "order": ("eu", "sa")}))
    fleet.go(lambda fleet, run: "return" if fleet.region(run.node_id) == "sa" else "stand")
    assert fleet.rollout.state == "paused"
    bad = fleet.rollout.failed_node_id
    assert fleet.region(bad) == "sa"
    assert fleet.node_row(bad).name in fleet.rollout.reason
    assert not {"us"} & {fleet.region(node_id) for node_id in fleet.touched()}
    assert fleet.versions() == {OLD}, "the regions that stood it were brought back"
    assert len(fleet.parts("rolled_back")) >= 26


@pytest.mark.parametrize("seed", SEEDS)
def test_LC_16_a_few_that_fail_are_left_behind_where_that_was_allowed(seed: int) -> None:
    fleet = Fleet(seed)
    plan = fleet.create(**(SETTINGS | {"success_percent": 80, "max_failures": 5}))
    later = [node.node_id for node in plan.nodes if node.wave > 0]
    unlucky = set(fleet.random.sample(later, 4))
    fleet.go(lambda _, run: "return" if run.node_id in unlucky else "stand")
    assert (fleet.rollout.state, fleet.rollout.reason) == ("succeeded", "4 failed")
    assert {row.node_id for row in fleet.parts("rolled_back")} == unlucky
    assert len(fleet.parts("succeeded")) == 96
    assert fleet.pauses() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_LC_16_a_server_that_throttles_brings_nobody_back_and_fails_nobody(seed: int) -> None:
    fleet = Fleet(seed)
    fleet.create(**SETTINGS)

    def throttled(fleet: Fleet, _: AgentRunRow) -> str:
        return fleet.random.choice(["rate_limited", "source_unreachable", "stand", "stand"])

    fleet.go(throttled)
    assert (fleet.rollout.state, fleet.states(), fleet.rollout.failures) == ("succeeded", {"succeeded": 100}, 0)
    assert max(row.tries for row in fleet.parts()) > 1
    assert not [run for run in fleet.seen if run.version == OLD]


@pytest.mark.parametrize("seed", SEEDS)
def test_LC_15_nodes_that_are_away_or_leave_hold_nobody_up_for_ever(seed: int) -> None:
    fleet = Fleet(seed)
    away = set(fleet.random.sample(fleet.nodes, 10))
    for node_id in away:
        fleet.gone(node_id)
    fleet.create(**(SETTINGS | {"run_timeout_seconds": 600}))
    fleet.go(stands)
    assert (fleet.rollout.state, fleet.rollout.reason) == ("succeeded", "10 skipped")
    assert {row.node_id for row in fleet.parts("skipped")} == away
    assert fleet.touched() == set(fleet.nodes) - away
