"""Parameters of `task.probe`."""

from typing import Annotated

import msgspec

TaskId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$(?!\n)")]


class TaskProbe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Says what is true of one attempt of one task on this node: by its journal, and by its container runtime.

    Attributes:
        attempt_uid: the attempt that is meant; another one of the same task is not.
        within_seconds: how long the container runtime may take to answer; past it, it is `unknown`.
    """

    task_id: TaskId
    attempt_uid: TaskId
    within_seconds: Annotated[float, msgspec.Meta(ge=0.1, le=60)] = 10
