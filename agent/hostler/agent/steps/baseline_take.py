"""`baseline.take`: what stands on the host before the tenant comes; the receipt names its digest (PF-11)."""

from typing import Any

from hostler.agent.host.holdings import BASELINE
from hostler.agent.residue.inventory import deadline_in, take
from hostler.agent.residue.model import decode, encode
from hostler.agent.steps.allocation import check_allocation, outputs
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.digest import sha256_hex
from hostler.base.errors import error
from hostler.catalog.params.allocation import BaselineTake


class BaselineTakeKind:
    name = "baseline.take"

    async def plan(self, view: StepView) -> Plan:
        params: BaselineTake = view.params
        left_out = f"; without {', '.join(params.ignore)}" if params.ignore else ""
        target = f"allocation {check_allocation(view)}"
        return Plan((Change(action="record", target=target, detail=f"what stands on the host{left_out}"),))

    async def apply(self, context: StepContext) -> Outcome:
        params: BaselineTake = context.params
        allocation = check_allocation(context)
        deadline = deadline_in(context.host, params.within_seconds, context.deadline)
        stop = context.cancelled.is_set
        found = await take(context.host, params.ignore, params.max_entries, deadline, stop)
        if stop():
            raise error("canceled", "the baseline was not taken")
        for family, said in sorted(found.coverage.items()):
            context.log("agent", f"{family}: {said}")
        if found.gaps:
            family, said = next(iter(sorted(found.gaps.items())))
            raise error("residue_incomplete", f"there would be no whole baseline: {family} is {said}")
        data = encode(found)
        context.host.holdings.write(allocation, BASELINE, data)
        await context.save_checkpoint({"baseline_digest": sha256_hex(data)})
        return Outcome(outputs=_said(context, data))

    async def probe(self, view: StepView) -> Probe:
        """Only the very document of this step counts; any other is taken anew, which is harmless."""
        data = view.host.holdings.read(check_allocation(view), BASELINE)
        if data is None or view.checkpoint.get("baseline_digest") != sha256_hex(data):
            return Probe(truth=Truth.NOT_DONE)
        return Probe(truth=Truth.DONE, outcome=Outcome(outputs=_said(view, data)))


KIND = BaselineTakeKind()


def _said(view: StepView, data: bytes) -> dict[str, Any]:
    found = decode(data)
    return outputs(view, baseline_digest=sha256_hex(data), items=len(found.items), coverage=found.coverage)
