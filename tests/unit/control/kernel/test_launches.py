"""LC-17, LC-18, LC-20: launches that stalled are asked about a few times while they are recent, and on request."""

import msgspec
import pytest
from unit.control.kernel.test_node_recovery import answer, now, one_task

from hostler.control.kernel.commands import CancelOperation, ExpireTasks, NodeGone, TasksAccepted
from hostler.control.kernel.launch_settings import LaunchSettings
from hostler.control.kernel.node_commands import Done, Recovered
from hostler.control.kernel.rows import NodeRow, OperationRow, TaskRow
from hostler.control.kernel.workload_commands import ProbeWorkload, RecoverWorkload
from hostler.wire.report import TaskStatus
from support.allocations import Lending
from support.control import ADMIN, USER, submit

replace = msgspec.structs.replace
LIMITS = LaunchSettings()


@pytest.fixture
def lending() -> Lending:
    return Lending(0)


@pytest.fixture
def node(lending: Lending) -> NodeRow:
    return lending.bench.node(parallel_tasks=4)


def probes(lending: Lending) -> list[OperationRow]:
    found = lending.bench.view.rows[OperationRow].values()
    return [row for row in found if isinstance(row, OperationRow) and row.operation_type == "node.task.probe"]


def pass_by(lending: Lending, seconds: int) -> None:
    lending.bench.now += seconds * 1000
    lending.run(ExpireTasks())


def ask(task: TaskRow) -> ProbeWorkload:
    return ProbeWorkload(actor=USER, project_id="train", operation_id=task.operation_id, correlation_id="c")


def recover(task: TaskRow) -> RecoverWorkload:
    return RecoverWorkload(actor=USER, project_id="train", operation_id=task.operation_id, correlation_id="c")


def test_LC_17_a_launch_that_stalls_is_asked_about_by_itself_and_promoted(lending: Lending, node: NodeRow) -> None:
    task = one_task(lending, node)
    pass_by(lending, 29)
    assert probes(lending) == [], "it may just be starting"
    pass_by(lending, 2)
    (asked,) = probes(lending)
    assert (asked.trigger_source, asked.correlation_id) == ("admin", "cor_1")
    pass_by(lending, 5)
    assert len(probes(lending)) == 1, "once for each age"
    done = Done(what="task_probed", text="", operation_id=asked.operation_id)
    answer(lending, Recovered(node_id=node.node_id, did=(done,), remains=()), state="running")
    assert now(lending, task).state == "running"
    pass_by(lending, 3600)
    assert len(probes(lending)) == 1, "what runs is not asked about"


def test_LC_18_a_launch_is_asked_about_a_bounded_number_of_times_and_not_when_it_is_old(
    lending: Lending, node: NodeRow
) -> None:
    one_task(lending, node)
    for _ in range(3 * 60):
        pass_by(lending, 60)
    assert len(probes(lending)) == len(LIMITS.ask_after_ms)


def test_LC_18_what_was_signed_long_ago_is_not_asked_about_at_all(lending: Lending, node: NodeRow) -> None:
    one_task(lending, node)
    pass_by(lending, LIMITS.recent_ms // 1000)
    assert probes(lending) == []


def test_a_node_without_room_a_node_that_is_away_and_a_cancelled_task_are_left_alone(
    lending: Lending, node: NodeRow
) -> None:
    task = one_task(lending, node)
    full = lending.bench.node(parallel_tasks=0)
    one_task(lending, full)
    cancelled = one_task(lending, node)
    lending.run(CancelOperation(actor=USER, project_id="train", operation_id=cancelled.operation_id))
    lending.run(NodeGone(node_id=node.node_id, session_id="s1"))
    pass_by(lending, 60)
    assert probes(lending) == []
    assert now(lending, task).state == "assigned"


def test_a_probe_that_stalls_is_not_probed(lending: Lending, node: NodeRow) -> None:
    one_task(lending, node)
    pass_by(lending, 31)
    (asked,) = probes(lending)
    (task,) = lending.bench.tasks(asked.operation_id)
    lending.run(TasksAccepted(node_id=node.node_id, task_ids=(task.task_id,)))
    pass_by(lending, 60)
    assert len(probes(lending)) == 1


def test_LC_20_a_forced_probe_asks_whatever_was_asked_before(lending: Lending, node: NodeRow) -> None:
    task = one_task(lending, node)
    pass_by(lending, 31)
    done = lending.run(ask(task))
    assert [each.what for each in done.did] == ["task_probed"]
    assert len(probes(lending)) == 2
    (line,) = lending.audit("operation.probe")
    assert msgspec.json.decode(line.body)["after"] == {"asked": [done.did[0].operation_id]}


def test_LC_20_of_a_node_that_is_away_or_has_not_taken_it_that_is_what_is_said(lending: Lending, node: NodeRow) -> None:
    operation_id = lending.run(submit(node)).operation_id
    (task,) = lending.bench.tasks(operation_id)
    assert "has not taken" in lending.run(ask(task)).remains[0]
    lending.run(NodeGone(node_id=node.node_id, session_id="s1"))
    assert "not connected" in lending.run(ask(task)).remains[0]


def test_LC_20_a_recent_unclear_failure_is_tried_again_as_a_new_attempt(lending: Lending, node: NodeRow) -> None:
    task = one_task(lending, node)
    answer(lending, lending.run(ask(task)), state="unknown")
    assert now(lending, task).error_code == "interrupted_apply"
    done = lending.run(recover(task))
    assert [each.what for each in done.did] == ["retried"]
    assert (now(lending, task).attempt_number, now(lending, task).state) == (2, "assigned")
    (line,) = lending.audit("operation.recover")
    assert msgspec.json.decode(line.body)["after"]["did"] == ["retried"]


def test_LC_18_an_old_failure_and_one_that_is_clear_stay_failures(lending: Lending, node: NodeRow) -> None:
    task = one_task(lending, node)
    answer(lending, lending.run(ask(task)), state="unknown")
    lending.bench.now += LIMITS.recent_ms + 1
    assert "over 3600 s ago" in lending.run(recover(task)).remains[0]
    clear = one_task(lending, node)
    lending.tell(clear, TaskStatus.FAILED)
    assert "stays failed" in lending.run(recover(clear)).remains[0]
    assert {now(lending, each).state for each in (task, clear)} == {"failed"}


def test_LC_20_recovery_of_open_work_sends_what_waited_and_asks_about_the_rest(lending: Lending, node: NodeRow) -> None:
    task = one_task(lending, node)
    assert [each.what for each in lending.run(recover(task)).did] == ["task_probed"]
    lending.tell(task)
    assert "nothing to recover" in lending.run(recover(task)).remains[0]


def test_S2_an_operation_of_another_project_does_not_exist(lending: Lending, node: NodeRow) -> None:
    task = one_task(lending, node)
    for command in (ask(task), recover(task)):
        assert lending.bench.refusal(replace(command, project_id="lab")).code == "not_found"
    assert lending.run(replace(ask(task), actor=ADMIN)).did
