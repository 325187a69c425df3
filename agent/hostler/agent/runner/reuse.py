"""Earlier results that still stand, on a retry (RT-03, RT-04)."""

import msgspec

from hostler.agent.journal.rows import StepEnd
from hostler.agent.runner.patience import durably
from hostler.agent.runner.prepare import Outputs, bound, params_digest, resolved_for, waits_for
from hostler.agent.runner.reports import step_report
from hostler.agent.runner.work import Parts, Work, allocation_of, key_of
from hostler.base.errors import HostlerError
from hostler.wire.report import StepStatus, TaskReport
from hostler.wire.task import ReusedStep, StepSpec


def confirmed(parts: Parts, work: Work, outputs: Outputs) -> Outputs:
    """The claims that this node's own journal bears out, with their outputs; the other steps are run.

    Without this, the dispatch key alone could have a signed step left out, or lie about its result (SE-08).
    """
    known: Outputs = dict(outputs)
    found: Outputs = {}
    claims = {claim.step_id: claim for claim in work.spec.reused}
    for step in work.spec.steps:
        claim = claims.get(step.step_id)
        if claim is None or not step.reusable or waits_for(step, known):
            continue
        mine = parts.journal.reusable(work.spec.task_id, step.step_id, claim.receipt_digest)
        if mine is None or mine.outputs_json != claim.outputs_json:
            continue
        if mine.params_digest == _fresh_digest(parts, work, step, known):
            found[step.step_id] = msgspec.json.decode(mine.outputs_json)
            known[step.step_id] = found[step.step_id]
    return found


def _fresh_digest(parts: Parts, work: Work, step: StepSpec, known: Outputs) -> str:
    """ "" where an abstract kind resolves to nothing any more: then the step has to say so itself."""
    filled = bound(work, step, known)
    try:
        return params_digest(step.kind, filled, resolved_for(parts, step.kind))
    except HostlerError:
        return ""


async def report_reused(parts: Parts, work: Work, index: int, final: TaskReport | None) -> None:
    """Its receipt is the old one; the chain does not grow."""
    step = work.spec.steps[index]
    claim = _claim(work, step.step_id)
    now = parts.clock.now_ms()
    report = step_report(
        work,
        index,
        StepStatus.REUSED,
        started_at_ms=now,
        finished_at_ms=now,
        outputs_json=claim.outputs_json,
        receipt_digest=claim.receipt_digest,
    )
    end = StepEnd(task=key_of(work.spec), params_digest="", report=report, final=final, allocation=allocation_of(work))
    await durably(lambda: parts.journal.finish_step(end, None))


def _claim(work: Work, step_id: str) -> ReusedStep:
    return next(claim for claim in work.spec.reused if claim.step_id == step_id)
