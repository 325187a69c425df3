"""`storage.grant`: a private directory for a user of the allocation (OD-16)."""

import asyncio

import msgspec

from hostler.agent.steps.allocation import check_allocation, outputs
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.errors import error
from hostler.catalog.params.allocation import StorageGrant


class StorageGrantKind:
    name = "storage.grant"

    async def plan(self, view: StepView) -> Plan:
        params: StorageGrant = view.params
        check_allocation(view)
        view.host.files.may_write(params.path)
        owner = await asyncio.to_thread(view.host.tenant_trees.owner, params.path)
        action = "create" if owner is None else "keep"
        return Plan((Change(action=action, target=params.path, detail=f"private to {params.owner}"),))

    async def apply(self, context: StepContext) -> Outcome:
        check_allocation(context)
        if context.cancelled.is_set():
            raise error("canceled", f"{context.params.path} was not made")
        return await asyncio.to_thread(_apply, context)

    async def probe(self, view: StepView) -> Probe:
        params: StorageGrant = view.params
        account = view.host.accounts.find(params.owner)
        remembered = params.path in view.host.holdings.grants(params.allocation_id).storage
        if account is None or not remembered or view.host.tenant_trees.owner(params.path) != account.uid:
            return Probe(truth=Truth.NOT_DONE)
        return Probe(truth=Truth.DONE, outcome=Outcome(outputs=outputs(view, path=params.path)))


KIND = StorageGrantKind()


def _apply(context: StepContext) -> Outcome:
    """Remembered before it is made, and only if nobody had it before: what is remembered will be removed."""
    params: StorageGrant = context.params
    host = context.host
    host.files.may_write(params.path)
    account = host.accounts.mine(params.owner)
    if account is None:
        raise error("not_found", f"there is no user {params.owner!r} on this node to own {params.path}")
    grants = host.holdings.grants(params.allocation_id)
    if params.path not in grants.storage:
        if host.files.stat(params.path) is not None:
            raise error("path_taken", f"{params.path} is there already and was not made for this allocation")
        storage = (*grants.storage, params.path)
        parents = (*grants.parents, *host.tenant_trees.missing_above(params.path))
        kept = msgspec.structs.replace(grants, storage=storage, parents=parents)
        host.holdings.keep_grants(params.allocation_id, kept)
    made = host.tenant_trees.make(params.path, account.uid, account.gid)
    return Outcome(outputs=outputs(context, path=params.path), changed=made)
