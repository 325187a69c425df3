"""What moves jobs: a task that ended and is tried again, a node that came or went, time that passed (JB-04..07, EF-06).

Every decision ends here (`follow`): ends are booked, and the pools in which something became free are looked at, in
the same transaction. Nothing polls.
"""

import msgspec

from hostler.base.codes import CODES
from hostler.control.kernel import events, job_book, job_pass
from hostler.control.kernel.actor import KERNEL, Actor
from hostler.control.kernel.assign import CLOCK_SKEW_MS, next_sequence
from hostler.control.kernel.cancel import cancel_open_tasks
from hostler.control.kernel.changes import Change
from hostler.control.kernel.job_nodes import spec_of
from hostler.control.kernel.job_rows import JobRow, JobTaskRow, StrayRow
from hostler.control.kernel.model import Draft
from hostler.control.kernel.orders import CancelOrder
from hostler.control.kernel.rows import AttemptRow, NodeRow, OperationRow, TaskRow
from hostler.control.kernel.tasks import end_task, move_task, operation_of
from hostler.control.kernel.transitions import FINAL, IN_FLIGHT, SUCCEEDED

replace = msgspec.structs.replace
EXPIRE_LIMIT = 1000
# families of errors that say something about the node, not about the job
_OF_THE_NODE = frozenset({"Exhausted", "Unavailable", "Ambiguous", "Internal"})
# by our own decision, while the node may still run it
_UNSURE = frozenset({"revoked", "expired", "interrupted_apply"})
_DECIDED = frozenset({"preempted", "scheduling_timeout", "budget_exhausted"})


def follow(draft: Draft) -> bool:
    """Whether anything was done."""
    done = False
    while draft.job_tasks or draft.pools:
        done = True
        while draft.job_tasks:
            task_id = next(iter(draft.job_tasks))
            del draft.job_tasks[task_id]
            _ended(draft, task_id)
        if draft.pools:
            pool = next(iter(draft.pools))
            job_pass.run(draft, pool, draft.pools.pop(pool))
    return done


def look_at_node(draft: Draft, node: NodeRow) -> None:
    """It may take tasks that it could not take before."""
    draft.look_at(node.org_id, node.project_id, node.allocation_id, node.node_id)


# -- a task ends, or not --------------------------------------------------------------------------


def take_again(draft: Draft, task: TaskRow, event: str, attempt_state: str, code: str, message: str) -> TaskRow | None:
    """Before a task ends: a job's that is to be tried again waits for a node instead. None for one that ends."""
    operation = operation_of(draft, task.operation_id)
    if (
        event == "succeed"
        or code in _DECIDED - {"preempted"}
        or not draft.settings.jobs.is_job(operation.operation_type)
    ):
        return None
    job, row = draft.get(JobRow, task.operation_id), draft.get(JobTaskRow, task.task_id)
    if job is None or row is None or not task.node_id or operation.cancel_requested_ms:
        return None
    if row.leaving:
        return _after_leaving(draft, job, row, task, code, message)
    wants_no_more = code == "container_lost" and spec_of(job.spec).retries.on_lost == "fail"
    if event == "cancel" or code == "preempted" or wants_no_more:
        return None
    unsure = attempt_state == "lost" and code in _UNSURE
    if unsure and not spec_of(job.spec).relocatable:
        return None
    if unsure or (code in CODES and CODES[code].family in _OF_THE_NODE):
        if row.preemptions >= spec_of(job.spec).retries.preemption:
            return None
        wait = min(draft.settings.jobs.max_back_off_ms, 1000 << min(row.preemptions, 20))
        if unsure and code == "expired":
            _stray(draft, task)
        again = {"preemptions": row.preemptions + 1, "avoid": task.node_id, "not_before_ms": draft.now_ms + wait}
        return requeue(draft, job, row, task, attempt_state or "failed", code, message, **again)
    if row.failures >= spec_of(job.spec).retries.failure:
        return None
    return requeue(draft, job, row, task, "failed", code, message, failures=row.failures + 1)


def _after_leaving(
    draft: Draft, job: JobRow, row: JobTaskRow, task: TaskRow, code: str, message: str
) -> TaskRow | None:
    """It made room, or its gang begins anew; only the former is counted."""
    count = row.preemptions + int(row.leaving == "preempted")
    if count > spec_of(job.spec).retries.preemption:
        draft.update(replace(row, leaving=""))
        said = f"preempted more than {count - 1} times"
        return end_task(draft, task, "fail", attempt_state="canceled", error_code="preempted", error_message=said)
    return requeue(draft, job, row, task, "canceled", code, message, preemptions=count)


