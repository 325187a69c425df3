"""Asking for jobs and ending them: names, parents, budgets, what a spec is compiled to (JB-01..04, TE-08, TE-16)."""

from typing import Any

import msgspec

from hostler.base.digest import canonical_json
from hostler.base.errors import error
from hostler.catalog.job import PRIORITIES, JobSpec, container_inputs, path_of, pull_inputs, root_of
from hostler.control.kernel import code_bundles, events, job_book, job_flow
from hostler.control.kernel import submit as submits
from hostler.control.kernel.actor import Actor
from hostler.control.kernel.allocation_rows import AllocationRow
from hostler.control.kernel.allocation_states import ACTIVE
from hostler.control.kernel.commands import SubmitOperation, TargetSelector
from hostler.control.kernel.job_commands import CancelChildJob, CancelJob, JobSubmitted, SubmitChildJob, SubmitJob
from hostler.control.kernel.job_nodes import spec_of
from hostler.control.kernel.job_rows import JobRow, JobTaskRow
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.permitted import Question
from hostler.control.kernel.rows import OperationRow, TaskRow
from hostler.control.kernel.tasks import operation_of
from hostler.control.kernel.transitions import FINAL, IN_FLIGHT, SUCCEEDED

replace = msgspec.structs.replace
MOST_PARTS = 16  # of a path
MEMBER = "project_member"
_BANDS = {band: word for word, band in PRIORITIES.items()}
TASK = "task"  # kind of an actor: a job's task that speaks for its job's owner
# what a child that names no image has from its parent: it runs the same program
_INHERITED = ("image", "bundle", "setup", "runtime", "pull_credential")


def submit(draft: Draft, command: SubmitJob) -> Decision:
    """→ `JobSubmitted`. Everything is checked before anything is stored; the tasks get their nodes at once or later."""
    return draft.decision(_submit(draft, command, _asked_parent(draft, command)))


def submit_child(draft: Draft, command: SubmitChildJob) -> Decision:
    """→ `JobSubmitted`. Whose it is, and below what, is the running task's to say by running, not by asking."""
    parent, operation = _caller(draft, command)
    asked = _of_child(command, parent, operation)
    _goes_on(parent, operation)
    return draft.decision(_submit(draft, asked, parent))


def question_of(draft: Draft, command: SubmitJob | SubmitChildJob) -> Question | None:
    """What an engine outside is to be asked; None where the request was answered before."""
    if isinstance(command, SubmitChildJob):
        parent, operation = _caller(draft, command)
        asked = _of_child(command, parent, operation)
        return submits.question_of(draft, _submitted(draft, asked, _name(asked, parent), parent))
    above = _asked_parent(draft, command)
    return submits.question_of(draft, _submitted(draft, command, _name(command, above), above))


def _of_child(command: SubmitChildJob, parent: JobRow, operation: OperationRow) -> SubmitJob:
    return SubmitJob(
        actor=replace(command.actor, org_id=parent.org_id, project_id=parent.project_id),
        org_id=parent.org_id,
        project_id=parent.project_id,
        spec=_completed(command.spec, spec_of(parent.spec)),
        idempotency_key=command.idempotency_key,
        correlation_id=command.correlation_id or operation.correlation_id,
        parent=parent.job_id,
        traceparent=operation.traceparent,
        answer=command.answer,
    )


def _name(command: SubmitJob, parent: JobRow | None) -> str:
    return path_of(parent.owner if parent else command.actor.name, command.spec.name, parent.name if parent else "")


def _completed(spec: JobSpec, parent: JobSpec) -> JobSpec:
    if spec.image:
        return spec
    missing = {name: getattr(parent, name) for name in _INHERITED if not getattr(spec, name)}
    spec = replace(spec, **missing)
    return spec if spec.allocation else replace(spec, allocation=parent.allocation)


def _caller(draft: Draft, command: SubmitChildJob | CancelChildJob) -> tuple[JobRow, OperationRow]:
    """The job of the attempt that runs on the node that asks. One sentence for every reason."""
    task = draft.get(TaskRow, command.task_id)
    job = draft.get(JobRow, task.operation_id) if task else None
    runs = (
        task is not None
        and task.attempt_uid == command.attempt_uid
        and task.node_id == command.node_id
        and task.state in IN_FLIGHT
    )
    if job is None or not runs:
        raise error("not_found", f"task {command.task_id[:64]} of a job does not run on this node at that attempt")
    return job, operation_of(draft, job.job_id)


