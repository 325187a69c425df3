"""Parameters of what is done to a running task.

`task.exec` and `task.profile` (API-26), `task.forward` (TE-22), `task.probe` (SK-23).
"""

from typing import Annotated, Literal

import msgspec

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=128, pattern=r"^[!-~]+$(?!\n)")]
TaskId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$(?!\n)")]
Extent = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class TaskExec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Runs a program inside the container of a task that runs here, for whoever attaches to the relay.

    Attributes:
        task_id, attempt_uid: whose container; one of another project is not found.
        relay_id: where its input comes from and its output goes; good for one session.
        command: argv inside the container; never a host command.
        tty: it gets a terminal of `rows` and `columns`.
    """

    task_id: Id
    attempt_uid: Id
    relay_id: Id
    command: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=8192)], ...], msgspec.Meta(min_length=1, max_length=256)
    ]
    tty: bool = False
    rows: Extent = 24
    columns: Extent = 80


class TaskForward(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Carries one connection to a port of a task that runs here, for whoever attaches to the relay.

    Attributes:
        task_id, attempt_uid: whose port; one of another project is not found.
        relay_id: where its bytes come from and go to; good for one connection.
        port: one that this attempt was given; nothing else of the node or its network can be named.
    """

    task_id: Id
    attempt_uid: Id
    relay_id: Id
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]


class TaskProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Watches the processes of a task that runs here, and says what they did.

    Attributes:
        task_id, attempt_uid: whose container; one of another project is not found.
        kind: `cpu` (which threads used the processor), `threads` (what each waits in), `memory` (who holds how much).
        seconds: how long.
    """

    task_id: Id
    attempt_uid: Id
    kind: Literal["cpu", "threads", "memory"] = "cpu"
    seconds: Annotated[int, msgspec.Meta(ge=1, le=300)] = 10


class TaskProbe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Says what is true of one attempt of one task on this node: by its journal, and by its container runtime.

    Attributes:
        attempt_uid: the attempt that is meant; another one of the same task is not.
        within_seconds: how long the container runtime may take to answer; past it, it is `unknown`.
    """

    task_id: TaskId
    attempt_uid: TaskId
    within_seconds: Annotated[float, msgspec.Meta(ge=0.1, le=60)] = 10
