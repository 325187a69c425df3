"""A pass of the scheduler over the waiting jobs of one pool: what is stored becomes its input, what it says happens.

A pool is what a job may run on: a project's own nodes, or those of one allocation.
"""

from collections.abc import Iterable

import msgspec

from hostler.control.kernel import events, job_book
from hostler.control.kernel.assign import assign, free_slots, policy_of
from hostler.control.kernel.cancel import request_cancel
from hostler.control.kernel.job_nodes import (
    NOTHING,
    Amounts,
    NodeState,
    blocked_by,
    facts_of,
    fits,
    plus,
    spec_of,
    unmet,
)
from hostler.control.kernel.job_reasons import Reason
from hostler.control.kernel.job_room import Placed
from hostler.control.kernel.job_rows import JobRow, JobTaskRow, StrayRow
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import NodeRow, TaskRow
from hostler.control.kernel.scheduling import Schedule, Waiting, Wanting, schedule
from hostler.control.kernel.tasks import node_of, operation_of
from hostler.control.kernel.transitions import FINAL, IN_FLIGHT

replace = msgspec.structs.replace
Pool = tuple[str, str, str]


def run(draft: Draft, pool: Pool, only: set[str] | None) -> None:
    """Looks at every waiting job of the pool.

    Args:
        only: the nodes on which something became free; what waits did not fit on the others. None for all.
    """
    jobs = waiting_jobs(draft, pool)
    if not jobs:
        return
    if only is not None and any(_needs_all(draft, job) for job in jobs):
        only = None
    nodes = nodes_of(draft, pool, only)
    leaving = _leaving(draft, pool)
    states = [state_of(draft, node, leaving.get(node.node_id, NOTHING)) for node in nodes]
    if only is not None:
        jobs = [job for job in jobs if _may_fit(draft, job, states)]
    wanting = [want for want in (_wanting(draft, job) for job in jobs) if want.tasks]
    if not wanting:
        return
    placed = _could_leave(draft, pool, max(want.priority for want in wanting))
    shares = {want.owner: job_book.held_by(draft, pool[0], pool[1], want.owner) for want in wanting}
    made = schedule(wanting, states, placed, shares)
    _apply(draft, made, said=only is None)


def waiting_jobs(draft: Draft, pool: Pool) -> list[JobRow]:
    def keep(job: JobRow) -> bool:
        return job.pending > 0 and (job.org_id, job.project_id, job.allocation_id) == pool

    return draft.matching(JobRow, draft.view.pending_jobs(*pool), keep)


def nodes_of(draft: Draft, pool: Pool, only: set[str] | None = None) -> list[NodeRow]:
    org_id, project_id, allocation_id = pool
    if only is not None:
        found: Iterable[NodeRow] = [node_of(draft, node_id) for node_id in sorted(only)]
    else:
        found = draft.current(draft.view.nodes_of(org_id, project_id))
    return [
        node
        for node in found
        if node.state == "active"
        and (node.org_id, node.project_id, node.allocation_id) == (org_id, project_id, allocation_id)
    ]


def state_of(draft: Draft, node: NodeRow, leaving: Amounts = NOTHING) -> NodeState:
    return NodeState(
        node_id=node.node_id,
        name=node.name,
        facts=facts_of(node.node_id, node.name, node.labels, node.capabilities),
        blocked=blocked_by(node.connection, node.hold, node.scheduling, node.health),
        reserved=job_book.held_on(draft, node.node_id),
        leaving=leaving,
    )


def _needs_all(draft: Draft, job: JobRow) -> bool:
    """A gang looks at every node at once, and a freed slot of a policy is not of any one node."""
    operation = operation_of(draft, job.job_id)
    return bool(job.gang or policy_of(operation).max_concurrency or draft.policies() or _is_aged(draft, job))


def _is_aged(draft: Draft, job: JobRow) -> bool:
    """It was overtaken for so long that something is kept for it, and of that there is one place in the pool."""
    after_ms = draft.settings.jobs.reserve_after_ms
    return 0 < after_ms <= draft.now_ms - job.waiting_since_ms


def _may_fit(draft: Draft, job: JobRow, states: list[NodeState]) -> bool:
    """Cheap: most of what waits does not fit on the one node that something ended on."""
    need = job_book.need(draft, job)
    return any(
        not state.blocked and not unmet(need.where, state.facts) and fits(need.amounts, state.facts.total)
        for state in states
    )


def _wanting(draft: Draft, job: JobRow) -> Wanting:
    rows = draft.matching(JobTaskRow, draft.view.tasks_of_job(job.job_id), lambda row: row.job_id == job.job_id)
    rows.sort(key=lambda row: row.task_index)
    operation, spec = operation_of(draft, job.job_id), spec_of(job.spec)
    due = [row for row in rows if row.pending and row.not_before_ms <= draft.now_ms]
    blocked = None
    spent = job_book.spent(draft, job)
    if spent is not None:
        blocked = Reason("budget", f"max_task_seconds of {spent.name} is used up")
    elif job.gang and any(row.leaving for row in rows):
        waits = sum(row.pending for row in rows)
        blocked = Reason("gang_waits", f"{waits} of {job.replicas} have ended their last attempt")
    elif job.gang and len(due) < sum(row.pending for row in rows):
        blocked = Reason("back_off", "one of the gang is tried again soon, and the others with it")
    others: dict[str, int] = {}
    for row in rows:
        if row.node_id:
            others[row.node_id] = others.get(row.node_id, 0) + 1
    return Wanting(
        job_id=job.job_id,
        name=job.name,
        owner=job.owner,
        priority=job.priority,
        created_ms=job.created_at_ms,
        need=job_book.need(draft, job),
        tasks=tuple(_waiting(draft, row) for row in due),
        spread=spec.placement == "spread",
        gang=bool(job.gang),
        topology=spec.gang.topology if spec.gang else "",
        slots=0 if operation.cancel_requested_ms else free_slots(draft, operation),
        blocked=blocked,
        aged=_is_aged(draft, job),
        others=others,
    )


