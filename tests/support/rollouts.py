"""Rollouts in the kernel alone: a fleet over regions, and nodes that stand a version or do not, played by the test."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from hostler.control.kernel.agent_commands import CreateRollout, MoveRollout, RolloutSettings
from hostler.control.kernel.agent_rows import AgentRunRow, RolloutNodeRow, RolloutRow
from hostler.control.kernel.rollout_plan import Plan
from hostler.control.kernel.rows import NodeRow
from hostler.pki.agent_report import Slot
from hostler.wire.report import TaskStatus
from support.agents import NEW, OLD, Agents
from support.control import ADMIN

# no wait between waves, so that a test says when time passes
SWIFT: dict[str, Any] = {"soak_seconds": 0, "safety_policy": "force"}


class Rollouts(Agents):
    """`regions`: how many nodes are in each, by name."""

    def __init__(self, regions: dict[str, int] | int = 1, **limits: Any) -> None:
        super().__init__(0, **limits)
        regions = {"here": regions} if isinstance(regions, int) else regions
        for region, count in regions.items():
            self.nodes += [self.node(labels=msgspec.json.encode({"region": region}).decode()) for _ in range(count)]
        self.rollout_id = ""
        self._made = 0

    def create(self, *, dry_run: bool = False, **asked: Any) -> Plan:
        """To `NEW`, at once and without soaking, unless told otherwise."""
        target = asked.pop("version", NEW)
        nodes, labels = asked.pop("nodes", ()), asked.pop("labels", {})
        self._made += 1
        rollout_id = f"rol_{self._made}"
        command = CreateRollout(
            actor=ADMIN,
            rollout_id=rollout_id,
            target_version=target,
            nodes=tuple(nodes),
            labels=labels,
            settings=RolloutSettings(**(SWIFT | asked)),
            dry_run=dry_run,
            correlation_id="cor_rollout",
        )
        plan: Plan = self.run(command)
        if not dry_run:
            self.rollout_id = rollout_id
        return plan

    def move(self, action: str, **more: Any) -> str:
        state: str = self.run(self.order(action, **more))
        return state

    def order(self, action: str, **more: Any) -> MoveRollout:
        """Approves the wave that waits, unless told otherwise."""
        if action == "approve":
            more = {"wave": self.rollout.wave} | more
        return MoveRollout(actor=ADMIN, rollout_id=self.rollout_id, action=action, correlation_id="cor_move", **more)

    def refused(self, action: str) -> str:
        code: str = self.bench.refusal(self.order(action)).code
        return code

    # -- what is stored ---------------------------------------------------------------------------

    @property
    def rollout(self) -> RolloutRow:
        row: RolloutRow = self.bench.view.get(RolloutRow, self.rollout_id)
        return row

    def part(self, node_id: str) -> RolloutNodeRow:
        row: RolloutNodeRow = self.bench.view.get(RolloutNodeRow, (self.rollout_id, node_id))
        return row

    def parts(self, *states: str) -> list[RolloutNodeRow]:
        rows = self.bench.view.rollout_nodes(self.rollout_id, 0, 10_000)
        return [row for row in rows if not states or row.state in states]

    def states(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for row in self.parts():
            found[row.state] = found.get(row.state, 0) + 1
        return found

    def open_runs(self) -> list[AgentRunRow]:
        rows: Iterable[Any] = self.bench.view.rows[AgentRunRow].values()
        return [row for row in rows if not row.finished_at_ms]

    def told(self, type_: str, **body: Any) -> list[dict[str, Any]]:
        bodies = [msgspec.json.decode(event.body) for event in self.events(type_)]
        return [said for said in bodies if all(said.get(name) == value for name, value in body.items())]

    def pauses(self) -> list[dict[str, Any]]:
        return self.told("rollout.changed", what="paused", automatic=True)

    # -- what nodes do ----------------------------------------------------------------------------

    def report(self, node_id: str, version: str = OLD, **changes: Any) -> bool:
        """A node that has the new version keeps the one before, unless told otherwise."""
        slots = (Slot(version=NEW, commit="c", state="running"), Slot(version=OLD, commit="c", state="previous"))
        return super().report(node_id, version, **({"slots": slots if version == NEW else ()} | changes))

    def change(self, node_id: str = "") -> AgentRunRow:
        """The node's open run, come so far that the node changes itself; or of the only one that has any."""
        run = next(run for run in self.open_runs() if node_id in ("", run.node_id))
        if run.stage_operation_id and not run.operation_id:
            self.stage(run.run_id)
        return self.of(run.run_id)

    def succeed(self, node_id: str = "") -> str:
        """The node stands what its open run brings. → the node."""
        run = self.change(node_id)
        self.restart(run.node_id, run.run_id, run.target_version)
        self.stand(run.node_id, run.run_id, run.target_version)
        assert self.of(run.run_id).state == "succeeded", self.of(run.run_id)
        return run.node_id

    def give_up(self, node_id: str = "", code: str = "upgrade_rolled_back") -> str:
        """The new version does not stand its trial, and the node is back on the one before. → the node."""
        run = self.change(node_id)
        (task,) = self.bench.tasks(run.operation_id)
        self.restart(run.node_id, run.run_id, run.target_version)
        self.gone(run.node_id)
        self.hello(run.node_id, run.from_version, instance_id=f"back {next(self._numbers)}")
        self.tell(task, TaskStatus.FAILED, code)
        assert self.of(run.run_id).state == "rolled_back", self.of(run.run_id)
        return run.node_id

    def fail(self, node_id: str = "", code: str = "digest_mismatch") -> str:
        """What the run asks for first is not done. → the node."""
        run = next(run for run in self.open_runs() if node_id in ("", run.node_id))
        self.end(run.stage_operation_id or run.operation_id, TaskStatus.FAILED, code)
        return run.node_id

    def play(self, *, bad: Callable[[NodeRow], bool] = lambda _: False, most: int = 10_000) -> list[str]:
        """Every run to its end, one after the other, until no more begin. → the nodes, in the order of their ends."""
        seen: list[str] = []
        while (runs := self.open_runs()) and len(seen) < most:
            run = runs[0]
            wrong = run.target_version == NEW and bad(self.node_row(run.node_id))
            seen.append(self.give_up(run.node_id) if wrong else self.succeed(run.node_id))
        return seen


