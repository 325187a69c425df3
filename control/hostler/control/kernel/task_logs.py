"""Log lines of tasks: kept up to the operation's quota, counted beyond it, dropped when they are old (OB-07, OD-31)."""

import msgspec

from hostler.control.kernel.log_commands import PruneLogs
from hostler.control.kernel.log_rows import LINE_COST, LogRow, LogUsageRow
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import TaskRow
from hostler.wire.report import LogLine

replace = msgspec.structs.replace
CONTROL = "control"  # the stream of what this control plane itself says in a log
AGENT = "agent"  # of what a node's agent says
_OF_NODES = ("stdout", "stderr", AGENT)


def prune(draft: Draft, command: PruneLogs) -> Decision:
    draft.pruned_logs = command.up_to
    return draft.decision()


def keep(draft: Draft, task: TaskRow, line: LogLine) -> None:
    """The line, or one that says that the quota is reached, or nothing but a count."""
    usage = draft.get(LogUsageRow, task.operation_id)
    if usage is None:
        usage = LogUsageRow(operation_id=task.operation_id)
        draft.insert(usage)
    if usage.cost >= draft.settings.log_operation_bytes:
        if not usage.dropped:
            said = f"the operation's logs have reached {draft.settings.log_operation_bytes} bytes: lines from here on"
            draft.logs.append(_of_control(task, line, f"{said} are counted, not kept"))
        draft.update(replace(usage, dropped=usage.dropped + 1))
        return
    cost = usage.cost + len(line.text) + LINE_COST
    draft.update(replace(usage, cost=cost, lines=usage.lines + 1))
    draft.logs.append(_row(task, line))


def close(draft: Draft, task: TaskRow) -> None:
    """At the end of a task: how many lines its operation has lost so far."""
    usage = draft.get(LogUsageRow, task.operation_id)
    if usage is None or not usage.dropped:
        return
    line = LogLine(
        task_id=task.task_id,
        attempt_uid=task.attempt_uid,
        step_id="",
        step_index=0,
        stream=CONTROL,
        text="",
        at_ms=draft.now_ms,
    )
    draft.logs.append(_of_control(task, line, f"{usage.dropped} lines of the operation were not kept"))


def _row(task: TaskRow, line: LogLine) -> LogRow:
    return LogRow(
        operation_id=task.operation_id,
        task_id=task.task_id,
        node_id=task.node_id,
        attempt_uid=line.attempt_uid,
        step_id=line.step_id,
        step_index=line.step_index,
        stream=line.stream if line.stream in _OF_NODES else AGENT,  # no node speaks for us
        text=line.text,
        at_ms=line.at_ms,
        partial=int(line.partial),
        phase=line.phase,
    )


def _of_control(task: TaskRow, line: LogLine, text: str) -> LogRow:
    return replace(_row(task, line), stream=CONTROL, text=text, partial=0)
