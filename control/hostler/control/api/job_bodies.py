"""What requests about jobs carry, and their answers; see `bodies`."""

from typing import Annotated

import msgspec

from hostler.catalog.job import JobSpec


class NewJob(JobSpec, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job's spec, and whose child it is.

    Attributes:
        parent: id or path of the job it is a child of; "" for a root job.
        idempotency_key: the same key and spec give the same job; also as the header.
    """

    parent: Annotated[str, msgspec.Meta(max_length=1100)] = ""
    idempotency_key: Annotated[str, msgspec.Meta(max_length=200)] = ""


class JobMade(msgspec.Struct, frozen=True, kw_only=True):
    """`created` is false for a job that was there already."""

    job_id: str
    name: str
    created: bool
    correlation_id: str


class CancelOfJob(msgspec.Struct, frozen=True, kw_only=True):
    """`canceled` are the jobs that were told to end by this request: it and those below it."""

    job_id: str
    canceled: tuple[str, ...]


class TaskReason(msgspec.Struct, frozen=True):
    task_index: int
    reason: str
    detail: str


class NodeFit(msgspec.Struct, frozen=True):
    """`why` is "" where a task of the job would fit now."""

    node_id: str
    node: str
    fits: bool
    why: str


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """What each waiting task waits for, and what every node says to one."""

    job_id: str
    state: str
    reason: str
    tasks: tuple[TaskReason, ...]
    nodes: tuple[NodeFit, ...]
