"""What nodes report becomes state, once (RT-08, EV-02..05).

Three nets under "once": the node's outbox cursor, the digest of each receipt, and the attempt's own id:
a report changes the task only if it is of the task's present attempt and the task has not ended.
"""

from collections.abc import Callable
from operator import attrgetter

import msgspec

from hostler.base.digest import sha256_hex
from hostler.control.kernel import events, job_flow, task_logs
from hostler.control.kernel.artifacts import artifact_rows, refused
from hostler.control.kernel.assign import cursor_of, freed
from hostler.control.kernel.cancel import decode_reused
from hostler.control.kernel.commands import FoldReports
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import AttemptRow, ReceiptRow, StepRow, TaskRow
from hostler.control.kernel.tasks import end_task, move_task, node_of, operation_of
from hostler.control.kernel.transitions import ASSIGNED, FINAL
from hostler.wire.report import Body, LogLine, StepReport, StepStatus, TaskReport, TaskStatus

replace = msgspec.structs.replace

_END = {
    TaskStatus.SUCCEEDED: "succeed",
    TaskStatus.PLANNED: "succeed",
    TaskStatus.FAILED: "fail",
    TaskStatus.REFUSED: "fail",
    TaskStatus.CANCELED: "cancel",
}
_ATTEMPT = {"succeed": "succeeded", "fail": "failed", "cancel": "canceled"}
MAX_TEXT = 4096
_sequence = attrgetter("outbox_seq")


def fold(draft: Draft, command: FoldReports) -> Decision:
    """→ the highest outbox sequence that is stored."""
    cursor = cursor_of(draft, command.node_id)
    seen = cursor.outbox_seq
    for report in sorted(command.reports, key=_sequence):
        if report.outbox_seq <= seen:
            continue
        seen = report.outbox_seq
        _HANDLERS[type(report.body)](draft, command.node_id, report.body)
    if seen != cursor.outbox_seq:
        draft.update(replace(cursor_of(draft, command.node_id), outbox_seq=seen))
    return draft.decision(seen)


def _task_for(draft: Draft, node_id: str, body: Body) -> TaskRow | None:
    """The task a report is about, if it is that node's; anything else is noted and dropped."""
    task = draft.get(TaskRow, body.task_id)
    if task is not None and _ran_on(draft, task, node_id, body.attempt_uid):
        return task
    _note(draft, node_id, "node.report_dropped", body, "the task is not one of this node's")
    return None


def _ran_on(draft: Draft, task: TaskRow, node_id: str, attempt_uid: str) -> bool:
    """It is there now, or that attempt of it was: a job's task may have moved on meanwhile (EF-02)."""
    if task.node_id == node_id:
        return True
    attempt = draft.get(AttemptRow, attempt_uid)
    return attempt is not None and (attempt.task_id, attempt.node_id) == (task.task_id, node_id)


def _attempt_for(draft: Draft, node_id: str, task: TaskRow, body: Body) -> AttemptRow | None:
    attempt = draft.get(AttemptRow, body.attempt_uid)
    if attempt is not None and attempt.task_id == task.task_id and attempt.node_id == node_id:
        return attempt
    _note(draft, node_id, "node.report_dropped", body, "the attempt is not one of the task's on this node")
    return None


def _note(draft: Draft, node_id: str, type_: str, body: Body, reason: str) -> None:
    node = node_of(draft, node_id)
    draft.events.append(
        events.node_event(type_, node, draft.now_ms, reason=reason, task_id=body.task_id, attempt_uid=body.attempt_uid)
    )


def fold_log(draft: Draft, node_id: str, line: LogLine) -> None:
    task = _task_for(draft, node_id, line)
    if task is None:
        return
    task_logs.keep(draft, replace(task, node_id=node_id), line)  # it may have moved on from where this was said


def fold_step(draft: Draft, node_id: str, report: StepReport) -> None:
    """A step's start or end. Of an old attempt it is kept as history and changes nothing else."""
    digest = _keep_receipt(draft, node_id, report)
    task = _task_for(draft, node_id, report)
    attempt = _attempt_for(draft, node_id, task, report) if task else None
    if task is None or attempt is None:
        return
    step = _step_row(task, attempt, report, digest)
    before = draft.get(StepRow, (task.task_id, attempt.attempt_number, report.step_index))
    if before is None:
        draft.insert(step)
    elif before.status == StepStatus.RUNNING and before != step:
        draft.update(replace(step, started_at_ms=step.started_at_ms or before.started_at_ms))
    else:
        return  # told before: an ended step does not change
    _keep_artifacts(draft, node_id, task, step, report)
    if task.attempt_uid != report.attempt_uid or task.state in FINAL:
        return
    if task.state == ASSIGNED:
        task = _start(draft, task, report.started_at_ms)
    operation = operation_of(draft, task.operation_id)
    draft.events.append(events.progress(operation, task, step, draft.now_ms))


def _keep_artifacts(draft: Draft, node_id: str, task: TaskRow, step: StepRow, report: StepReport) -> None:
    draft.artifacts += artifact_rows(replace(task, node_id=node_id), step, report.artifacts, draft.now_ms)
    if (count := refused(report.artifacts)) > 0:
        _note(draft, node_id, "node.report_dropped", report, f"{count} artifacts of the step do not hold together")


