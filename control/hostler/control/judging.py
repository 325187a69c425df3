"""Who else is asked before a command is decided: an engine outside the house, which can only refuse more (AZ-11).

    command ─▶ kernel: what is the question? ─▶ outside: its answer ─▶ command with the answer ─▶ kernel: the decision

The kernel never asks: the answer travels in the command, so that the same commands make the same store again.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.control.kernel.asking import AskedAbout, WhatToAsk, is_asked_about
from hostler.control.kernel.permitted import Answer, Question

Submit = Callable[[Any], Awaitable[Any]]
TRIES = 3  # a policy that is written while the engine thinks makes another question


class Outside(Protocol):
    """`query` is what it is asked, for people."""

    @property
    def query(self) -> str: ...

    async def ask(self, question: Question) -> Answer:
        """Never raises: no answer is a refusal."""
        ...


async def judged(outside: Outside, command: Any, submit: Submit) -> Any:
    """Runs the command with the answer to the question it raises; what raises none runs as it is."""
    if not is_asked_about(command):
        return await submit(command)
    for _ in range(TRIES):
        question = await _question(command, submit)
        answer = None if question is None else await outside.ask(question)
        try:
            return await submit(msgspec.structs.replace(command, answer=answer))
        except HostlerError as err:
            if err.code != "policy_changed":
                raise
    raise error("policy_changed", "the policy changes faster than the policy engine answers", hint="try again")


async def _question(command: AskedAbout, submit: Submit) -> Question | None:
    """None also where the request is refused anyhow: the command itself says why, and the audit has it."""
    try:
        question: Question | None = await submit(WhatToAsk(command))
    except HostlerError:
        return None
    return question
