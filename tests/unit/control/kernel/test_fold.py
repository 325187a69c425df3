"""Reports become state, once: RT-08, EV-02..05, EV-10, DM-05, OP-10."""

import itertools

import msgspec
import pytest

from hostler.base.digest import sha256_hex
from hostler.control.kernel.commands import FoldReports, RetryOperation, RevokeNode
from hostler.control.kernel.rows import AttemptRow, CursorRow, StepRow
from hostler.wire.report import LogLine, Report, StepReport, StepStatus, TaskReport, TaskStatus
from support.builders import definition, render_step
from support.control import ADMIN, USER, submit
from support.memory_view import Bench


class Agent:
    """What one node says, numbered as its outbox numbers it."""

    def __init__(self, bench: Bench, node_id: str) -> None:
        self.bench, self.node_id = bench, node_id
        self._numbers = itertools.count(1)
        self._chain = itertools.count(0)

    def say(self, *bodies) -> int:
        reports = tuple(Report(next(self._numbers), body) for body in bodies)
        return self.bench.run(FoldReports(node_id=self.node_id, reports=reports))

    def task(self, task, status, **more) -> TaskReport:
        return TaskReport(task_id=task.task_id, attempt_uid=task.attempt_uid, status=TaskStatus(status), **more)

    def step(self, task, index, status, receipt=True, **more) -> StepReport:
        ended = status != "running"
        receipt = f"receipt {self.node_id} {task.attempt_uid} {index}".encode() if ended and receipt else b""
        return StepReport(
            task_id=task.task_id,
            attempt_uid=task.attempt_uid,
            step_id=f"s{index}",
            step_index=index,
            step_kind="file.render",
            status=StepStatus(status),
            started_at_ms=1000,
            finished_at_ms=1250 if ended else 0,
            receipt=receipt,
            chain_index=next(self._chain) if receipt else 0,
            **more,
        )


def started(steps: int = 2, nodes: int = 1):
    bench = Bench()
    bench.define(definition(*(render_step(f"s{n}", path=f"/srv/{n}") for n in range(steps))))
    rows = [bench.node() for _ in range(nodes)]
    made = bench.run(submit(*rows))
    tasks = {task.node_id: task for task in bench.tasks(made.operation_id)}
    agents = [Agent(bench, row.node_id) for row in rows]
    return bench, made.operation_id, agents, [tasks[row.node_id] for row in rows]


def types(bench: Bench) -> list[str]:
    return [event.type for event in bench.events]


def test_a_task_runs_from_assigned_to_succeeded_and_its_operation_with_it() -> None:
    bench, operation_id, (agent,), (task,) = started()
    assert bench.operation(operation_id).status == "queued"
    agent.say(agent.task(task, "running", at_ms=5))
    assert bench.operation(operation_id).status == "running"
    agent.say(agent.step(task, 0, "running"), agent.step(task, 0, "succeeded"))
    agent.say(agent.step(task, 1, "running"), agent.step(task, 1, "succeeded"), agent.task(task, "succeeded"))
    operation = bench.operation(operation_id)
    assert (operation.status, operation.tasks_succeeded, operation.finished_at_ms) == ("succeeded", 1, bench.now)
    assert types(bench)[-2:] == ["task.finished", "operation.completed"]


def test_OP_10_one_failing_node_of_three_fails_the_operation_after_the_others_succeeded() -> None:
    bench, operation_id, agents, tasks = started(nodes=3)
    agents[0].say(agents[0].task(tasks[0], "failed", error_code="exit_status", failed_step_id="s1"))
    assert bench.operation(operation_id).status == "queued", "two are still to come"
    for agent, task in zip(agents[1:], tasks[1:], strict=True):
        agent.say(agent.task(task, "succeeded"))
    operation = bench.operation(operation_id)
    assert (operation.status, operation.tasks_succeeded, operation.tasks_failed) == ("failed", 2, 1)


def test_EV_04_a_failed_operation_names_step_and_code_once() -> None:
    bench, _, (agent,), (task,) = started()
    failure = agent.task(task, "failed", error_code="digest_mismatch", error_message="no", failed_step_id="s1")
    agent.say(failure, failure)
    (event,) = [event for event in bench.events if event.type == "operation.failed"]
    body = msgspec.json.decode(event.body)
    assert (event.error_code, body["failed_step"], body["failed_task"]) == ("digest_mismatch", "s1", task.task_id)


