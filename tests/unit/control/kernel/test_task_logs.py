"""OB-07 in the kernel: an operation's logs have a quota, what is beyond it is counted, and old lines go."""

import itertools
from typing import Any

import pytest

from hostler.control.kernel.commands import FoldReports
from hostler.control.kernel.log_commands import PruneLogs
from hostler.control.kernel.log_rows import LINE_COST, LogUsageRow
from hostler.wire.report import LogLine, Report, TaskReport, TaskStatus
from support.builders import definition, render_step
from support.control import submit
from support.memory_view import Bench

_numbers = itertools.count(1)


def started(quota: int) -> tuple[Bench, Any]:
    bench = Bench(log_operation_bytes=quota)
    bench.define(definition(render_step("s0", path="/srv/0")))
    row = bench.node()
    made = bench.run(submit(row))
    return bench, bench.tasks(made.operation_id)[0]


def say(bench: Bench, task: Any, *bodies: Any) -> Any:
    reports = tuple(Report(next(_numbers), body) for body in bodies)
    return bench.decide(FoldReports(node_id=task.node_id, reports=reports))


def line(task: Any, text: str, **more: Any) -> LogLine:
    said = {"step_id": "s0", "step_index": 0, "stream": "stdout", "at_ms": 1} | more
    return LogLine(task_id=task.task_id, attempt_uid=task.attempt_uid, text=text, **said)


def test_OB_07_lines_beyond_the_quota_are_counted_and_said_once() -> None:
    bench, task = started(quota=2 * (LINE_COST + 4))
    decision = say(bench, task, *(line(task, f"row{n}") for n in range(5)))
    assert [(row.stream, row.text) for row in decision.logs[:2]] == [("stdout", "row0"), ("stdout", "row1")]
    (marker,) = decision.logs[2:]
    assert marker.stream == "control"
    assert "have reached" in marker.text
    assert say(bench, task, line(task, "row5")).logs == []
    usage = bench.view.get(LogUsageRow, task.operation_id)
    assert usage is not None
    assert (usage.lines, usage.dropped) == (2, 4)
    end = TaskReport(task_id=task.task_id, attempt_uid=task.attempt_uid, status=TaskStatus.SUCCEEDED)
    (said,) = say(bench, task, end).logs
    assert said.text == "4 lines of the operation were not kept"


@pytest.mark.parametrize("stream", ["control", "", "Control", "stdout\n", "x" * 100_000])
def test_OB_07_no_node_speaks_for_the_control_plane(stream: str) -> None:
    """Of what it sends under a name that is not a node's, nothing is lost; it stands as the agent's word."""
    bench, task = started(quota=1 << 20)
    decision = say(
        bench, task, line(task, "the operation was approved", stream=stream), line(task, "x", stream="agent")
    )
    assert [(row.stream, row.text) for row in decision.logs] == [
        ("agent", "the operation was approved"),
        ("agent", "x"),
    ]


def test_a_log_within_its_quota_ends_without_a_word() -> None:
    bench, task = started(quota=1 << 20)
    decision = say(bench, task, line(task, "end", partial=True, phase="setup"))
    assert [(row.text, row.partial, row.phase) for row in decision.logs] == [("end", 1, "setup")]
    end = TaskReport(task_id=task.task_id, attempt_uid=task.attempt_uid, status=TaskStatus.SUCCEEDED)
    assert say(bench, task, end).logs == []


def test_OB_07_what_a_node_sends_twice_is_kept_once() -> None:
    bench, task = started(quota=1 << 20)
    reports = (Report(next(_numbers), line(task, "a")), Report(next(_numbers), line(task, "b")))
    command = FoldReports(node_id=task.node_id, reports=reports)
    assert [row.text for row in bench.decide(command).logs] == ["a", "b"]
    assert bench.decide(command).logs == []


def test_OD_31_pruning_is_a_decision_like_any_other() -> None:
    bench, _ = started(quota=1 << 20)
    assert bench.decide(PruneLogs(17)).pruned_logs == 17
