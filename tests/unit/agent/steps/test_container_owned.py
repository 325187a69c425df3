"""OP-17: what is waited for beside a task is its own; who gives up waiting takes nothing of it along."""

import asyncio

from hostler.agent.steps.container_task import outcome_of
from hostler.agent.steps.container_watch import owned


async def test_OP_17_a_wait_that_is_given_up_leaves_the_outcome_to_others() -> None:
    """Else a registry that answers in the moment of a cancel would end the task as a fault of ours."""
    answered = asyncio.Event()

    async def asking() -> str:
        await answered.wait()
        return "allowed"

    async with owned(asking()) as outcome:
        waiting = asyncio.ensure_future(outcome_of(outcome))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        answered.set()
        assert await outcome_of(outcome) == "allowed"
