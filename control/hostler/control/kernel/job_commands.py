"""What can be asked of jobs, as frozen data; a part of `kernel.commands`."""

import msgspec

from hostler.catalog.job import JobSpec
from hostler.control.kernel.actor import Actor
from hostler.control.kernel.permitted import Answer


class SubmitJob(msgspec.Struct, frozen=True, kw_only=True):
    """→ `JobSubmitted`. `parent` is the id or path of a job of the same project, "" for a root job."""

    actor: Actor
    org_id: str
    project_id: str
    spec: JobSpec
    idempotency_key: str
    correlation_id: str
    parent: str = ""
    traceparent: str = ""
    answer: Answer | None = None  # of the engine outside, where there is one


class SubmitChildJob(msgspec.Struct, frozen=True, kw_only=True):
    """→ `JobSubmitted`. By a task that runs: project, user and namespace are its job's own (TE-08, TE-16).

    `node_id` is the certificate's; task and attempt must be open there.
    """

    actor: Actor
    node_id: str
    task_id: str
    attempt_uid: str
    spec: JobSpec
    idempotency_key: str
    correlation_id: str
    answer: Answer | None = None


class JobSubmitted(msgspec.Struct, frozen=True):
    """`created` is False for one that was there already (JB-03)."""

    job_id: str
    name: str
    created: bool


class CancelJob(msgspec.Struct, frozen=True, kw_only=True):
    """→ the ids of the jobs that were told to end: it and all below it. Again: nobody (JB-04)."""

    actor: Actor
    project_id: str
    job_id: str
    reason: str = ""


class CancelChildJob(msgspec.Struct, frozen=True, kw_only=True):
    """→ as `CancelJob`. By a task that runs, for its own job or one below it."""

    actor: Actor
    node_id: str
    task_id: str
    attempt_uid: str
    job: str  # id or path


class PruneJob(msgspec.Struct, frozen=True):
    """→ whether it went. Only a job that was over by then goes, and none before what is below it (BK-03)."""

    job_id: str
    over_before_ms: int


JobCommand = SubmitJob | SubmitChildJob | CancelJob | CancelChildJob | PruneJob
