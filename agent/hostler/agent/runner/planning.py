"""The plan of a whole task. Its digest is what gets approved, and what must still hold (`plan_drift`)."""

from typing import NamedTuple

import msgspec

from hostler.agent.runner.prepare import Outputs, Prepared, prepare, waits_for
from hostler.agent.runner.work import Parts, Work
from hostler.agent.steps.contract import Change, Plan
from hostler.base.digest import digest_of


class PlannedStep(NamedTuple):
    """`prepared` is None for a step that has to wait for another's outputs, or stands already."""

    plan: Plan
    prepared: Prepared | None


async def plan_step(prepared: Prepared) -> Plan:
    return await prepared.kind.plan(prepared.view)


async def plan_task(parts: Parts, work: Work, outputs: Outputs) -> list[PlannedStep]:
    """Every step in order; touches nothing.

    A step that binds the output of one that has not run is `deferred`: what it would do is not known yet.
    """
    planned = []
    for index, step in enumerate(work.spec.steps):
        if step.step_id in outputs:
            planned.append(PlannedStep(Plan((Change(action="reuse", target=step.step_id),)), None))
            continue
        awaited = waits_for(step, outputs)
        if awaited:
            later = Change(action="deferred", target=step.kind, detail=f"needs the outputs of step {awaited}")
            planned.append(PlannedStep(Plan((later,)), None))
            continue
        prepared = prepare(parts, work, index, outputs)
        planned.append(PlannedStep(await plan_step(prepared), prepared))
    return planned


def task_plan_digest(work: Work, planned: list[PlannedStep]) -> str:
    steps = zip(work.spec.steps, planned, strict=True)
    return digest_of([[step.step_id, step.kind, msgspec.to_builtins(one.plan)] for step, one in steps])
