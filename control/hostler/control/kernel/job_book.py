"""What placed tasks hold of nodes, and of a project's owners; and who pays for the time that they ran (EF-10)."""

import msgspec

from hostler.base.errors import error
from hostler.base.ids import ATTEMPT
from hostler.control.kernel.job_nodes import NAMES, Amounts, Need, need_of
from hostler.control.kernel.job_rows import JobAttemptRow, JobRow, JobShareRow, JobTaskRow, NodeLoadRow
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import AttemptRow, DefinitionRow, TaskRow
from hostler.control.kernel.tasks import operation_of

replace = msgspec.structs.replace
_DEEPEST = 32


def job_of(draft: Draft, job_id: str) -> JobRow:
    job = draft.get(JobRow, job_id)
    if job is None:
        raise error("not_found", f"there is no job {job_id}")
    return job


def task_of(draft: Draft, task_id: str) -> TaskRow:
    task = draft.get(TaskRow, task_id)
    if task is None:
        raise error("internal_error", f"task {task_id} of a job is absent")
    return task


def job_task_of(draft: Draft, task_id: str) -> JobTaskRow:
    row = draft.get(JobTaskRow, task_id)
    if row is None:
        raise error("internal_error", f"task {task_id} of a job has no place in the books")
    return row


def need(draft: Draft, job: JobRow) -> Need:
    operation = operation_of(draft, job.job_id)
    definition = draft.get(DefinitionRow, f"{operation.operation_type}@{operation.version}")
    return need_of(job.spec, definition.document if definition else "")


def held_on(draft: Draft, node_id: str) -> Amounts:
    """By all tasks placed there."""
    load = draft.get(NodeLoadRow, node_id)
    return _amounts(load) if load is not None else (0, 0, 0, 0, 0)


def held_by(draft: Draft, org_id: str, project_id: str, owner: str) -> Amounts:
    share = draft.get(JobShareRow, (org_id, project_id, owner))
    return _amounts(share) if share is not None else (0, 0, 0, 0, 0)


def _amounts(row: NodeLoadRow | JobShareRow) -> Amounts:
    return row.cpu_millis, row.memory_bytes, row.disk_bytes, row.gpus, row.tpus


def reserve(draft: Draft, job: JobRow, row: JobTaskRow, node_id: str) -> JobTaskRow:
    """The task is on that node from here on, in all the books."""
    held = replace(row, node_id=node_id, pending=0, not_before_ms=0, deadline_ms=0, reason="", detail="")
    draft.update(held)
    _pending(draft, job.job_id, -row.pending)
    _add(draft, job, node_id, 1)
    return held


def release(draft: Draft, job: JobRow, row: JobTaskRow, *, pending: bool, **changes: object) -> JobTaskRow:
    """The task holds nothing any more: it waits again, or has ended."""
    freed = replace(row, node_id="", pending=int(pending), leaving="", reason="", detail="", **changes)
    draft.update(freed)
    _pending(draft, job.job_id, freed.pending - row.pending)
    if row.node_id:
        _add(draft, job, row.node_id, -1)
    return freed


def _pending(draft: Draft, job_id: str, change: int) -> None:
    if change:
        job = job_of(draft, job_id)
        since = draft.now_ms if change < 0 or not job.pending else job.waiting_since_ms
        draft.update(replace(job, pending=job.pending + change, waiting_since_ms=since))


def _add(draft: Draft, job: JobRow, node_id: str, sign: int) -> None:
    amounts = need(draft, job).amounts
    share_key = job.org_id, job.project_id, job.owner
    load = draft.get(NodeLoadRow, node_id)
    if load is None:
        load = NodeLoadRow(node_id=node_id)
        draft.insert(load)
    share = draft.get(JobShareRow, share_key)
    if share is None:
        share = JobShareRow(org_id=job.org_id, project_id=job.project_id, owner=job.owner)
        draft.insert(share)
    for row in (load, share):
        sums = {name: getattr(row, name) + sign * amount for name, amount in zip(NAMES, amounts, strict=True)}
        draft.update(replace(row, tasks=row.tasks + sign, **sums))


def move_to(draft: Draft, task: TaskRow, node_id: str) -> TaskRow:
    """The task and its present attempt are that node's."""
    moved = replace(task, node_id=node_id, waiting_for="")
    draft.update(moved)
    attempt = draft.get(AttemptRow, task.attempt_uid)
    if attempt is not None:
        draft.update(replace(attempt, node_id=node_id))
    return moved


def next_attempt(draft: Draft, task: TaskRow) -> AttemptRow:
    """Without a node, until one is found (JB-05)."""
    attempt = AttemptRow(
        attempt_uid=draft.ids.new(ATTEMPT, draft.now_ms),
        task_id=task.task_id,
        attempt_number=task.attempt_number + 1,
        node_id="",
        created_at_ms=draft.now_ms,
    )
    draft.insert(attempt)
    file_attempt(draft, attempt.task_id, attempt.attempt_number, attempt.attempt_uid)
    return attempt


def file_attempt(draft: Draft, task_id: str, number: int, attempt_uid: str) -> None:
    draft.insert(JobAttemptRow(task_id=task_id, attempt_number=number, attempt_uid=attempt_uid))


def ancestors(draft: Draft, job: JobRow) -> list[JobRow]:
    """The job itself, its parent, and so on up to the root."""
    found = [job]
    while found[-1].parent_id and len(found) < _DEEPEST:
        parent = draft.get(JobRow, found[-1].parent_id)
        if parent is None:
            break
        found.append(parent)
    return found


def charge(draft: Draft, job_id: str, task: TaskRow) -> None:
    """The time that an attempt ran, to its job and all above it."""
    ran = max(0, draft.now_ms - task.started_at_ms) if task.started_at_ms else 0
    if ran:
        for each in ancestors(draft, job_of(draft, job_id)):
            draft.update(replace(each, task_ms=each.task_ms + ran))


def spent(draft: Draft, job: JobRow) -> JobRow | None:
    """The job, or the one above it, whose budget is used up."""
    return next((each for each in ancestors(draft, job) if 0 < each.budget_ms <= each.task_ms), None)