def requeue(
    draft: Draft,
    job: JobRow,
    row: JobTaskRow,
    task: TaskRow,
    attempt_state: str,
    code: str,
    message: str,
    **more: object,
) -> TaskRow:
    """Ends the present attempt and opens the next, which waits for a node (JB-05)."""
    operation = operation_of(draft, task.operation_id)
    attempt = draft.get(AttemptRow, task.attempt_uid)
    if attempt is not None:
        ended = replace(
            attempt, state=attempt_state, exit=code, started_at_ms=task.started_at_ms, finished_at_ms=draft.now_ms
        )
        draft.update(ended)
    leaving, node_id = row.leaving, task.node_id
    draft.events.append(
        events.task_event(
            "job.task_retried",
            operation,
            task,
            draft.now_ms,
            code,
            job=job.name,
            task_index=row.task_index,
            attempt_state=attempt_state,
            message=message[:500],
            counted="failure" if "failures" in more else "preemption" if leaving != "gang" else "",
        )
    )
    job_book.charge(draft, job.job_id, task)
    timeout_ms = spec_of(job.spec).scheduling_timeout_seconds * 1000
    deadline = draft.now_ms + timeout_ms if timeout_ms else 0
    changed = job_book.release(draft, job, row, pending=True, deadline_ms=deadline, **more)
    if changed.not_before_ms > draft.now_ms:
        said = f"node {node_id} could not run it ({code}); it is tried again soon"
        draft.update(replace(changed, reason="back_off", detail=said))
    now = job_book.job_of(draft, job.job_id)
    draft.update(
        replace(
            now,
            failures=now.failures + changed.failures - row.failures,
            preemptions=now.preemptions + changed.preemptions - row.preemptions,
        )
    )
    fresh = job_book.next_attempt(draft, task)
    moved = move_task(
        draft,
        task,
        "requeue",
        node_id="",
        attempt_number=fresh.attempt_number,
        attempt_uid=fresh.attempt_uid,
        sequence=0,
        envelope_digest="",
        expires_at_ms=0,
        cancel_sequence=0,
        cancel_requested=0,
        accepted_at_ms=0,
        plan_digest="",
        started_at_ms=0,
    )
    if operation.linked_allocation_id:
        draft.touched[operation.operation_id, node_id] = None
    draft.look_at(job.org_id, job.project_id, job.allocation_id)
    if job.gang and not leaving:
        _gang_again(draft, job, task.task_id)
    return moved


def _gang_again(draft: Draft, job: JobRow, but: str) -> None:
    """A gang runs whole or not at all: when one begins anew, all that still run do (JB-07)."""
    for row in _rows_of(draft, job):
        if row.task_id != but and row.node_id:
            job_pass.ask_to_leave(draft, row, "gang")


def _rows_of(draft: Draft, job: JobRow) -> list[JobTaskRow]:
    found = draft.matching(JobTaskRow, draft.view.tasks_of_job(job.job_id), lambda row: row.job_id == job.job_id)
    return sorted(found, key=lambda row: row.task_index)


def _ended(draft: Draft, task_id: str) -> None:
    """A task has ended for good: its place is free, and its job may be over."""
    row = draft.get(JobTaskRow, task_id)
    if row is None:
        return
    job, task = job_book.job_of(draft, row.job_id), job_book.task_of(draft, task_id)
    job_book.charge(draft, job.job_id, task)
    spent = job_book.spent(draft, job)
    node_id = row.node_id
    job_book.release(draft, job, row, pending=False, not_before_ms=0, deadline_ms=0)
    if node_id:
        draft.look_at(job.org_id, job.project_id, job.allocation_id, node_id)
    operation = operation_of(draft, job.job_id)
    if job.gang and task.state != SUCCEEDED and operation.status not in FINAL and not operation.cancel_requested_ms:
        tell_to_end(draft, operation)
        operation = operation_of(draft, job.job_id)
    job = job_book.job_of(draft, job.job_id)
    if operation.status in FINAL and not job.gone_ms:
        _over(draft, job, operation)
    if spent is not None:
        _out_of_budget(draft, spent)


def _over(draft: Draft, job: JobRow, operation: OperationRow) -> None:
    draft.update(replace(job, gone_ms=max(1, draft.now_ms)))
    draft.events.append(
        events.operation_event(
            "job.finished",
            operation,
            draft.now_ms,
            error_code=operation.error_code,
            job=job.name,
            state=operation.status,
            failures=job.failures,
            preemptions=job.preemptions,
            task_ms=job.task_ms,
        )
    )
    if operation.status != SUCCEEDED:  # what it began has nobody to report to
        for child in children_of(draft, job.job_id):
            end_tree(draft, child, KERNEL, "its parent ended")


# -- subtrees -------------------------------------------------------------------------------------


def children_of(draft: Draft, job_id: str) -> list[JobRow]:
    found = draft.matching(JobRow, draft.view.children_of(job_id), lambda job: job.parent_id == job_id)
    return sorted(found, key=lambda job: job.job_id)


