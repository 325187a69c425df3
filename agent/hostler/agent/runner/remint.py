"""Credentials that went with the process before this one: made again for the steps that still need them (CR-05).

A handle that stands in the journal keeps its name, so whatever binds it still fits; behind it stands a new secret.
"""

from collections.abc import Awaitable, Callable

from hostler.agent.runner.prepare import Outputs, Prepared, prepare
from hostler.agent.runner.work import Parts, Work
from hostler.agent.secrets.table import StepSecrets
from hostler.agent.steps.contract import Outcome

KIND = "credential.mint"
Apply = Callable[[Prepared, StepSecrets], Awaitable[Outcome]]


class Lost:
    """What a restart has lost of one task; nothing for a task that runs from its start."""

    def __init__(self, parts: Parts, work: Work, outputs: Outputs | None = None) -> None:
        """`outputs` are those of the steps that ended before the restart."""
        self._parts, self._work = parts, work
        self._handles: dict[int, str] = {}
        outputs = outputs or {}
        self._ended = frozenset(outputs)
        for index, step in enumerate(work.spec.steps):
            if step.kind == KIND and step.step_id in outputs:
                self._handles[index] = str(outputs[step.step_id].get("handle", ""))

    async def restore(self, step_id: str, secrets: StepSecrets, apply: Apply) -> int:
        """Makes again what was made for `step_id`; how many that were.

        Raises:
            HostlerError: whatever the mint raises; the step cannot run without it.
        """
        made = 0
        for index, handle in tuple(self._handles.items()):
            prepared = prepare(self._parts, self._work, index, {})
            if step_id not in prepared.view.params.for_steps:
                continue
            again = StepSecrets(secrets.table, prepared.spec.step_id, again=handle, ended=self._ended)
            await apply(prepared, again)
            del self._handles[index]
            made += 1
        return made
