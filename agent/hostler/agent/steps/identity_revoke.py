"""`identity.revoke`: the allocation's users are gone, with all that lets them in or runs for them (PF-10)."""

import asyncio

from hostler.agent.host.host import Host
from hostler.agent.steps.allocation import (
    People,
    check_allocation,
    check_links,
    check_unaltered,
    outputs,
    people,
    plain_home,
)
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.errors import error
from hostler.catalog.params.allocation import IdentityRevoke


class IdentityRevokeKind:
    name = "identity.revoke"

    async def plan(self, view: StepView) -> Plan:
        check_allocation(view)
        found = await asyncio.to_thread(people, view)
        detail = "account, home, keys, privileges, cron and at jobs, mail, services without a session"
        return Plan(tuple(Change(action="remove", target=f"user {name}", detail=detail) for name in found.names))

    async def apply(self, context: StepContext) -> Outcome:
        params: IdentityRevoke = context.params
        check_allocation(context)
        check_links(context, params.after)
        return await asyncio.to_thread(_apply, context)

    async def probe(self, view: StepView) -> Probe:
        found = await asyncio.to_thread(people, view)
        if found.accounts or found.altered or any(_left(view.host, name) for name in found.names):
            return Probe(truth=Truth.NOT_DONE)
        return Probe(truth=Truth.DONE, outcome=_outcome(view, found))


KIND = IdentityRevokeKind()


def places(name: str) -> tuple[str, ...]:
    """What a user has under its own name outside its home."""
    return (
        f"/etc/sudoers.d/hostler-{name}",
        f"/var/lib/systemd/linger/{name}",
        f"/var/spool/cron/crontabs/{name}",
        f"/var/mail/{name}",
    )


def _left(host: Host, name: str) -> bool:
    return any(host.files.stat(path) is not None for path in places(name))


def _apply(context: StepContext) -> Outcome:
    """The account goes last: while it is there, its id is given to nobody else and a retry finds it."""
    found = people(context)
    check_unaltered(found)
    host = context.host
    for name in found.names:
        host.accounts.fence(name)
    left = host.eviction.end(found.uids, min(5.0, context.deadline.remaining()))
    if left:
        raise error("process_stuck", f"{left[0]} does not end, so its account is kept, locked")
    for name, home in found.homes.items():
        for path in places(name):
            host.tenant_trees.remove(path)
        if plain_home(home, name):
            host.tenant_trees.remove(home)
    host.tenant_trees.remove_journals(found.uids)
    host.tenant_trees.remove_owned(found.uids.__contains__, found.names)
    for account in found.accounts:
        host.accounts.remove(account.name)
    return _outcome(context, found)


def _outcome(view: StepView, found: People) -> Outcome:
    return Outcome(outputs=outputs(view, users=list(found.names)))