def _step_row(task: TaskRow, attempt: AttemptRow, report: StepReport, digest: str) -> StepRow:
    outputs = report.outputs_json
    if report.status == StepStatus.REUSED and not outputs:
        outputs = next((s.outputs_json for s in decode_reused(attempt) if s.step_id == report.step_id), b"")
    ended = report.finished_at_ms
    return StepRow(
        task_id=task.task_id,
        attempt_number=attempt.attempt_number,
        step_index=report.step_index,
        operation_id=task.operation_id,
        attempt_uid=report.attempt_uid,
        step_id=report.step_id,
        step_kind=report.step_kind,
        status=report.status.value,
        resolved_profile=report.resolved_profile,
        hardware_match=report.hardware_match,
        error_code=report.error_code,
        error_message=report.error_message[:MAX_TEXT],
        error_hint=report.error_hint[:MAX_TEXT],
        started_at_ms=report.started_at_ms,
        finished_at_ms=ended,
        duration_ms=max(0, ended - report.started_at_ms) if ended and report.started_at_ms else 0,
        recovered=int(report.recovered),
        receipt_digest=digest,
        outputs=outputs,
        plan=report.plan_json,
    )


def fold_task(draft: Draft, node_id: str, report: TaskReport) -> None:
    """A task's start or end. A refused cancel names no task: its receipt is all there is to it."""
    _keep_receipt(draft, node_id, report)
    if not report.task_id and report.status == TaskStatus.REFUSED:
        _note(draft, node_id, "node.refused", report, report.error_code)
        return
    task = _task_for(draft, node_id, report)
    attempt = _attempt_for(draft, node_id, task, report) if task else None
    if task is None or attempt is None:
        return
    if task.attempt_uid != report.attempt_uid or task.state in FINAL:
        _late(draft, task, attempt, report)
    elif report.status == TaskStatus.RUNNING:
        if task.state == ASSIGNED:
            _start(draft, task, report.at_ms)
    else:
        task_logs.close(draft, task)
        _end(draft, task, report)
        freed(draft, task.operation_id)


def _start(draft: Draft, task: TaskRow, at_ms: int) -> TaskRow:
    started = at_ms or draft.now_ms
    cursor = cursor_of(draft, task.node_id)
    if cursor.accepted_sequence < task.sequence:
        draft.update(replace(cursor, accepted_sequence=task.sequence))
    return move_task(draft, task, "start", accepted_at_ms=draft.now_ms, started_at_ms=started)


def _end(draft: Draft, task: TaskRow, report: TaskReport) -> None:
    event = _END[report.status]
    code = report.error_code
    if task.cancel_requested and report.status == TaskStatus.REFUSED:
        event = "cancel"  # it never began, and was not to
    if event == "fail" and not code:
        code = "internal_error"
    end_task(
        draft,
        task,
        event,
        accepted_at_ms=task.accepted_at_ms or draft.now_ms,
        plan_digest=report.plan_digest,
        error_code=code if event != "succeed" else "",
        error_message=report.error_message[:MAX_TEXT],
        error_hint=report.error_hint[:MAX_TEXT],
        failed_step_id=report.failed_step_id,
    )


def _late(draft: Draft, task: TaskRow, attempt: AttemptRow, report: TaskReport) -> None:
    """A result that came too late to count: history, and the truth of an attempt we had called lost."""
    if report.status == TaskStatus.RUNNING or attempt.state == _ATTEMPT[_END[report.status]]:
        return
    if attempt.state in ("lost", "open"):
        state = _ATTEMPT[_END[report.status]]
        draft.update(replace(attempt, state=state, exit=report.error_code, finished_at_ms=report.at_ms))
    operation = operation_of(draft, task.operation_id)
    if draft.settings.jobs.is_job(operation.operation_type):
        job_flow.stray_ended(draft, attempt.attempt_uid, operation)
    draft.events.append(
        events.task_event(
            "task.late_result",
            operation,
            task,
            draft.now_ms,
            report.error_code,
            status=report.status.value,
            of_attempt=attempt.attempt_number,
        )
    )


def _keep_receipt(draft: Draft, node_id: str, report: StepReport | TaskReport) -> str:
    """Stores a receipt under its own digest, never the claimed one; says so when the chain has a gap."""
    if not report.receipt:
        return report.receipt_digest
    cursor = cursor_of(draft, node_id)
    if report.chain_index > cursor.chain_index + 1:
        reason = f"receipt {report.chain_index} follows {cursor.chain_index}"
        _note(draft, node_id, "node.receipt_gap", report, reason)
    if report.chain_index > cursor.chain_index:
        draft.update(replace(cursor, chain_index=report.chain_index))
    task = draft.get(TaskRow, report.task_id) if report.task_id else None
    digest = sha256_hex(report.receipt)
    draft.receipts.append(
        ReceiptRow(
            node_id=node_id,
            digest=digest,
            chain_index=report.chain_index,
            operation_id=task.operation_id if task and _ran_on(draft, task, node_id, report.attempt_uid) else "",
            task_id=report.task_id,
            attempt_uid=report.attempt_uid,
            step_id=report.step_id if isinstance(report, StepReport) else "",
            receipt=report.receipt,
            at_ms=draft.now_ms,
        )
    )
    return digest


_HANDLERS: dict[type, Callable[..., None]] = {LogLine: fold_log, StepReport: fold_step, TaskReport: fold_task}
