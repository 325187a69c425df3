"""`workload.stop`: units, then every process of the allocation's users; one that stays fails the step (PF-09)."""

import asyncio

from hostler.agent.steps.allocation import check_allocation, outputs, people
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.errors import error
from hostler.catalog.params.allocation import WorkloadStop

# What keeps the node and its agent alive is no workload.
KEPT = ("systemd-", "dbus", "ssh", "hostler", "user@0.", "user-0.", "init.", "system.", "-.", "getty", "serial-getty")


class WorkloadStopKind:
    name = "workload.stop"

    async def plan(self, view: StepView) -> Plan:
        params: WorkloadStop = view.params
        check_allocation(view)
        for unit in params.units:
            check_unit(unit)
        found = await asyncio.to_thread(people, view)
        units = [Change(action="stop", target=f"unit {unit}") for unit in params.units]
        users = [Change(action="end", target=f"every process of {name}") for name in found.names]
        return Plan((*units, *users))

    async def apply(self, context: StepContext) -> Outcome:
        params: WorkloadStop = context.params
        check_allocation(context)
        for unit in params.units:
            check_unit(unit)
        for unit in params.units:
            await context.host.systemd.stop(unit)
            context.log("agent", f"unit {unit} is stopped")
        found = await asyncio.to_thread(people, context)
        within = min(params.within_seconds, context.deadline.remaining())
        left = await asyncio.to_thread(context.host.eviction.end, found.uids, within)
        if left:
            more = f", and {len(left) - 1} more" if len(left) > 1 else ""
            raise error("process_stuck", f"{left[0]} does not end{more}")
        return Outcome(outputs=outputs(context, units=list(params.units), users=list(found.names)))

    async def probe(self, view: StepView) -> Probe:
        """Units may have been stopped or not; stopping them again costs nothing."""
        params: WorkloadStop = view.params
        found = await asyncio.to_thread(people, view)
        running = await asyncio.to_thread(view.host.eviction.running, found.uids)
        if params.units or running:
            return Probe(truth=Truth.NOT_DONE)
        said = outputs(view, units=[], users=list(found.names))
        return Probe(truth=Truth.DONE, outcome=Outcome(outputs=said))


KIND = WorkloadStopKind()


def check_unit(unit: str) -> None:
    """Raises `user_protected` for a unit of the host's own."""
    if unit.startswith(KEPT):
        raise error("user_protected", f"unit {unit} is the node's own and no workload")