def _submit(draft: Draft, command: SubmitJob, parent: JobRow | None) -> JobSubmitted:
    spec = command.spec
    _check(spec)
    _check_band(draft, command, parent)
    owner = parent.owner if parent else command.actor.name
    name = _name(command, parent)
    if name.count("/") > MOST_PARTS:
        raise error("invalid_request", f"the path of a job has at most {MOST_PARTS} parts", pointer="/name")
    text = canonical_json(msgspec.to_builtins(spec)).decode()
    asked_before = draft.view.operation_by_key(command.org_id, command.project_id, command.idempotency_key)
    if asked_before is not None:
        return _same(draft, asked_before, name, text)
    present = draft.view.job_named(command.org_id, command.project_id, name)
    if present is not None:
        kept = _existing(draft, present, spec, command.actor)
        if kept is not None:
            return kept
    if parent is not None:
        spent = job_book.spent(draft, parent)
        if spent is not None:
            raise error("budget_exhausted", f"max_task_seconds of {spent.name} is used up", pointer="/name")
    _check_allocation(draft, command)
    if spec.bundle:
        code_bundles.require(draft, command.org_id, command.project_id, spec.bundle)
    operation = _operation(draft, command, name, parent)
    job = _rows(draft, command, operation, name, text, parent, owner)
    draft.events.append(
        events.operation_event(
            "job.submitted",
            operation,
            draft.now_ms,
            job=name,
            parent=parent.name if parent else "",
            owner=owner,
            asked_by=command.actor.name,
            replicas=job.replicas,
            priority=spec.priority,
        )
    )
    draft.look_at(job.org_id, job.project_id, job.allocation_id)
    return JobSubmitted(job.job_id, name, True)


def _check(spec: JobSpec) -> None:
    """What the types cannot say."""
    if spec.cluster and spec.backend:
        raise error("invalid_request", "a job names a cluster or a backend, not both", pointer="/cluster")
    if spec.backend not in ("", "node_agent"):
        raise error("unknown_target", f"there is no backend {spec.backend!r} here", pointer="/backend")
    if spec.cluster:
        raise error("unknown_target", f"there is no other cluster {spec.cluster!r} known here", pointer="/cluster")
    if len({name.replace("-", "_") for name in spec.ports}) != len(spec.ports):  # as they stand in HOSTLER_PORT_…
        raise error("invalid_request", "each port has a name of its own", pointer="/ports")
    if any("\0" in word for word in (*spec.command, *spec.setup, *spec.environment.values())):
        raise error("invalid_request", "an argument or a variable holds a NUL, which no program can be given")
    if not spec.image and spec.runtime not in ("", "process"):
        raise error("invalid_request", f"runtime {spec.runtime} needs an image", pointer="/image")
    for index, each in enumerate(spec.constraints):
        few = not each.values if each.op != "exists" else bool(each.values)
        if few or (each.op in ("eq", "ne") and len(each.values) != 1):
            raise error("invalid_request", f"{each.op} takes another number of values", pointer=f"/constraints/{index}")


def _check_band(draft: Draft, command: SubmitJob, parent: JobRow | None) -> None:
    """A band is power over others' jobs, so not everybody's to choose: a task gets for its children what a member gets,
    or what its own job was given. Raises `scope_denied`."""
    if command.actor.role != MEMBER and command.actor.kind != TASK:
        return
    most = PRIORITIES[draft.settings.jobs.member_priority]
    if command.actor.kind == TASK and parent is not None:
        most = max(most, parent.priority)
    if PRIORITIES[command.spec.priority] > most:
        who = "a task" if command.actor.kind == TASK else "a project_member"
        said = f"{who} submits jobs up to priority {_BANDS[most]} here, not {command.spec.priority}"
        hint = "ask for a lower one, or have a project_admin submit it"
        raise error("scope_denied", said, hint=hint, pointer="/priority")


def _same(draft: Draft, operation: OperationRow, name: str, text: str) -> JobSubmitted:
    job = draft.get(JobRow, operation.operation_id)
    if job is None or (job.name, job.spec) != (name, text):
        raise error(
            "idempotency_mismatch",
            f"the key belongs to operation {operation.operation_id}, which was asked for differently",
            operation_id=operation.operation_id,
        )
    return JobSubmitted(job.job_id, job.name, False)


def _existing(draft: Draft, present: JobRow, spec: JobSpec, actor: Actor) -> JobSubmitted | None:
    """The job that has the name now, where it is kept (JB-03); None where another takes the name."""
    status = operation_of(draft, present.job_id).status
    if spec.existing == "keep" and (status not in FINAL or status == SUCCEEDED):
        return JobSubmitted(present.job_id, present.name, False)
    if status not in FINAL:
        if spec.existing == "error":
            raise error("job_exists", f"job {present.name} runs as {present.job_id}", operation_id=present.job_id)
        job_flow.end_tree(draft, present, actor, "replaced")
    draft.update(replace(job_book.job_of(draft, present.job_id), current=0))
    return None


def _asked_parent(draft: Draft, command: SubmitJob) -> JobRow | None:
    """A child has its parent's namespace with its keys, its owner's share and its budget: no member adds to another's.

    Raises:
        HostlerError: `not_found`, `operation_final`, `scope_denied`.
    """
    if not command.parent:
        return None
    parent = _parent(draft, command.org_id, command.project_id, command.parent)
    if command.actor.role == MEMBER and command.actor.name != parent.owner:
        raise error("scope_denied", "a project_member submits children of its own jobs only", pointer="/parent")
    return parent