def end_tree(draft: Draft, job: JobRow, actor: Actor, reason: str) -> list[str]:
    """Tells the job and all below it to end. → those that were not told before (JB-04)."""
    told, tree = [], [job]
    for each in tree:
        tree += children_of(draft, each.job_id)
        operation = operation_of(draft, each.job_id)
        if operation.status in FINAL or operation.cancel_requested_ms:
            continue
        told.append(each.job_id)
        draft.events.append(
            events.operation_event(
                "operation.cancel_requested",
                operation,
                draft.now_ms,
                actor=actor,
                action="job.cancel",
                result="accepted",
                change=Change({"cancel_requested": False}, {"cancel_requested": True}),
                job=each.name,
                reason=reason[:500],
            )
        )
        tell_to_end(draft, operation)
    return told


def tell_to_end(draft: Draft, operation: OperationRow) -> None:
    """Nothing of it is tried again from here on."""
    draft.update(replace(operation, cancel_requested_ms=operation.cancel_requested_ms or draft.now_ms))
    cancel_open_tasks(draft, operation_of(draft, operation.operation_id))


# -- time, and nodes that were away -----------------------------------------------------------------


def expire(draft: Draft) -> None:
    """What waited too long, what may be tried again, and what ran on nodes that have been silent for too long."""
    for row in draft.current(draft.view.due_job_tasks(draft.now_ms, EXPIRE_LIMIT)):
        if not row.pending:
            continue
        job, task = job_book.job_of(draft, row.job_id), job_book.task_of(draft, row.task_id)
        if 0 < row.deadline_ms <= draft.now_ms:
            said = f"no place in time; it waited for: {row.reason} {row.detail}".strip()
            end_task(draft, task, "fail", error_code="scheduling_timeout", error_message=said[:500])
        elif 0 < row.not_before_ms <= draft.now_ms:
            draft.update(replace(row, not_before_ms=0))
            draft.look_at(job.org_id, job.project_id, job.allocation_id)
    for task in draft.current(draft.view.tasks_to_reroute(draft.now_ms, EXPIRE_LIMIT)):
        if task.state in IN_FLIGHT:
            _reroute(draft, task)
    for job in draft.current(draft.view.jobs_beyond_budget(draft.now_ms, EXPIRE_LIMIT)):
        _out_of_budget(draft, job)


def _reroute(draft: Draft, task: TaskRow) -> None:
    """Its node is silent: a hard fence has stopped it there, or a second copy does no harm (EF-06)."""
    job, row = job_book.job_of(draft, task.operation_id), job_book.job_task_of(draft, task.task_id)
    operation = operation_of(draft, task.operation_id)
    _stray(draft, task)
    message = f"node {task.node_id} has been silent for too long"
    if operation.cancel_requested_ms:
        end_task(draft, task, "cancel", attempt_state="lost", error_code="canceled", error_message=message)
    elif row.preemptions >= spec_of(job.spec).retries.preemption and not row.leaving:
        end_task(draft, task, "fail", attempt_state="lost", error_code="preempted", error_message=message)
    else:
        requeue(draft, job, row, task, "lost", "controller_unreachable", message, preemptions=row.preemptions + 1)


def _out_of_budget(draft: Draft, job: JobRow) -> None:
    """The whole tree has used what it may: nothing of it goes on."""
    if operation_of(draft, job.job_id).status in FINAL:
        return
    waiting = [row for row in _rows_of(draft, job) if row.pending]
    for row in waiting:
        said = f"max_task_seconds of {job.name} is used up"
        task = job_book.task_of(draft, row.task_id)
        end_task(draft, task, "fail", error_code="budget_exhausted", error_message=said)
    end_tree(draft, job, KERNEL, "max_task_seconds is used up")


def _stray(draft: Draft, task: TaskRow) -> None:
    """Its old attempt may still run there: the node is told to end it when it is back."""
    if draft.get(StrayRow, task.attempt_uid) is None:
        stray = StrayRow(
            attempt_uid=task.attempt_uid, task_id=task.task_id, node_id=task.node_id, since_ms=draft.now_ms
        )
        draft.insert(stray)


def end_strays(draft: Draft, node: NodeRow, high_sequence: int) -> None:
    """The node is back: attempts of it that were replaced are cancelled by their own ids."""
    for stray in draft.current(draft.view.strays_on(node.node_id)):
        if stray.ended_at_ms or 0 < stray.cancel_sequence <= high_sequence:
            continue
        sequence = next_sequence(draft, node.node_id)
        expires = draft.now_ms + draft.settings.envelope_window_ms
        draft.orders[stray.attempt_uid, 1] = CancelOrder(
            stray.task_id,
            node,
            sequence,
            draft.ids.nonce(),
            draft.now_ms - CLOCK_SKEW_MS,
            expires,
            stray.attempt_uid,
        )
        draft.update(replace(stray, cancel_sequence=sequence))


def stray_ended(draft: Draft, attempt_uid: str, operation: OperationRow) -> None:
    """Its node says what came of it: that node is as good as any other again."""
    stray = draft.get(StrayRow, attempt_uid)
    if stray is None or stray.ended_at_ms:
        return
    draft.update(replace(stray, ended_at_ms=draft.now_ms))
    job = draft.get(JobRow, operation.operation_id)
    if job is not None and job.pending:
        draft.look_at(job.org_id, job.project_id, job.allocation_id)
