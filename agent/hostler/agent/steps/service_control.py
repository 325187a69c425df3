"""`service.control`: start, stop, restart, enable or disable one allowlisted unit, and wait until it is so (SK-08).

The job's end is systemd's word, the unit's state is the truth: a service whose job is done and which has failed
a moment later has failed. A restart that was cut off is told by the unit's invocation id, which is another after it.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from hostler.agent.host.execute import Command
from hostler.agent.host.systemd import UnitState
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.clock import Deadline
from hostler.base.errors import HostlerError, error
from hostler.catalog.params.service import Control

STEADY_S = 0.5  # a started unit must be seen running twice, this far apart
LOOK_S = 0.1
LOG_LINES = 10
BEFORE = "invocation"  # in the checkpoint: which run it was before


class ControlKind:
    name = "service.control"

    async def plan(self, view: StepView) -> Plan:
        params: Control = view.params
        state = await _look(view)
        action = "keep" if _stands(params, state) else params.action
        return Plan((Change(action=action, target=params.unit, detail=f"now {_shown(state)}"),))

    async def apply(self, context: StepContext) -> Outcome:
        if context.cancelled.is_set():
            raise error("canceled", f"{context.params.unit} was left as it is")
        try:
            async with asyncio.timeout(max(0.0, context.deadline.remaining())):
                return await _unless_cancelled(context, _apply(context))
        except TimeoutError:
            raise error(
                "timeout", f"{context.params.unit} did not come to an end with {context.params.action}"
            ) from None

    async def probe(self, view: StepView) -> Probe:
        params: Control = view.params
        state = await _look(view)
        restarted = BEFORE in view.checkpoint and state.invocation != view.checkpoint[BEFORE] and _runs(state)
        if not (restarted if params.action == "restart" else _stands(params, state)):
            return Probe(truth=Truth.NOT_DONE)
        return Probe(truth=Truth.DONE, outcome=_outcome(params, None, state, changed=True))


KIND = ControlKind()


async def _unless_cancelled(context: StepContext, work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """A job that was given is systemd's; a cancel only stops us from waiting for it."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_kept(work))
        stop = group.create_task(context.cancelled.wait())
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        ended = task.done()
        task.cancel()
    if not ended:
        raise error("canceled", f"{context.params.action} of {context.params.unit} was given and not waited for")
    outcome = task.result()
    if isinstance(outcome, HostlerError):
        raise outcome
    return outcome


async def _kept(work: Coroutine[Any, Any, Outcome]) -> Outcome | HostlerError:
    """A refusal as a value: a group would wrap it."""
    try:
        return await work
    except HostlerError as err:
        return err


async def _apply(context: StepContext) -> Outcome:
    params: Control = context.params
    before = await _look(context)
    if before.load not in ("loaded", "masked"):
        raise error("not_found", f"this node has no unit {params.unit} ({before.load})")
    if _stands(params, before):
        return _outcome(params, before, before, changed=False)
    if params.action in ("enable", "disable"):
        await context.host.systemd.enable(params.unit, wanted=params.action == "enable")
        after = await _look(context)
        if not _stands(params, after):
            raise error("service_failed", f"{params.unit} is {after.enabled or 'without a file'} after {params.action}")
        return _outcome(params, before, after, changed=True)
    if params.action == "restart":
        await context.save_checkpoint({BEFORE: before.invocation})
    result = await context.host.systemd.run_job(params.unit, params.action)
    after = await _settled(context)
    if result != "done" or not _reached(params, after):
        await _tell(context)
        raise error("service_failed", f"{params.unit} is {_shown(after)} after {params.action}, whose job was {result}")
    return _outcome(params, before, after, changed=True)


async def _settled(context: StepContext) -> UnitState:
    """The unit's state once it does not change by itself any more."""
    steady = 0.0
    while True:
        state = await _look(context)
        if state.active in ("failed", "inactive") or steady >= STEADY_S:
            return state
        steady = steady + LOOK_S if state.active == "active" else 0.0
        await asyncio.sleep(LOOK_S)


async def _look(view: StepView) -> UnitState:
    return await view.host.systemd.unit_state(view.params.unit)


def _stands(params: Control, state: UnitState) -> bool:
    """Whether nothing needs to be done."""
    match params.action:
        case "start":
            return _runs(state)
        case "stop":
            return state.load == "loaded" and state.active in ("inactive", "failed")
        case "enable":
            return state.enabled == "enabled"
        case "disable":
            return state.enabled == "disabled"
        case _:
            return False


def _reached(params: Control, state: UnitState) -> bool:
    if params.action == "stop":
        return state.active in ("inactive", "failed")
    return _runs(state) or (state.oneshot and state.active == "inactive" and state.result == "success")


def _runs(state: UnitState) -> bool:
    return state.active in ("active", "reloading")


def _shown(state: UnitState) -> str:
    facts = [state.active, state.sub]
    facts += [state.result] if state.result not in ("", "success") else []
    facts += [f"exit status {state.exit_status}"] if state.exit_status else []
    facts += [state.said] if state.said else []
    return ", ".join(facts)


async def _tell(context: StepContext) -> None:
    """The last lines of the unit's log, where there is one, for whoever has to mend it."""
    root = str(context.host.root)
    where = () if root == "/" else (f"--root={root}",)
    argv = (
        "/usr/bin/journalctl",
        *where,
        "--no-pager",
        "-q",
        "-o",
        "cat",
        "-n",
        str(LOG_LINES),
        "-u",
        context.params.unit,
    )
    command = Command(argv=argv, run_as="root" if context.host.is_root else "", capture_stdout=True)
    deadline = Deadline.after(min(10.0, max(0.0, context.deadline.remaining())), context.host.clock)
    with contextlib.suppress(HostlerError):
        await context.host.execute.run(command, deadline=deadline, on_line=context.log)


def _outcome(params: Control, before: UnitState | None, after: UnitState, *, changed: bool) -> Outcome:
    outputs = {
        "unit": params.unit,
        "before": _state(before) if before else {},
        "after": _state(after),
    }
    return Outcome(outputs=outputs, changed=changed)


def _state(state: UnitState) -> dict[str, str]:
    return {"active": state.active, "sub": state.sub, "enabled": state.enabled}