def test_EV_02_progress_carries_at_least_what_the_contract_asks_for() -> None:
    bench, operation_id, (agent,), (task,) = started()
    agent.say(agent.step(task, 0, "running"), agent.step(task, 0, "succeeded"), agent.step(task, 1, "running"))
    progress = [msgspec.json.decode(e.body) for e in bench.events if e.type == "operation.progress"]
    assert [(p["current_step_index"], p["step_status"]) for p in progress] == [
        (0, "running"),
        (0, "succeeded"),
        (1, "running"),
    ]
    for body in progress:
        assert body["operation_id"] == operation_id
        assert body["correlation_id"] == "cor_1"
        assert (body["total_steps"], body["step_started_at"]) == (2, 1000)
        assert body["current_step_name"] == f"s{body['current_step_index']}"
    assert "step_percent" not in progress[0]
    assert progress[1]["step_percent"] == 100


def test_DM_05_a_step_row_says_what_ran_and_how_it_ended() -> None:
    bench, _, (agent,), (task,) = started()
    report = agent.step(
        task, 0, "failed", error_code="health_red", resolved_profile="smi", hardware_match="nvidia.h200"
    )
    agent.say(agent.step(task, 0, "running"), report)
    row = bench.view.get(StepRow, (task.task_id, 1, 0))
    assert (row.attempt_number, row.step_kind, row.resolved_profile) == (1, "file.render", "smi")
    assert (row.hardware_match, row.status, row.error_code) == ("nvidia.h200", "failed", "health_red")
    assert (row.duration_ms, row.receipt_digest) == (250, sha256_hex(report.receipt))


def test_a_receipt_is_filed_under_its_own_digest_not_the_claimed_one() -> None:
    bench, _, (agent,), (task,) = started()
    agent.say(agent.step(task, 0, "succeeded", receipt_digest="claimed"))
    assert bench.view.get(StepRow, (task.task_id, 1, 0)).receipt_digest != "claimed"


def test_K2_the_same_rows_sent_again_are_folded_once() -> None:
    bench, operation_id, (agent,), (task,) = started()
    ends = (agent.step(task, 0, "succeeded"), agent.task(task, "succeeded"))
    rows = (agent.task(task, "running"), _line(task), *ends)
    up_to = agent.say(*rows)
    before = (bench.operation(operation_id), len(bench.events))
    again = tuple(Report(number, body) for number, body in enumerate(rows, 1))
    decision = bench.decide(FoldReports(node_id=agent.node_id, reports=again))
    assert decision.result == up_to
    assert (decision.logs, decision.receipts, decision.updates) == ([], [], {})
    assert (bench.operation(operation_id), len(bench.events)) == before


def test_T1_a_replayed_result_of_an_ended_task_has_no_second_effect() -> None:
    bench, operation_id, (agent,), (task,) = started()
    agent.say(agent.task(task, "succeeded"))
    before = (bench.operation(operation_id), types(bench))
    agent.say(agent.task(task, "succeeded", replayed=True))
    agent.say(agent.step(task, 0, "running"))
    assert (bench.operation(operation_id), types(bench)) == before


def test_RT_08_a_late_result_of_an_old_attempt_is_history_and_changes_nothing() -> None:
    bench, operation_id, (agent,), (task,) = started()
    agent.say(agent.task(task, "failed", error_code="timeout", failed_step_id="s0"))
    bench.run(RetryOperation(actor=USER, project_id="train", operation_id=operation_id))
    (second,) = bench.tasks(operation_id)
    assert second.attempt_uid != task.attempt_uid
    agent.say(agent.step(task, 0, "succeeded"), agent.task(task, "succeeded"))
    (now,) = bench.tasks(operation_id)
    assert (now.state, now.attempt_uid) == ("assigned", second.attempt_uid)
    assert bench.operation(operation_id).status == "queued"
    assert types(bench)[-1] == "task.late_result"
    assert bench.view.get(StepRow, (task.task_id, 1, 0)).status == "succeeded", "kept in history"
    agent.say(agent.task(second, "succeeded"))
    assert bench.operation(operation_id).status == "succeeded"