def _parent(draft: Draft, org_id: str, project_id: str, named: str) -> JobRow:
    job = draft.view.job_named(org_id, project_id, named) if named.startswith("/") else draft.get(JobRow, named)
    if job is None or (job.org_id, job.project_id) != (org_id, project_id):
        raise error("not_found", f"there is no job {named[:256]!r} to be the parent", pointer="/parent")
    _goes_on(job, operation_of(draft, job.job_id))
    return job


def _goes_on(job: JobRow, operation: OperationRow) -> None:
    if operation.status in FINAL or operation.cancel_requested_ms:
        raise error("operation_final", f"job {job.name} ends or has ended, so it gets no children")


def _check_allocation(draft: Draft, command: SubmitJob) -> None:
    if not command.spec.allocation:
        return
    row = draft.get(AllocationRow, command.spec.allocation)
    if row is None or (row.org_id, row.project_id) != (command.org_id, command.project_id):
        raise error("not_found", f"there is no allocation {command.spec.allocation!r}", pointer="/allocation")
    if row.state != ACTIVE:
        raise error("allocation_state", f"allocation {row.allocation_id} is {row.state}", pointer="/allocation")


def _operation(draft: Draft, command: SubmitJob, name: str, parent: JobRow | None) -> OperationRow:
    """Through the one submit path: policy, audit, idempotency and events are those of any operation (API-26)."""
    operation, _ = submits.place(draft, _submitted(draft, command, name, parent), "job.submit", unplaced=True)
    return operation


def _submitted(draft: Draft, command: SubmitJob, name: str, parent: JobRow | None) -> SubmitOperation:
    spec, settings = command.spec, draft.settings.jobs
    ref = settings.private_ref if spec.pull_credential else settings.ref
    operation_type, _, version = ref.rpartition("@")
    inputs: dict[str, Any] = container_inputs(spec, name, parent.name if parent else "", root_of(name))
    if spec.pull_credential:
        inputs |= pull_inputs(spec.image)
    return SubmitOperation(
        actor=command.actor,
        org_id=command.org_id,
        project_id=command.project_id,
        operation_type=operation_type,
        version=version,
        inputs=inputs,
        target_selector=TargetSelector(replicas=spec.replicas, allocation=spec.allocation),
        idempotency_key=command.idempotency_key,
        correlation_id=command.correlation_id,
        traceparent=command.traceparent,
        linked_allocation_id=spec.allocation,
        answer=command.answer,
    )


def _rows(
    draft: Draft, command: SubmitJob, operation: OperationRow, name: str, text: str, parent: JobRow | None, owner: str
) -> JobRow:
    spec, settings, now_ms = command.spec, draft.settings.jobs, draft.now_ms
    fence_ms = spec.fence_seconds * 1000 + settings.fence_margin_ms if spec.fence == "hard" else 0
    job = JobRow(
        job_id=operation.operation_id,
        org_id=command.org_id,
        project_id=command.project_id,
        name=name,
        root=root_of(name),
        parent_id=parent.job_id if parent else "",
        owner=owner,
        spec=text,
        priority=PRIORITIES[spec.priority],
        preemptible=int(spec.preemptible),
        replicas=spec.replicas,
        gang=int(spec.gang is not None),
        allocation_id=spec.allocation,
        reroute_after_ms=settings.lost_grace_ms if spec.relocatable else fence_ms,
        budget_ms=spec.max_task_seconds * 1000,
        created_at_ms=now_ms,
        pending=spec.replicas,
        waiting_since_ms=now_ms,
    )
    draft.insert(job)
    deadline = now_ms + spec.scheduling_timeout_seconds * 1000 if spec.scheduling_timeout_seconds else 0
    for task in draft.tasks_of(operation.operation_id):
        job_book.file_attempt(draft, task.task_id, task.attempt_number, task.attempt_uid)
        draft.insert(
            JobTaskRow(task_id=task.task_id, job_id=job.job_id, task_index=task.replica_index, deadline_ms=deadline)
        )
    return job


# -- ending ---------------------------------------------------------------------------------------


def cancel(draft: Draft, command: CancelJob) -> Decision:
    """→ ids of the jobs told to end. Of one that has ended, and the second time: none (JB-04)."""
    job = draft.get(JobRow, command.job_id)
    actor = command.actor
    if job is None or job.project_id != command.project_id or (actor.org_id and actor.org_id != job.org_id):
        raise error("not_found", f"there is no job {command.job_id} in project {command.project_id}")
    return draft.decision(job_flow.end_tree(draft, job, actor, command.reason))


def cancel_child(draft: Draft, command: CancelChildJob) -> Decision:
    """→ as `cancel`. A task ends its own job or one below it, and no other."""
    own, _ = _caller(draft, command)
    if command.job.startswith("/"):
        job = draft.view.job_named(own.org_id, own.project_id, command.job)
    else:
        job = draft.get(JobRow, command.job)
    if job is None or own.job_id not in (each.job_id for each in job_book.ancestors(draft, job)):
        raise error("not_found", f"there is no job {command.job[:256]!r} below {own.name}")
    return draft.decision(job_flow.end_tree(draft, job, command.actor, f"asked by task {command.task_id}"))