def _waiting(draft: Draft, row: JobTaskRow) -> Waiting:
    """A task that has run elsewhere before is kept off nodes where its old attempt may still do so."""
    if not row.preemptions and not row.failures:
        return Waiting(row.task_id, frozenset(), row.avoid)
    strays = draft.matching(
        StrayRow, draft.view.strays_of(row.task_id), lambda s: s.task_id == row.task_id and not s.ended_at_ms
    )
    return Waiting(row.task_id, frozenset(stray.node_id for stray in strays), row.avoid)


def _leaving(draft: Draft, pool: Pool) -> dict[str, Amounts]:
    """What of each node is held by tasks that were told to end."""
    found: dict[str, Amounts] = {}
    for row in draft.matching(JobTaskRow, draft.view.leaving_tasks(), lambda row: bool(row.leaving and row.node_id)):
        job = job_book.job_of(draft, row.job_id)
        if (job.org_id, job.project_id, job.allocation_id) == pool:
            found[row.node_id] = plus(found.get(row.node_id, NOTHING), job_book.need(draft, job).amounts)
    return found


def _could_leave(draft: Draft, pool: Pool, below: int) -> list[Placed]:
    """Tasks in place of less important jobs that put up with it; those of a gang all together."""
    found = []
    stored = draft.view.preemptible_below(*pool, below)
    for row in draft.matching(JobTaskRow, stored, lambda row: bool(row.node_id and not row.leaving)):
        job, task = job_book.job_of(draft, row.job_id), job_book.task_of(draft, row.task_id)
        own = (job.org_id, job.project_id, job.allocation_id) == pool and job.priority < below
        if own and job.preemptible and task.state not in FINAL and not task.cancel_requested:
            amounts, gang = job_book.need(draft, job).amounts, job.job_id if job.gang else ""
            found.append(Placed(row.task_id, row.node_id, job.priority, amounts, task.started_at_ms, gang))
    return found


# -- what the scheduler said ------------------------------------------------------------------------


def _apply(draft: Draft, made: Schedule, *, said: bool) -> None:
    full: set[str] = set()
    for task_id, node_id in made.placements:
        row = job_book.job_task_of(draft, task_id)
        if row.job_id not in full and not _place(draft, row, node_of(draft, node_id)):
            full.add(row.job_id)
    for task_id in made.preempt:
        ask_to_leave(draft, job_book.job_task_of(draft, task_id), "preempted")
    for task_id, reason in made.reasons.items():
        row = job_book.job_task_of(draft, task_id)
        if (said or reason.code == "preempting") and row.pending and (row.reason, row.detail) != reason:
            draft.update(replace(row, reason=reason.code, detail=reason.detail))


def _place(draft: Draft, row: JobTaskRow, node: NodeRow) -> bool:
    """False when a limit that jobs share was reached by another one meanwhile, or the job has ended over it."""
    job, operation = job_book.job_of(draft, row.job_id), operation_of(draft, row.job_id)
    wanted = job.pending if job.gang and row.task_index == _first(draft, job) else 1
    if operation.status in FINAL or not row.pending or free_slots(draft, operation) < wanted:
        return False
    job_book.reserve(draft, job, row, node.node_id)
    draft.update(replace(operation, deadline_ms=draft.now_ms + draft.settings.start_within_ms))
    task = job_book.move_to(draft, job_book.task_of(draft, row.task_id), node.node_id)
    draft.events.append(
        events.task_event(
            "job.task_placed",
            operation,
            task,
            draft.now_ms,
            job=job.name,
            task_index=row.task_index,
            node=node.name,
            attempt_uid=task.attempt_uid,
        )
    )
    assign(draft, task, node)
    return True


def _first(draft: Draft, job: JobRow) -> int:
    rows = draft.matching(JobTaskRow, draft.view.tasks_of_job(job.job_id), lambda row: row.job_id == job.job_id)
    return min((row.task_index for row in rows if row.pending), default=-1)


def ask_to_leave(draft: Draft, row: JobTaskRow, why: str) -> None:
    """Tells a task's attempt to end; when its node has confirmed that, the task waits for another place."""
    task: TaskRow = job_book.task_of(draft, row.task_id)
    if row.leaving or row.pending or task.state in FINAL:
        return
    draft.update(replace(row, leaving=why))
    job, operation = job_book.job_of(draft, row.job_id), operation_of(draft, row.job_id)
    if why == "preempted":
        draft.events.append(
            events.task_event(
                "job.task_preempted", operation, task, draft.now_ms, job=job.name, task_index=row.task_index
            )
        )
    if task.state in IN_FLIGHT:
        request_cancel(draft, task)
    else:  # it was never sent
        draft.take_again(draft, task, "cancel", "", "preempted", "")