def soaking(nodes: int = 2, **settings: object) -> tuple[Rollouts, str]:
    """A rollout whose canary took the version and is watched, and that canary."""
    rollouts = Rollouts(nodes)
    rollouts.create(soak_seconds=600, **settings)
    return rollouts, rollouts.succeed()


def healthy(rollouts: Rollouts) -> None:
    """What holds after every decision, whatever happened (see the walks)."""
    rollout = rollouts.rollout
    settings = msgspec.json.decode(rollout.settings, type=RolloutSettings)
    rows = rollouts.parts()
    moving = [row for row in rows if row.state in ("running", "rolling_back")]
    assert len({row.node_id for row in rows}) == len(rows)
    assert len(moving) <= settings.max_parallel
    assert {run.node_id for run in rollouts.open_runs()} >= {row.node_id for row in moving}
    if not rollouts.told("rollout.changed", what="resume"):  # which may begin at the canary again
        assert all(row.state in ("pending", "skipped") for row in rows if row.wave > rollout.wave)
    open_ = {"pending", "running", "soaking", "rolling_back"}
    assert all((row.state in open_) == (row.finished_at_ms == 0) for row in rows)
    assert all(row.reason for row in rows if row.finished_at_ms)
    if rollout.finished_at_ms:
        assert not [row for row in rows if row.state in open_]


__all__ = ["NEW", "OLD", "Rollouts", "healthy", "soaking"]
