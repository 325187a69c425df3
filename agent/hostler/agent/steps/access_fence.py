"""`access.fence`: the allocation's users are out, within seconds, whatever hangs (OD-17)."""

import asyncio

from hostler.agent.host.eviction import Running
from hostler.agent.steps.allocation import (
    FENCED_KEYS,
    People,
    check_allocation,
    check_unaltered,
    outputs,
    people,
    plain_home,
)
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.catalog.params.allocation import AccessFence


class AccessFenceKind:
    name = "access.fence"

    async def plan(self, view: StepView) -> Plan:
        check_allocation(view)
        found = await asyncio.to_thread(people, view)
        detail = "lock, expire, put keys aside, end processes"
        return Plan(tuple(Change(action="fence", target=f"user {name}", detail=detail) for name in found.names))

    async def apply(self, context: StepContext) -> Outcome:
        check_allocation(context)
        found, stuck = await asyncio.to_thread(_apply, context)
        for process in stuck:
            context.log("agent", f"{process} does not end; its user is locked out all the same")
        check_unaltered(found)
        return _outcome(context, found, stuck)

    async def probe(self, view: StepView) -> Probe:
        """Accounts tell; processes that could have come back are ended by doing it again."""
        found = await asyncio.to_thread(people, view)
        shut = all(view.host.accounts.fenced(account.name) for account in found.accounts)
        running = await asyncio.to_thread(view.host.eviction.running, found.uids)
        if not shut or found.altered or running:
            return Probe(truth=Truth.NOT_DONE)
        return Probe(truth=Truth.DONE, outcome=_outcome(view, found, []))


KIND = AccessFenceKind()


def _apply(context: StepContext) -> tuple[People, list[Running]]:
    """The doors first, then who is inside: whoever is ended cannot come back."""
    params: AccessFence = context.params
    found = people(context)
    host = context.host
    made_here = {user.name for user in found.granted}
    for name in (*found.names, *found.altered):
        host.accounts.fence(name, made_here=name in made_here)
        host.tenant_trees.remove(f"/var/lib/systemd/linger/{name}")
    stuck = host.eviction.end(found.uids, min(params.within_seconds, context.deadline.remaining()))
    for account in found.accounts:
        if plain_home(account.home, account.name):  # after its owner can no longer move it
            host.tenant_trees.set_aside(f"{account.home}/.ssh", FENCED_KEYS)
    return found, stuck


def _outcome(view: StepView, found: People, stuck: list[Running]) -> Outcome:
    return Outcome(outputs=outputs(view, users=list(found.names), stuck=[str(process) for process in stuck[:50]]))
