"""K3, EF-09: a node that lost its journal is sent again what may still run there; everything else is given up."""

from typing import Any

import pytest

from hostler.catalog.definition import StepTemplate
from hostler.control.kernel.commands import CancelOperation, FoldReports, NodeHello, TasksAccepted
from hostler.control.kernel.orders import CancelOrder, TaskOrder
from hostler.control.kernel.rows import TaskRow
from hostler.wire.node import Hello
from hostler.wire.report import Report, TaskReport, TaskStatus
from support import builders
from support.control import USER, submit
from support.memory_view import Bench


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    run = StepTemplate(id="run", kind="container.run", params={"job": "/a/b", "command": ["x"]}, reusable=False)
    made.define(builders.definition(run, type_="job.test"))
    return made


def running(bench: Bench, type_: str) -> tuple[Any, TaskRow]:
    """A node and its task, well begun."""
    node = bench.node()
    operation_id = bench.run(submit(node, operation_type=type_)).operation_id
    (task,) = bench.tasks(operation_id)
    bench.run(TasksAccepted(node_id=node.node_id, task_ids=(task.task_id,)))
    begun = TaskReport(task_id=task.task_id, attempt_uid=task.attempt_uid, status=TaskStatus.RUNNING)
    bench.run(FoldReports(node_id=node.node_id, reports=(Report(40, begun),)))
    bench.orders.clear()
    return node, task


def forgot(bench: Bench, node: Any) -> None:
    hello = Hello(agent_version="2.0", high_sequence=0)
    bench.run(NodeHello(node_id=node.node_id, session_id="s2", hello=hello, serial=""))


def now(bench: Bench, task: TaskRow) -> TaskRow:
    row = bench.view.get(TaskRow, task.task_id)
    assert isinstance(row, TaskRow)
    return row


def test_EF_09_a_task_with_a_container_is_signed_again_as_the_same_attempt(bench: Bench) -> None:
    node, task = running(bench, "job.test")
    forgot(bench, node)
    again = now(bench, task)
    assert (again.state, again.attempt_uid) == ("assigned", task.attempt_uid)
    assert again.sequence > task.sequence
    assert [type(order) for order in bench.orders] == [TaskOrder]
    assert bench.operation(task.operation_id).status == "running"


def test_EF_09_its_end_counts_as_any_other(bench: Bench) -> None:
    node, task = running(bench, "job.test")
    forgot(bench, node)
    end = TaskReport(task_id=task.task_id, attempt_uid=task.attempt_uid, status=TaskStatus.SUCCEEDED)
    bench.run(FoldReports(node_id=node.node_id, reports=(Report(1, end),)))
    assert bench.operation(task.operation_id).status == "succeeded"


def test_K4_a_task_without_one_is_given_up_as_before(bench: Bench) -> None:
    node, task = running(bench, "demo.write")
    forgot(bench, node)
    assert now(bench, task).error_code == "interrupted_apply"


def test_K3_one_that_is_to_end_is_sent_again_and_its_cancel_right_after(bench: Bench) -> None:
    """An order to end what it has never heard of tells the node nothing of the container that may still run there."""
    node, task = running(bench, "job.test")
    bench.run(CancelOperation(actor=USER, project_id="train", operation_id=task.operation_id))
    bench.orders.clear()
    forgot(bench, node)
    assert [type(order) for order in bench.orders] == [TaskOrder, CancelOrder]
    again = now(bench, task)
    assert (again.state, again.attempt_uid) == ("assigned", task.attempt_uid)
    assert task.sequence < again.sequence < again.cancel_sequence
