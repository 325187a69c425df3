"""`credential.mint`: one short-lived credential for later steps of the task (SK-04; 004 §4.3.4, §4.5).

The step sees a secret that is in locked memory already; its output is the handle. What it made ends with the agent's
process: after a restart the runner has it made again for the steps that still need it.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

from hostler.agent.steps.contract import Change, MintedSecret, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.errors import HostlerError, error
from hostler.catalog.credentials import intent_of
from hostler.catalog.params.credential import Mint
from hostler.catalog.policy import allows_source

# What may pass by itself. Everything else is an answer.
PASSING = frozenset({"controller_unreachable", "minter_failed", "store_unavailable", "rate_limited"})
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0


class CredentialMintKind:
    name = "credential.mint"

    async def plan(self, view: StepView) -> Plan:
        """What is asked for, and for whom; nothing is asked yet."""
        params = _checked(view)
        opened = ", ".join(f"{name} {value}" for name, value in sorted(params.intent.items()))
        what = f"{params.part} of it" if params.part else "all of it"
        detail = f"to open {opened}; {what} for {', '.join(params.for_steps)}"
        return Plan((Change(action="mint", target=params.credential_type, detail=detail),))

    async def apply(self, context: StepContext) -> Outcome:
        params = _checked(context)
        minted = await _minted(context, params)
        now_ms = context.host.clock.now_ms()
        handle = context.secrets.put(
            minted.secret,
            steps=frozenset(params.for_steps),
            lifetime_s=(minted.expires_at_ms - now_ms) / 1000,
            one_time=minted.one_time,
        )
        return Outcome(outputs={"handle": handle})

    async def probe(self, view: StepView) -> Probe:
        """Nothing is left of what an agent held that has ended; what was issued meanwhile expires unused."""
        return Probe(truth=Truth.NOT_DONE, note="a credential ends with the agent that asked for it")


KIND = CredentialMintKind()


def _checked(view: StepView) -> Mint:
    """Raises `unknown_credential_type`, `binding_error`, `source_denied`: also when the control plane would not."""
    params: Mint = view.params
    intent_of(params.credential_type, params.intent, code="binding_error")
    if view.step_id in params.for_steps:
        raise error("binding_error", f"step {view.step_id} mints for itself")
    if params.source and not allows_source(view.policy, view.allowed_sources, params.source):
        raise error("source_denied", f"{params.source} is outside what policy and definition allow")
    return params


async def _minted(context: StepContext, params: Mint) -> MintedSecret:
    """Asks again, with a new request, for as long as the step has time and what is wrong may pass."""
    pause = FIRST_PAUSE_S
    while True:
        try:
            asking = context.mint(params.credential_type, params.intent, params.part)
            minted: MintedSecret = await _unless_cancelled(context, asking)
        except HostlerError as err:
            if err.code not in PASSING:
                raise
            context.log("agent", f"no credential yet: {err.message}")
            if context.deadline.remaining() <= pause:
                raise
        else:
            return minted
        await _unless_cancelled(context, asyncio.sleep(pause))
        pause = min(2 * pause, LONGEST_PAUSE_S)


async def _unless_cancelled(context: StepContext, doing: Awaitable[Any]) -> Any:
    """Raises `canceled` or `timeout`; what was under way is given up."""
    try:
        async with asyncio.timeout(max(0.0, context.deadline.remaining())), asyncio.TaskGroup() as group:
            watching = group.create_task(_cancelled(context))
            made = await doing
            watching.cancel()
    except TimeoutError as err:
        raise error("timeout", f"step {context.step_id} got no credential in time") from err
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return made


async def _cancelled(context: StepContext) -> None:
    await context.cancelled.wait()
    raise error("canceled", f"step {context.step_id} was cancelled")
