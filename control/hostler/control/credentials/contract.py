"""What a minter is: one small plug-in that issues one kind of credential."""

from typing import Protocol

import msgspec

from hostler.catalog.credentials import Intent, Material


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request that the kernel has let through.

    Attributes:
        deadline_ms: Unix milliseconds; what is issued should be good for no longer.
        now_ms: when it was let through.
    """

    credential_type: str
    intent: Intent
    org_id: str
    project_id: str
    node_id: str
    task_id: str
    now_ms: int
    deadline_ms: int

    @property
    def seconds(self) -> int:
        """How long it should be good for."""
        return max(1, (self.deadline_ms - self.now_ms) // 1000)


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    expires_at_ms: when the issuer itself ends it; 0 where it never does.
    one_time: using it once uses it up (CR-06).
    """

    material: Material
    expires_at_ms: int
    one_time: bool = False

    def __repr__(self) -> str:
        return "[secret]"


class Minter(Protocol):
    """Raises `minter_failed`; its messages name no part of a secret."""

    name: str

    async def mint(self, ask: Ask) -> Made: ...
