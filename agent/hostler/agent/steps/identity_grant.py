"""`identity.grant`: users for an allocation, with home and keys; remembered, to be taken back (OD-16)."""

import asyncio
from dataclasses import dataclass

import msgspec

from hostler.agent.host.accounts import Account
from hostler.agent.host.files import Files
from hostler.agent.host.holdings import Granted
from hostler.agent.host.host import Host
from hostler.agent.steps.allocation import check_allocation, outputs
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.errors import error
from hostler.catalog.params.allocation import IdentityGrant, User

SHELL = "/bin/bash"
RESERVED = frozenset({"root", "nobody", "hostler", "hostler-session", "admin", "sync", "daemon"})


@dataclass(frozen=True)
class _Wanted:
    user: User
    account: Account | None  # that is there and was made here for this allocation


class IdentityGrantKind:
    name = "identity.grant"

    async def plan(self, view: StepView) -> Plan:
        params: IdentityGrant = view.params
        check_allocation(view)
        wanted = await asyncio.to_thread(_compare, view)
        rights = "may become root" if params.sudo else "no privileges"
        return Plan(
            tuple(
                Change(
                    action="keep" if each.account else "create",
                    target=f"user {each.user.name}",
                    detail=f"{len(each.user.keys)} keys, {rights}",
                )
                for each in wanted
            )
        )

    async def apply(self, context: StepContext) -> Outcome:
        check_allocation(context)
        return await asyncio.to_thread(_apply, context)

    async def probe(self, view: StepView) -> Probe:
        """Each part is written so that doing it again changes nothing; the last part tells that all is there."""
        wanted = await asyncio.to_thread(_compare, view)
        if not all(each.account and _entered(view, each.account, each.user) for each in wanted):
            return Probe(truth=Truth.NOT_DONE)
        return Probe(truth=Truth.DONE, outcome=_outcome(view, [each.account for each in wanted if each.account]))


KIND = IdentityGrantKind()


def _compare(view: StepView) -> list[_Wanted]:
    """Raises `user_exists` for an account that somebody else made."""
    params: IdentityGrant = view.params
    granted = {user.name: user.uid for user in view.host.holdings.grants(params.allocation_id).users}
    found = []
    for user in params.users:
        account = view.host.accounts.find(user.name)
        if user.name in RESERVED or (account is not None and granted.get(user.name) != account.uid):
            raise error("user_exists", f"user {user.name!r} is not one of allocation {params.allocation_id}")
        found.append(_Wanted(user, account))
    if len({user.name for user in params.users}) != len(params.users):
        raise error("user_exists", "a user is named twice")
    return found


def _apply(context: StepContext) -> Outcome:
    made = []
    for each in _compare(context):
        if context.cancelled.is_set():
            raise error("canceled", "not every user was made")
        made.append(_make(context, each))
    return _outcome(context, made)


def _make(context: StepContext, wanted: _Wanted) -> Account:
    """Remembered before it is made: what a crash leaves half done can be taken back."""
    params: IdentityGrant = context.params
    host, user = context.host, wanted.user
    grants = host.holdings.grants(params.allocation_id)
    known = next((one for one in grants.users if one.name == user.name), None)
    uid = known.uid if known else host.accounts.free_uid()
    account = Account(user.name, uid, uid, f"/home/{user.name}", SHELL)
    if known is None:
        users = (*grants.users, Granted(name=user.name, uid=uid, home=account.home))
        host.holdings.keep_grants(params.allocation_id, msgspec.structs.replace(grants, users=users))
    host.accounts.add(account)
    host.tenant_trees.make_home(user.name, uid, uid)
    everything = Files(host.root)
    if params.sudo:
        rule = f"{user.name} ALL=(ALL:ALL) NOPASSWD: ALL\n".encode()
        everything.write(_sudo_rule(user.name), rule, mode=0o440, make_parents=True)
    if params.linger:
        everything.write(f"/var/lib/systemd/linger/{user.name}", b"", make_parents=True)
    _let_in(host, account, user)
    return account


def _sudo_rule(name: str) -> str:
    return f"/etc/sudoers.d/hostler-{name}"


def _keys(user: User) -> bytes:
    return "".join(f"{key}\n" for key in user.keys).encode()


def _let_in(host: Host, account: Account, user: User) -> None:
    """The keys come last: before them nobody can log in, and nobody but us has touched the home."""
    folder = f"{account.home}/.ssh"
    host.tenant_trees.make_private(folder, account.uid, account.gid)
    Files(host.root).write(f"{folder}/authorized_keys", _keys(user), mode=0o600, uid=account.uid, gid=account.gid)


def _entered(view: StepView, account: Account, user: User) -> bool:
    path = f"{account.home}/.ssh/authorized_keys"
    files = Files(view.host.root)
    if files.stat(path) is None or files.read(path, 1024 * 1024) != _keys(user):
        return False
    return not view.params.sudo or files.info(_sudo_rule(user.name)).exists


def _outcome(view: StepView, accounts: list[Account]) -> Outcome:
    listed = [{"name": account.name, "uid": account.uid, "home": account.home} for account in accounts]
    return Outcome(outputs=outputs(view, users=listed))
