"""Whatever happens to jobs in whatever order, nothing is given twice, nothing is forgotten, and no gang is torn."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.control.kernel.allocation_commands import CordonNode
from hostler.control.kernel.commands import ControlStarted, ExpireTasks, NodeGone, NodeHello, RevokeNode
from hostler.control.kernel.job_commands import CancelJob
from hostler.control.kernel.job_rows import JobRow, JobTaskRow, StrayRow
from hostler.control.kernel.rows import AttemptRow, CursorRow, TaskRow
from hostler.control.kernel.transitions import FINAL
from hostler.wire.node import Hello
from hostler.wire.report import TaskStatus
from support.control import ADMIN, USER
from support.jobs import JobBench, spec, submit_job

ACTS = ("submit", "submit", "report", "report", "report", "late", "cancel", "hello", "gone", "wait", "cordon", "revoke")
STEPS = st.lists(
    st.tuples(
        st.sampled_from((*ACTS, "restart", "lost_journal")), st.integers(0, 63), st.sampled_from(list(TaskStatus))
    ),
    max_size=45,
)
REFUSALS = ("job_exists", "operation_final", "revoked")
CODES = {TaskStatus.FAILED: ("exit_status", "disk_full"), TaskStatus.REFUSED: ("incompatible",)}


class Walk:
    """Three nodes of different sizes, and jobs of every sort."""

    def __init__(self) -> None:
        self.bench = JobBench()
        self.nodes = [
            self.bench.worker(cpu=cpu, labels={"rack": rack}) for cpu, rack in ((2000, "a"), (3000, "b"), (1000, "a"))
        ]
        self.seen: dict[str, tuple[str, str]] = {}  # attempt → (task, node) it was first placed on

    def rows(self, type_: Any) -> list[Any]:
        return list(self.bench.view.rows[type_].values())

    def act(self, what: str, number: int, status: TaskStatus) -> None:
        getattr(self, f"_{what}")(number, status)
        self.check()

    def _submit(self, number: int, _: TaskStatus) -> None:
        said = {
            "replicas": 1 + number % 3,
            "cpu": (500, 1000, 2000)[number // 3 % 3],
            "priority": ("low", "normal", "critical")[number // 9 % 3],
            "retries": {"failure": number % 2, "preemption": 2},
            "relocatable": bool(number & 1),
            "preemptible": bool(number & 6),
            "placement": ("pack", "spread")[number & 1],
        }
        if number & 8:
            said["gang"] = {"topology": "rack"} if number & 16 else {}
        parents = [job.job_id for job in self.rows(JobRow) if self.bench.operation(job.job_id).status not in FINAL]
        parent = parents[number % len(parents)] if parents and number & 32 else ""
        self.decide(
            submit_job(spec(f"j{number % 5}", existing=("error", "keep", "replace")[number % 3], **said), parent=parent)
        )

    def _report(self, number: int, status: TaskStatus) -> None:
        open_ = [task for task in self.rows(TaskRow) if task.state in ("assigned", "running")]
        if open_:
            task = open_[number % len(open_)]
            codes = CODES.get(status, ("",))
            self.bench.say(task, status, codes[number % len(codes)])

    def _late(self, number: int, status: TaskStatus) -> None:
        """Of any attempt that there ever was."""
        attempts = [attempt for attempt in self.rows(AttemptRow) if attempt.node_id]
        if attempts:
            attempt = attempts[number % len(attempts)]
            task = self.bench.view.get(TaskRow, attempt.task_id)
            if task.attempt_uid != attempt.attempt_uid or task.finished_at_ms:
                before = task
                self.bench.say(task, status, node=attempt.node_id, attempt=attempt.attempt_uid)
                after = self.bench.view.get(TaskRow, attempt.task_id)
                same = (after.attempt_uid, after.finished_at_ms) == (before.attempt_uid, before.finished_at_ms)
                assert same  # EF-02: it changes no other attempt

    def _cancel(self, number: int, _: TaskStatus) -> None:
        jobs = self.rows(JobRow)
        if jobs:
            job_id = jobs[number % len(jobs)].job_id
            self.bench.run(CancelJob(actor=USER, project_id="train", job_id=job_id))

    def _hello(self, number: int, _: TaskStatus, high: int = 1 << 30) -> None:
        node = self.bench.node_row(self.nodes[number % 3].node_id)
        cursor = self.bench.view.get(CursorRow, node.node_id)
        caps = msgspec.json.decode(node.capabilities, type=dict[str, str])
        said = Hello(agent_version="1", high_sequence=min(high, cursor.sequence), capabilities=caps)
        self.decide(NodeHello(node_id=node.node_id, session_id=f"s{number}", hello=said))

    def _lost_journal(self, number: int, status: TaskStatus) -> None:
        self._hello(number, status, high=0)

    def _gone(self, number: int, _: TaskStatus) -> None:
        node = self.bench.node_row(self.nodes[number % 3].node_id)
        self.bench.run(NodeGone(node_id=node.node_id, session_id=node.session_id))

    def _wait(self, number: int, _: TaskStatus) -> None:
        self.bench.now += (1_000, 61_000, 700_000)[number % 3]
        self.bench.run(ExpireTasks())

    def _cordon(self, number: int, _: TaskStatus) -> None:
        node_id, kind = self.nodes[number % 3].node_id, ("cordoned", "", "draining", "")[number // 3 % 4]
        self.decide(CordonNode(actor=ADMIN, node_id=node_id, owner="op", kind=kind))

    def _revoke(self, number: int, _: TaskStatus) -> None:
        if number < 4:
            self.bench.run(RevokeNode(actor=ADMIN, node_id=self.nodes[number % 3].node_id))

    def _restart(self, number: int, _: TaskStatus) -> None:
        self.bench.run(ControlStarted())

    def decide(self, command: Any) -> None:
        """A refusal is an answer; a fault of ours is not."""
        refusal = self.bench.decide(command).refusal
        assert refusal is None or refusal.code in REFUSALS, refusal

    def check(self) -> None:
        self.bench.check_books()
        for row in self.rows(AttemptRow):
            if row.node_id:  # an attempt is of one node for ever
                assert self.seen.setdefault(row.attempt_uid, (row.task_id, row.node_id)) == (row.task_id, row.node_id)
        running: dict[str, set[str]] = {}
        for row in self.rows(StrayRow):
            if not row.ended_at_ms:
                running.setdefault(row.task_id, set()).add(row.node_id)
        for task in self.rows(TaskRow):
            if not task.finished_at_ms:  # no two attempts of a task on one node
                assert task.node_id not in running.get(task.task_id, ())
        for job in self.rows(JobRow):
            self.check_job(job)

    def check_job(self, job: JobRow) -> None:
        operation, rows = self.bench.operation(job.job_id), self.bench.booked(job.job_id)
        waiting = [row for row in rows if row.pending]
        assert job.pending == len(waiting)
        assert bool(job.gone_ms) == (operation.status in FINAL)
        for row in waiting:
            assert row.reason or row.not_before_ms, row
        if job.gang:
            self.check_gang(rows)
        if operation.cancel_requested_ms or operation.status in FINAL:
            assert not waiting

    def check_gang(self, rows: list[JobTaskRow]) -> None:
        """While some of it waits, nothing of it is there but what has been told to end."""
        there = [row for row in rows if row.node_id]
        if any(row.pending for row in rows):
            assert all(row.leaving for row in there), rows
        elif there and not any(row.leaving for row in there):
            spec_ = msgspec.json.decode(self.bench.job(rows[0].job_id).spec)
            if spec_["gang"]["topology"]:
                racks = {msgspec.json.decode(self.bench.node_row(row.node_id).labels)["rack"] for row in there}
                assert len(racks) == 1


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_JB_EF_invariants_hold_after_every_step(steps) -> None:
    walk = Walk()
    for what, number, status in steps:
        walk.act(what, number, status)