def test_RT_08_the_truth_about_a_lost_attempt_lands_in_its_row_only() -> None:
    bench, operation_id, (agent,), (task,) = started()
    agent.say(agent.task(task, "running"))
    bench.run(RevokeNode(actor=ADMIN, node_id=agent.node_id))
    assert bench.view.get(AttemptRow, task.attempt_uid).state == "lost"
    agent.say(agent.task(task, "succeeded"))
    assert bench.view.get(AttemptRow, task.attempt_uid).state == "succeeded"
    assert bench.operation(operation_id).status == "failed"


def test_a_refused_task_fails_with_the_nodes_own_code() -> None:
    bench, operation_id, (agent,), (task,) = started()
    agent.say(agent.task(task, "refused", error_code="local_policy_denied", error_message="not here"))
    (row,) = bench.tasks(operation_id)
    assert (row.state, row.error_code) == ("failed", "local_policy_denied")
    assert bench.operation(operation_id).error_code == "local_policy_denied"


def test_a_planned_task_succeeds_and_keeps_its_plans_digest() -> None:
    bench, operation_id, (agent,), (task,) = started()
    agent.say(agent.step(task, 0, "planned", plan_json=b'{"changes":[]}'), agent.task(task, "planned", plan_digest="d"))
    (row,) = bench.tasks(operation_id)
    assert (row.state, row.plan_digest) == ("succeeded", "d")


def test_I7_a_node_cannot_report_for_another_nodes_task() -> None:
    bench, operation_id, agents, tasks = started(nodes=2)
    agents[1].say(agents[1].task(tasks[0], "succeeded"), agents[1].step(tasks[0], 0, "succeeded"))
    agents[1].say(_line(tasks[0]))
    assert bench.operation(operation_id).tasks_succeeded == 0
    assert bench.view.get(StepRow, (tasks[0].task_id, 1, 0)) is None
    assert types(bench).count("node.report_dropped") == 3


def _line(task) -> LogLine:
    return LogLine(
        task_id=task.task_id,
        attempt_uid=task.attempt_uid,
        step_id="s0",
        step_index=0,
        stream="stdout",
        text="x",
        at_ms=1,
    )


def test_log_lines_are_kept_with_the_operation_they_belong_to() -> None:
    bench, operation_id, (agent,), (task,) = started()
    decision = bench.decide(FoldReports(node_id=agent.node_id, reports=(Report(1, _line(task)),)))
    (line,) = decision.logs
    assert (line.operation_id, line.text, line.stream) == (operation_id, "x", "stdout")


def test_a_receipt_of_a_refused_cancel_is_kept_although_it_names_no_task() -> None:
    bench, _, (agent,), _ = started()
    report = TaskReport(
        task_id="", attempt_uid="", status=TaskStatus.REFUSED, error_code="expired", receipt=b"r", chain_index=0
    )
    decision = bench.decide(FoldReports(node_id=agent.node_id, reports=(Report(1, report),)))
    assert [row.receipt for row in decision.receipts] == [b"r"]


def test_a_gap_in_a_nodes_receipt_chain_is_an_event() -> None:
    bench, _, (agent,), (task,) = started()
    first, _, third = (agent.step(task, n, "succeeded") for n in range(3))
    agent.say(first)
    assert "node.receipt_gap" not in types(bench)
    agent.say(third)
    assert types(bench).count("node.receipt_gap") == 1
    assert bench.view.get(CursorRow, agent.node_id).chain_index == 2


@pytest.mark.parametrize("status", ["succeeded", "failed", "canceled", "reused", "planned"])
def test_an_ended_step_is_not_changed_by_a_report_that_comes_late(status) -> None:
    bench, _, (agent,), (task,) = started()
    agent.say(agent.step(task, 0, status))
    row = bench.view.get(StepRow, (task.task_id, 1, 0))
    agent.say(agent.step(task, 0, "running"), agent.step(task, 0, "failed", error_code="timeout"))
    assert bench.view.get(StepRow, (task.task_id, 1, 0)) == row
