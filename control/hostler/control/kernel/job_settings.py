"""What the operator decided about jobs; a part of `model.Settings`."""

import msgspec


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    ref, private_ref: the definitions that a job is compiled to.
    lost_grace_ms: how long a node may be silent before a relocatable task is placed anew (EF-06).
    fence_margin_ms: added to a hard fence's own time, for what stopping takes.
    reserve_after_ms: how long the first in line may be overtaken before what gets free is kept for it.
    max_back_off_ms: the longest wait before a task is tried again after its node could not run it.
    member_priority: the highest band that a project_member may ask for, and a task for its children.
    """

    ref: str = "job.container.run@v1"
    private_ref: str = "job.container.private@v1"
    lost_grace_ms: int = 60_000
    fence_margin_ms: int = 30_000
    reserve_after_ms: int = 600_000
    max_back_off_ms: int = 60_000
    member_priority: str = "high"

    def is_job(self, operation_type: str) -> bool:
        """Whether operations of the type may be jobs; one that is has a row."""
        return operation_type in (self.ref.rpartition("@")[0], self.private_ref.rpartition("@")[0])
