"""`storage.release`: what the allocation was given is unmounted and removed, with its credentials (PF-09)."""

import asyncio

from hostler.agent.steps.allocation import check_allocation, outputs, people, plain_home
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.errors import error
from hostler.catalog.params.allocation import StorageRelease


class StorageReleaseKind:
    name = "storage.release"

    async def plan(self, view: StepView) -> Plan:
        check_allocation(view)
        paths = await asyncio.to_thread(_paths, view)
        return Plan(tuple(Change(action="remove", target=path, detail="unmounted first") for path in paths))

    async def apply(self, context: StepContext) -> Outcome:
        check_allocation(context)
        outcome, lines = await asyncio.to_thread(_apply, context)
        for line in lines:
            context.log("agent", line)
        return outcome

    async def probe(self, view: StepView) -> Probe:
        paths = await asyncio.to_thread(_paths, view)
        if any(view.host.files.stat(path) is not None for path in paths):
            return Probe(truth=Truth.NOT_DONE)
        return Probe(truth=Truth.DONE, outcome=Outcome(outputs=outputs(view, removed=paths)))


KIND = StorageReleaseKind()


def _paths(view: StepView) -> list[str]:
    """Only what this node made for the allocation, and homes where a home belongs."""
    params: StorageRelease = view.params
    given = list(view.host.holdings.grants(params.allocation_id).storage)
    homes = [h for name, h in sorted(people(view).homes.items()) if plain_home(h, name)] if params.homes else []
    return given + homes


def _apply(context: StepContext) -> tuple[Outcome, list[str]]:
    """The outcome, and what to say of it."""
    host, found, lines = context.host, people(context), list[str]()
    paths = _paths(context)
    for path in paths:
        for mount in host.tenant_trees.mounts_below(path):
            if context.deadline.passed() or context.cancelled.is_set():
                raise error("canceled", f"{mount} was not unmounted")
            host.tenant_trees.unmount(mount)
            lines.append(f"unmounted {mount}")
    for path in paths:
        host.tenant_trees.remove(path)
    for path in reversed(host.holdings.grants(context.params.allocation_id).parents):
        host.tenant_trees.remove_empty(path)
    gone = host.tenant_trees.remove_owned(found.uids.__contains__, found.names)
    lines += [f"removed {path}" for path in gone[:100]]
    return Outcome(outputs=outputs(context, removed=paths)), lines
