"""What ends bytes that go over a relay on behalf of a step, whatever the two ends do."""

import asyncio
from typing import NoReturn

from hostler.agent.steps.contract import StepContext
from hostler.base.errors import error


async def over(context: StepContext, what: str) -> NoReturn:
    """Ends only by raising: `timeout` at the step's deadline, `canceled`."""
    try:
        async with asyncio.timeout(context.deadline.remaining()):
            await context.cancelled.wait()
    except TimeoutError as err:
        raise error("timeout", f"the {what} has lasted as long as one may") from err
    raise error("canceled", f"the {what} was cancelled")
