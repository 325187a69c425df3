"""`SecretTable`: the secrets of one attempt of one task, by handle.

A handle (`secret:` and chance) is no secret: it means something in this table only, for the steps it was made
for, until it expires, is used up or its last step has ended. It may stand in outputs, journal and receipts.
After a restart every handle is unknown: the step that made it has to make another.
"""

import asyncio
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from hostler.base.clock import Clock, Deadline
from hostler.base.errors import error

if TYPE_CHECKING:  # an idle agent carries no ctypes for secrets that it does not have
    from hostler.agent.secrets.secret import Secret

PREFIX = "secret:"
CONSUMED, WIPED = "consumed", "wiped"


class Ending(msgspec.Struct, frozen=True):
    """What became of a secret, for the receipt: `consumed` by the one use it was for, or `wiped` (CR-06)."""

    handle: str
    end: str


@dataclass
class _Held:
    secret: "Secret"
    steps: frozenset[str]  # ids of the steps that may still use it
    deadline: Deadline
    one_time: bool
    taken_by: str = ""
    expiry: asyncio.TimerHandle | None = None

    def wipe(self) -> None:
        if self.expiry is not None:
            self.expiry.cancel()
        self.secret.close()


class SecretTable:
    """Made for one attempt of a task; `close` wipes what is left, whatever the end."""

    def __init__(self, task_deadline: Deadline, clock: Clock) -> None:
        self._deadline, self._clock = task_deadline, clock
        self._held: dict[str, _Held] = {}
        self._ended: list[Ending] = []
        self._closed = False

    def put(
        self,
        secret: "Secret",
        *,
        steps: frozenset[str],
        lifetime_s: float,
        one_time: bool = False,
        again: str = "",
    ) -> str:
        """Takes the secret over and gives its handle.

        Args:
            steps: ids of the steps of this task that may use it.
            lifetime_s: seconds; never beyond the task's own deadline.
            one_time: one step may use it, and that uses it up.
            again: the handle of before, for a secret that a restart has lost.

        Raises:
            HostlerError: `unknown_handle` when the task has already ended; the secret is wiped then.
        """
        seconds = min(lifetime_s, self._deadline.remaining())
        if self._closed or seconds <= 0 or not steps or again in self._held:
            secret.close()
            raise error("unknown_handle", "no step is left that could use the secret")
        handle = again or PREFIX + secrets.token_hex(16)
        held = _Held(secret, steps, Deadline.after(seconds, self._clock), one_time)
        held.expiry = asyncio.get_running_loop().call_later(seconds, self._end, handle, WIPED)
        self._held[handle] = held
        return handle

    def use(self, handle: str, step_id: str) -> "Secret":
        """Raises `unknown_handle`, one sentence for every reason: of another task or step, used up, expired."""
        held = self._held.get(handle)
        if held is not None and held.deadline.passed():
            self._end(handle, WIPED)
            held = None
        if held is None or step_id not in held.steps or held.taken_by not in ("", step_id):
            raise error("unknown_handle", f"step {step_id} names a secret that it may not use or that is gone")
        if held.one_time:
            held.taken_by = step_id
        return held.secret

    def step_ended(self, step_id: str, *, succeeded: bool, last: bool) -> tuple[Ending, ...]:
        """Wipes what nobody may use any more, and everything after a failure or the task's last step.

        Returns:
            What ended since the last call, for the step's receipt.
        """
        for handle, held in tuple(self._held.items()):
            held.steps -= {step_id}
            used_up = held.one_time and held.taken_by == step_id
            if used_up and succeeded:
                self._end(handle, CONSUMED)
            elif used_up or last or not succeeded or not held.steps:
                self._end(handle, WIPED)
        ended, self._ended = tuple(self._ended), []
        return ended

    def scrub(self, text: str) -> str:
        """`text` without any secret that is held here."""
        for held in self._held.values():
            text = held.secret.scrub(text)
        return text

    def close(self) -> None:
        """Wipes everything; nothing can be put in any more."""
        self._closed = True
        for handle in tuple(self._held):
            self._end(handle, WIPED)

    def _end(self, handle: str, end: str) -> None:
        self._held.pop(handle).wipe()
        self._ended.append(Ending(handle, end))


@dataclass(frozen=True)
class StepSecrets:
    """The table as one step sees it.

    Attributes:
        again: the handle that what it puts in shall have, when a restart has lost the secret behind it.
        ended: ids of steps that have ended before that restart.
    """

    table: SecretTable
    step_id: str
    again: str = ""
    ended: frozenset[str] = frozenset()

    def put(self, secret: "Secret", *, steps: frozenset[str], lifetime_s: float, one_time: bool = False) -> str:
        left = steps - self.ended
        return self.table.put(secret, steps=left, lifetime_s=lifetime_s, one_time=one_time, again=self.again)

    def use(self, handle: str) -> "Secret":
        return self.table.use(handle, self.step_id)

    def scrub(self, text: str) -> str:
        return self.table.scrub(text)
