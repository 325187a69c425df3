"""Whatever happens in whatever order, these hold (OP-08, OP-10, EV-10, RT-08)."""

import itertools
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.control.kernel.commands import (
    CancelOperation,
    ControlStarted,
    ExpireTasks,
    FoldReports,
    NodeGone,
    NodeHello,
    RetryOperation,
    RevokeNode,
    TasksAccepted,
)
from hostler.control.kernel.events import TERMINAL
from hostler.control.kernel.rows import AttemptRow, CursorRow, NodeRow, OperationRow, TaskRow
from hostler.control.kernel.transitions import FINAL
from hostler.wire.node import Hello
from hostler.wire.report import Report, TaskReport, TaskStatus
from hostler.wire.task import Policy
from support.control import ADMIN, USER, submit
from support.memory_view import Bench

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("submit", "report", "stale", "cancel", "retry", "hello", "gone", "revoke", "accept", "wait", "restart")
        ),
        st.integers(0, 7),
        st.sampled_from(list(TaskStatus)),
    ),
    max_size=40,
)


class Walk:
    """A control plane with three nodes to which things happen."""

    def __init__(self, limit: int) -> None:
        self.bench = Bench(Policy(max_concurrency=limit), start_within_ms=3_000_000)
        self.nodes = [self.bench.node(connected=n != 2) for n in range(3)]
        self.outbox = {node.node_id: itertools.count(1) for node in self.nodes}
        self.finals: dict[tuple[str, int], str] = {}
        self.sequences: dict[str, int] = {node.node_id: 0 for node in self.nodes}

    def operations(self) -> list[OperationRow]:
        return list(self.bench.view.rows[OperationRow].values())  # type: ignore[arg-type]

    def tasks(self) -> list[TaskRow]:
        return list(self.bench.view.rows[TaskRow].values())  # type: ignore[arg-type]

    def act(self, what: str, number: int, status: TaskStatus) -> None:
        command = getattr(self, f"_{what}")(number, status)
        if command is not None:
            decision = self.bench.decide(command)
            for order in decision.orders:
                assert order.sequence > self.sequences[order.node.node_id]
                assert self.bench.view.get(NodeRow, order.node.node_id).state == "active"
                self.sequences[order.node.node_id] = order.sequence
        self.check()

    def _submit(self, number: int, status: TaskStatus) -> Any:
        alive = [node for node in self.nodes if self.bench.view.get(NodeRow, node.node_id).state == "active"]
        return submit(*alive, replicas=1 + number % 2) if alive else None

    def _operation_command(self, type_: Any, number: int) -> Any:
        rows = self.operations()
        if not rows:
            return None
        row = rows[number % len(rows)]
        return type_(actor=USER, project_id="train", operation_id=row.operation_id)

    def _cancel(self, number: int, status: TaskStatus) -> Any:
        return self._operation_command(CancelOperation, number)

    def _retry(self, number: int, status: TaskStatus) -> Any:
        return self._operation_command(RetryOperation, number)

    def _report(self, number: int, status: TaskStatus) -> Any:
        rows = [task for task in self.tasks() if task.sequence]
        return self._told(rows[number % len(rows)], status) if rows else None

    def _stale(self, number: int, status: TaskStatus) -> Any:
        """The word of any attempt there ever was."""
        attempts: list[AttemptRow] = list(self.bench.view.rows[AttemptRow].values())  # type: ignore[arg-type]
        if not attempts:
            return None
        attempt = attempts[number % len(attempts)]
        task = self.bench.view.get(TaskRow, attempt.task_id)
        return self._told(msgspec.structs.replace(task, attempt_uid=attempt.attempt_uid), status)

    def _told(self, task: TaskRow, status: TaskStatus) -> FoldReports:
        body = TaskReport(task_id=task.task_id, attempt_uid=task.attempt_uid, status=status, error_code="timeout")
        return FoldReports(node_id=task.node_id, reports=(Report(next(self.outbox[task.node_id]), body),))

    def _hello(self, number: int, status: TaskStatus) -> NodeHello:
        node = self.nodes[number % 3]
        cursor = self.bench.view.get(CursorRow, node.node_id)
        high = max(cursor.accepted_sequence, cursor.sequence - number // 3)
        said = Hello(agent_version="1", high_sequence=high)
        return NodeHello(node_id=node.node_id, session_id=f"s{number}", hello=said)

    def _gone(self, number: int, status: TaskStatus) -> NodeGone:
        node = self.bench.view.get(NodeRow, self.nodes[number % 3].node_id)
        return NodeGone(node_id=node.node_id, session_id=node.session_id)

    def _accept(self, number: int, status: TaskStatus) -> Any:
        rows = [task for task in self.tasks() if task.sequence]
        if not rows:
            return None
        task = rows[number % len(rows)]
        return TasksAccepted(node_id=task.node_id, task_ids=(task.task_id,))

    def _revoke(self, number: int, status: TaskStatus) -> Any:
        return RevokeNode(actor=ADMIN, node_id=self.nodes[0].node_id) if number == 0 else None

    def _wait(self, number: int, status: TaskStatus) -> ExpireTasks:
        self.bench.now += 200_000 * number
        return ExpireTasks()

    def _restart(self, number: int, status: TaskStatus) -> ControlStarted:
        return ControlStarted()

    def check(self) -> None:
        for operation in self.operations():
            tasks = self.bench.tasks(operation.operation_id)
            self._check_counts(operation, tasks)
            self._check_status(operation, tasks)
            self._check_events(operation)

    def _check_counts(self, operation: OperationRow, tasks: list[TaskRow]) -> None:
        def count(*states: str) -> int:
            return sum(task.state in states for task in tasks)

        assert operation.tasks_total == len(tasks)
        assert operation.tasks_queued == count("queued")
        assert operation.tasks_in_flight == count("assigned", "running")
        assert operation.tasks_succeeded == count("succeeded")
        assert operation.tasks_failed == count("failed")
        assert operation.tasks_canceled == count("canceled")
        limit = self.bench.settings.policy.max_concurrency
        assert not limit or operation.tasks_in_flight <= limit

    def _check_status(self, operation: OperationRow, tasks: list[TaskRow]) -> None:
        over = all(task.state in FINAL for task in tasks)
        assert (operation.status in FINAL) == over == bool(operation.finished_at_ms)
        for task in tasks:
            assert (task.state in FINAL) == bool(task.finished_at_ms)
        if operation.status == "succeeded":
            assert all(task.state == "succeeded" for task in tasks)
        if operation.status == "failed":
            assert operation.error_code
            assert any(task.state == "failed" for task in tasks)
        if over:
            attempt = (operation.operation_id, operation.attempt_number)
            assert self.finals.setdefault(attempt, operation.status) == operation.status, "final is final"

    def _check_events(self, operation: OperationRow) -> None:
        """One terminal event an attempt, and nothing of the attempt after it."""
        own = [event for event in self.bench.events if event.operation_id == operation.operation_id]
        assert [event.type for event in own].count("operation.requested") == 1
        ends = [event for event in own if event.type in TERMINAL.values()]
        attempts = [msgspec.json.decode(event.body)["attempt_number"] for event in ends]
        expected = operation.attempt_number if operation.status in FINAL else operation.attempt_number - 1
        assert attempts == list(range(1, expected + 1))
        if operation.status in FINAL:
            after = own[own.index(ends[-1]) + 1 :]
            assert {event.type for event in after} <= {
                "task.late_result",
                "operation.cancel_refused",
                "operation.retry_refused",
            }


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2), STEPS)
def test_OP_08_OP_10_EV_10_hold_on_every_walk(limit, steps) -> None:
    walk = Walk(limit)
    for step in steps:
        walk.act(*step)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from([TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.CANCELED]), min_size=1, max_size=6)
)
def test_OP_10_the_operation_is_what_its_tasks_make_of_it(ends) -> None:
    bench = Bench()
    node = bench.node()
    operation_id = bench.run(submit(node, replicas=len(ends))).operation_id
    for number, (task, status) in enumerate(zip(bench.tasks(operation_id), ends, strict=True), 1):
        assert bench.operation(operation_id).status not in FINAL
        body = TaskReport(task_id=task.task_id, attempt_uid=task.attempt_uid, status=status)
        bench.run(FoldReports(node_id=node.node_id, reports=(Report(number, body),)))
    status = bench.operation(operation_id).status
    if TaskStatus.FAILED in ends:
        assert status == "failed"
    else:
        assert status == ("canceled" if TaskStatus.CANCELED in ends else "succeeded")
