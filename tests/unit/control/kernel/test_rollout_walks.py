"""Whatever happens to a rollout in whatever order, these hold (LC-15, LC-16, DM-07).

No node is in it twice or in two runs, waves keep their order, never more run at one time than was said, a threshold
pauses once until a person resumes, and in the end every node has an end.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.base.errors import HostlerError
from hostler.control.kernel.commands import NodeStatus, RevokeNode
from hostler.pki.agent_report import DriftState
from support.agents import NEW, OLD
from support.control import ADMIN
from support.rollouts import Rollouts, healthy

ACTS = (
    "stand", "stand", "stand", "give_up", "refuse", "throttle", "change", "wait", "hour", "gone", "hello", "returned",
    "sick", "well", "uncertified", "revoke", "pause", "resume", "retry", "approve", "abort", "rollback", "restart",
)  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 11)), max_size=40)
SETTINGS = st.fixed_dictionaries(
    {
        "canary": st.integers(1, 3),
        "boundary": st.sampled_from(["", "region"]),
        "max_parallel": st.integers(1, 4),
        "success_percent": st.sampled_from([50, 80, 100]),
        "max_failures": st.integers(1, 4),
        "approval": st.sampled_from(["none", "after_canary", "each_wave"]),
        "auto_rollback": st.booleans(),
        "soak_seconds": st.sampled_from([0, 30]),
        "run_timeout_seconds": st.just(600),
        "safety_policy": st.sampled_from(["force", "drain"]),
    }
)


class Walk:
    """Nine nodes in three regions, to which things happen."""

    def __init__(self, asked: dict[str, object]) -> None:
        self.rollouts = Rollouts({"eu": 4, "us": 3, "": 2})
        self.rollouts.create(**asked)
        self.pauses = 0
        self.highest = 0

    def act(self, what: str, number: int) -> None:
        resumed = what in ("resume", "retry")
        try:
            getattr(self, f"_{what}")(number)
        except HostlerError:
            resumed = False  # refused: nothing happened
        self.check(resumed=resumed)

    def check(self, *, resumed: bool) -> None:
        healthy(self.rollouts)
        rollout, pauses = self.rollouts.rollout, len(self.rollouts.pauses())
        if rollout.turning_back or rollout.error_code:
            assert rollout.state in ("paused", "rolling_back", "aborted", "failed", "rolled_back")
        assert pauses <= self.pauses + 1
        if pauses > self.pauses and not resumed:
            self.pauses = pauses
        waves = [said["wave"] for said in self.rollouts.told("rollout.wave_started")]
        if not self.rollouts.told("rollout.changed", what="resume"):
            assert waves == sorted(set(waves))
            assert pauses <= 1
        self.pauses = pauses

    def _of_run(self, number: int) -> str:
        runs = sorted(self.rollouts.open_runs(), key=lambda run: run.node_id)
        runs = [run for run in runs if self.rollouts.node_row(run.node_id).connection == "connected"]
        return runs[number % len(runs)].node_id if runs else ""

    def _node(self, number: int) -> str:
        return self.rollouts.nodes[number % len(self.rollouts.nodes)]

    def _in_a_run(self, node_id: str) -> bool:
        return any(run.node_id == node_id for run in self.rollouts.open_runs())

    def _stand(self, number: int) -> None:
        node_id = self._of_run(number)
        if node_id and self._is_well(node_id):
            self.rollouts.succeed(node_id)

    def _is_well(self, node_id: str) -> bool:
        node = self.rollouts.node_row(node_id)
        return node.health == "ok" and not node.hold

    def _give_up(self, number: int) -> None:
        if (node_id := self._of_run(number)) and self._is_well(node_id):
            self.rollouts.give_up(node_id)

    def _refuse(self, number: int) -> None:
        if node_id := self._of_run(number):
            self._staged_badly(node_id, "digest_mismatch")

    def _throttle(self, number: int) -> None:
        if node_id := self._of_run(number):
            self._staged_badly(node_id, "rate_limited")

    def _staged_badly(self, node_id: str, code: str) -> None:
        run = next(run for run in self.rollouts.open_runs() if run.node_id == node_id)
        if run.operation_id or run.stage_operation_id:
            self.rollouts.fail(node_id, code)

    def _change(self, number: int) -> None:
        if node_id := self._of_run(number):
            self.rollouts.change(node_id)

    def _wait(self, number: int) -> None:
        self.rollouts.pass_time(1_000 * (number + 1) * 5)

    def _hour(self, _: int) -> None:
        self.rollouts.pass_time(700_000)

    def _gone(self, number: int) -> None:
        self.rollouts.gone(self._node(number))

    def _hello(self, number: int) -> None:
        node_id = self._node(number)
        if not self._in_a_run(node_id):
            version = self.rollouts.node_row(node_id).agent_version
            self.rollouts.hello(node_id, version, instance_id=f"again {self.rollouts.bench.now} {number}")

    def _returned(self, number: int) -> None:
        node_id = self._node(number)
        if not self._in_a_run(node_id):
            self.rollouts.hello(node_id, OLD, instance_id=f"old {len(self.rollouts.bench.events)}")

    def _sick(self, number: int) -> None:
        self._storage(number, "read_only")

    def _well(self, number: int) -> None:
        self._storage(number, "ok")

    def _storage(self, number: int, storage: str) -> None:
        node_id = self._node(number)
        said = NodeStatus(node_id=node_id, keyset_version=1, catalog_version=1, storage=storage, hold="", drift="")
        self.rollouts.run(said)

    def _uncertified(self, number: int) -> None:
        self.rollouts.report(self._node(number), NEW, state=DriftState.CERTIFICATE_ONLY)

    def _revoke(self, number: int) -> None:
        if number < 2:
            self.rollouts.run(RevokeNode(actor=ADMIN, node_id=self._node(number)))

    def _pause(self, _: int) -> None:
        self.rollouts.move("pause")

    def _resume(self, _: int) -> None:
        self.rollouts.move("resume")

    def _retry(self, _: int) -> None:
        self.rollouts.move("resume", retry_failed=True)

    def _approve(self, _: int) -> None:
        self.rollouts.move("approve")

    def _abort(self, number: int) -> None:
        if number == 0:
            self.rollouts.move("abort")

    def _rollback(self, number: int) -> None:
        if number == 0:
            self.rollouts.move("rollback")

    def _restart(self, _: int) -> None:
        """Nothing is kept but the rows: the view is all there is."""
        self.rollouts.pass_time(0)

    def to_the_end(self) -> None:
        """Time, and a person who lets everything go on, bring every rollout to its end."""
        for _ in range(200):
            rollouts = self.rollouts
            if rollouts.rollout.finished_at_ms:
                break
            for action in ("approve", "resume"):
                try:
                    rollouts.move(action)
                except HostlerError:
                    continue
            rollouts.pass_time(900_000)
            self.check(resumed=True)
        assert self.rollouts.rollout.finished_at_ms, self.rollouts.rollout
        healthy(self.rollouts)
        assert self.rollouts.rollout.state in ("succeeded", "failed", "aborted", "rolled_back")


@settings(max_examples=120, deadline=None)
@given(SETTINGS, STEPS)
def test_LC_15_LC_16_whatever_happens_a_rollout_keeps_its_rules_and_ends(
    asked: dict[str, object], steps: list[tuple[str, int]]
) -> None:
    walk = Walk(asked)
    for what, number in steps:
        walk.act(what, number)
    walk.to_the_end()
