"""Rows of jobs: what was asked for, where each task is, what it holds of a node, and what is left of old attempts."""

from collections.abc import Iterable
from typing import Protocol

from hostler.control.kernel.rows import Row, TaskRow


class JobRow(Row, frozen=True, kw_only=True):
    """A job stands beside its operation, whose id it has; its state is the operation's (API-26).

    Attributes:
        name: the whole path; `root` is its first two parts.
        current: 1 for the job that has the name now; one that was replaced keeps its row.
        spec: canonical JSON of the `JobSpec`.
        pending: tasks that have no node.
        reroute_after_ms: how long its node may be silent before a task is placed anew; 0 for never (EF-06).
        task_ms: how long tasks of it and of all below it have run.
        budget_ms: of the spec; 0 for none.
        gone_ms: when it was over; 0 while it is not.
        waiting_since_ms: when a task of it was placed last, or the first one began to wait.
    """

    KEY = ("job_id",)
    FIXED = (
        "org_id",
        "project_id",
        "name",
        "root",
        "parent_id",
        "owner",
        "spec",
        "priority",
        "preemptible",
        "replicas",
        "gang",
        "allocation_id",
        "reroute_after_ms",
        "budget_ms",
        "created_at_ms",
    )

    job_id: str
    org_id: str
    project_id: str
    name: str
    root: str
    parent_id: str
    owner: str
    spec: str
    priority: int
    preemptible: int
    replicas: int
    gang: int
    allocation_id: str
    reroute_after_ms: int
    budget_ms: int
    created_at_ms: int
    current: int = 1
    pending: int = 0
    failures: int = 0
    preemptions: int = 0
    task_ms: int = 0
    gone_ms: int = 0
    waiting_since_ms: int = 0


class JobTaskRow(Row, frozen=True, kw_only=True):
    """A task as the scheduler sees it.

    Attributes:
        node_id: where it holds what it asked for; "" while it holds nothing.
        pending: 1 while it waits for a node.
        leaving: why its present attempt was told to end and make room: `preempted`, `gang`; "" where it was not.
        avoid: the node that last could not run it; taken again only when there is no other.
        not_before_ms: it is not placed before that.
        deadline_ms: until when it has to be placed; 0 for no such limit.
        reason, detail: why it is not placed.
    """

    KEY = ("task_id",)
    FIXED = ("job_id", "task_index")

    task_id: str
    job_id: str
    task_index: int
    node_id: str = ""
    pending: int = 1
    leaving: str = ""
    failures: int = 0
    preemptions: int = 0
    avoid: str = ""
    not_before_ms: int = 0
    deadline_ms: int = 0
    reason: str = ""
    detail: str = ""


class JobAttemptRow(Row, frozen=True, kw_only=True):
    """Which attempt was which try of a task: the way from a job to its history (JB-05)."""

    KEY = ("task_id", "attempt_number")

    task_id: str
    attempt_number: int
    attempt_uid: str


class NodeLoadRow(Row, frozen=True, kw_only=True):
    """What the tasks placed on a node hold of it, added up (EF-10)."""

    KEY = ("node_id",)

    node_id: str
    tasks: int = 0
    cpu_millis: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    gpus: int = 0
    tpus: int = 0


class JobShareRow(Row, frozen=True, kw_only=True):
    """What a user's tasks hold in a project; decides whose turn it is within a band."""

    KEY = ("org_id", "project_id", "owner")

    org_id: str
    project_id: str
    owner: str
    tasks: int = 0
    cpu_millis: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    gpus: int = 0
    tpus: int = 0


class StrayRow(Row, frozen=True, kw_only=True):
    """An attempt that was replaced while its node was away: told to end as soon as the node is back (EF-06)."""

    KEY = ("attempt_uid",)
    FIXED = ("task_id", "node_id", "since_ms")

    attempt_uid: str
    task_id: str
    node_id: str
    since_ms: int
    cancel_sequence: int = 0
    ended_at_ms: int = 0


JOB_ROWS: tuple[type[Row], ...] = (JobRow, JobTaskRow, JobAttemptRow, NodeLoadRow, JobShareRow, StrayRow)


class JobView(Protocol):
    """What is stored of jobs; a part of `model.View`."""

    def job_named(self, org_id: str, project_id: str, name: str) -> JobRow | None:
        """The one that has the name now."""

    def children_of(self, job_id: str) -> Iterable[JobRow]: ...

    def tasks_of_job(self, job_id: str) -> Iterable[JobTaskRow]: ...

    def pending_jobs(self, org_id: str, project_id: str, allocation_id: str) -> Iterable[JobRow]:
        """With tasks that have no node."""

    def leaving_tasks(self) -> Iterable[JobTaskRow]:
        """That were told to make room."""

    def preemptible_below(
        self, org_id: str, project_id: str, allocation_id: str, priority: int
    ) -> Iterable[JobTaskRow]:
        """In place, of jobs that put up with preemption and are less important than that."""

    def strays_on(self, node_id: str) -> Iterable[StrayRow]:
        """Not ended."""

    def strays_of(self, task_id: str) -> Iterable[StrayRow]:
        """Not ended."""

    def tasks_to_reroute(self, now_ms: int, limit: int) -> Iterable[TaskRow]:
        """Of nodes that have been silent for longer than their jobs put up with."""

    def due_job_tasks(self, now_ms: int, limit: int) -> Iterable[JobTaskRow]:
        """That waited too long for a node, or may be tried again by now."""

    def jobs_beyond_budget(self, now_ms: int, limit: int) -> Iterable[JobRow]:
        """Not over, and used up what they may use, with what runs now in them and below them."""

    def pools_waiting(self, limit: int) -> Iterable[tuple[str, str, str]]:
        """(org, project, allocation) with jobs that wait."""
