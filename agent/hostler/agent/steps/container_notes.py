"""What a `container.run` step must know after a restart: its checkpoint, typed.

Written before anything is started. How far its output was told is kept apart, with the lines themselves; how it ended
is the step's own end: until that is on disk, the container stands, and whoever takes it up learns the same of it.
"""

from typing import Any

import msgspec

from hostler.agent.containers.runtime import Status
from hostler.agent.steps.contract import StepContext, StepView


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    attempt: whose notes these are; a retry does not go on from another attempt's.
    runtime: from then on something may run there; what is only made is found by its labels.
    image: what the registry has said that this task may run.
    main, status: of the main container, once it has ended and all it said was told. Earlier agents noted them.
    pull: how far an image has come that the agent fetches itself; of no use once `image` is noted.
    heard: monotonic second at which the control plane was last known to be there; for hard fences (EF-05).
    """

    attempt: str = ""
    runtime: str = ""
    image: str = ""
    main: str = ""
    status: dict[str, Any] = {}
    ports: dict[str, int] = {}
    pull: dict[str, Any] = {}
    heard: float = 0.0

    @property
    def ended(self) -> Status | None:
        return msgspec.convert(self.status, Status) if self.status else None


def noted(view: StepView) -> Noted:
    """None of another attempt's; none at all where they cannot be read."""
    try:
        found = msgspec.convert(view.checkpoint, Noted)
    except msgspec.ValidationError:
        return Noted()
    return found if found.attempt == view.attempt_uid else Noted()


class Notes:
    """The notes of one run of `apply`, and where they are kept."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        before = noted(context)
        self.now = before if before.attempt else Noted(attempt=context.attempt_uid)

    async def keep(self, **changes: Any) -> None:
        """On disk when it returns."""
        self.now = msgspec.structs.replace(self.now, **changes)
        await self._context.save_checkpoint(msgspec.to_builtins(self.now))
