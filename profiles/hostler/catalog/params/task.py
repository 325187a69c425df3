"""Parameters of what is done to a running task: `task.exec` and `task.profile` (API-26)."""

from typing import Annotated, Literal

import msgspec

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=128, pattern=r"^[!-~]+$(?!\n)")]
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
