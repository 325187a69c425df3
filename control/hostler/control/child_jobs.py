"""What a running task asks about jobs: children of its own job, in the name of whoever asked for it (TE-08, BK-05).

The kernel checks that the attempt runs on the node whose certificate came with the call; nothing the task says of
project, user or parent counts.
"""

import secrets
from typing import Protocol

from hostler.catalog.job import JobSpec
from hostler.control.engine import Engine
from hostler.control.kernel.actor import Actor
from hostler.control.kernel.job_commands import CancelChildJob, JobSubmitted, SubmitChildJob
from hostler.control.kernel.submit import OWN_KEYS


class Caller(Protocol):
    """A task that runs, by its node's certificate and its own ids."""

    @property
    def node_id(self) -> str: ...

    @property
    def task_id(self) -> str: ...

    @property
    def attempt_uid(self) -> str: ...

    @property
    def requested_by_user_id(self) -> str: ...


async def submit_child(engine: Engine, caller: Caller, spec: JobSpec, key: str = "") -> JobSubmitted:
    """The same key of the same attempt gives the same child; a child without an image runs in its parent's.

    Raises:
        HostlerError: `not_found` for an attempt that does not run there, and whatever a submit is refused with.
    """
    made: JobSubmitted = await engine.execute(
        SubmitChildJob(
            actor=_actor(caller),
            node_id=caller.node_id,
            task_id=caller.task_id,
            attempt_uid=caller.attempt_uid,
            spec=spec,
            idempotency_key=f"{OWN_KEYS}child/{caller.attempt_uid}/{key or secrets.token_hex(16)}",
            correlation_id="",
        )
    )
    return made


async def cancel_child(engine: Engine, caller: Caller, job: str) -> list[str]:
    """Ends the caller's own job or one below it, by id or path. → ids of the jobs that were told to end."""
    told: list[str] = await engine.execute(
        CancelChildJob(
            actor=_actor(caller),
            node_id=caller.node_id,
            task_id=caller.task_id,
            attempt_uid=caller.attempt_uid,
            job=job,
        )
    )
    return told


def _actor(caller: Caller) -> Actor:
    """`task` says how, the name who."""
    return Actor(kind="task", name=caller.requested_by_user_id)
