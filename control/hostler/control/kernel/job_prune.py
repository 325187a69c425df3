"""Jobs that have been over for long enough go (OD-31, BK-03).

What goes is what the scheduler and the list of jobs knew: the job with its name and spec, where its tasks stood, and
which attempt was which try. What happened stays, each for its own time: the operation of the same id with its tasks,
attempts, steps and receipts, the events, and the log.
"""

from hostler.control.kernel import changes, events, job_book
from hostler.control.kernel.actor import KERNEL
from hostler.control.kernel.job_commands import PruneJob
from hostler.control.kernel.job_flow import children_of
from hostler.control.kernel.job_rows import JobAttemptRow, JobRow
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.tasks import operation_of


def prune(draft: Draft, command: PruneJob) -> Decision:
    job = draft.get(JobRow, command.job_id)
    if job is None or not 0 < job.gone_ms <= command.over_before_ms or children_of(draft, job.job_id):
        return draft.decision(False)
    tasks = list(draft.view.tasks_of_job(job.job_id))
    for row in tasks:
        for number in range(1, job_book.task_of(draft, row.task_id).attempt_number + 1):
            draft.delete(JobAttemptRow, (row.task_id, number))
        draft.delete(type(row), row.task_id)
    draft.delete(JobRow, job.job_id)
    operation = operation_of(draft, job.job_id)
    draft.events.append(
        events.operation_event(
            "job.pruned",
            operation,
            draft.now_ms,
            actor=KERNEL,
            action="job.prune",
            result="accepted",
            change=changes.gone(job=job.name, state=operation.status, over_ms=job.gone_ms),
            job=job.name,
            tasks=len(tasks),
        )
    )
    return draft.decision(True)
