"""What the kinds around allocations share: whose step it is, which links stand before it, whom it may touch."""

from dataclasses import dataclass
from typing import Any

from hostler.agent.host.accounts import Account
from hostler.agent.host.eviction import Uids
from hostler.agent.host.holdings import Granted
from hostler.agent.journal.rows import PastStep
from hostler.agent.steps.contract import StepView
from hostler.base.errors import error

SUCCEEDED = "succeeded"
FENCED_KEYS = ".ssh.fenced"


def check_allocation(view: StepView) -> str:
    """The allocation's id. Raises `wrong_allocation` where the envelope is bound to another."""
    named: str = view.params.allocation_id
    if view.allocation_id and view.allocation_id != named:
        raise error("wrong_allocation", f"the step names allocation {named}, the task is bound to {view.allocation_id}")
    return named


def check_links(view: StepView, after: tuple[str, ...]) -> tuple[PastStep, ...]:
    """The last step of each link, in order. Raises `link_missing` (AL-04, AL-05, AL-06).

    A link counts by its newest attempt, and only if it ended after the link before it.
    """
    ended: list[PastStep] = []
    past = view.past()
    for link in after:
        of_link = [step for step in past if step.type == link and step.task_state]
        if not of_link or of_link[-1].task_state != SUCCEEDED:
            said = of_link[-1].task_state if of_link else "has not run"
            raise error("link_missing", f"{link} of allocation {view.params.allocation_id} {said} on this node")
        if ended and of_link[-1].number < ended[-1].number:
            raise error("link_missing", f"{link} ended before {ended[-1].type}, which belongs before it")
        ended.append(of_link[-1])
    return tuple(ended)


@dataclass(frozen=True)
class People:
    """The users a step is about.

    Attributes:
        accounts: that are there.
        granted: made here for the allocation, whether their accounts are still there or not.
        uids: whose processes and files are theirs.
        altered: made here, and since then given another user id: somebody with privileges did that.
    """

    accounts: tuple[Account, ...]
    granted: tuple[Granted, ...]
    uids: Uids
    names: tuple[str, ...]
    altered: tuple[str, ...] = ()

    @property
    def homes(self) -> dict[str, str]:
        made = {user.name: user.home for user in self.granted}
        return made | {account.name: account.home for account in self.accounts}


def people(view: StepView) -> People:
    """Those made for the allocation, and those that the step names besides.

    Raises:
        HostlerError: `user_protected` for one of the system, by either way.
    """
    host = view.host
    granted = host.holdings.grants(view.params.allocation_id).users
    present = {user.name: host.accounts.find(user.name) for user in granted}
    altered = tuple(u.name for u in granted if (now := present[u.name]) is not None and now.uid != u.uid)
    names = tuple(sorted({*view.params.users, *present} - {*altered}))
    accounts = tuple(account for name in names if (account := host.accounts.mine(name)) is not None)
    uids = {account.uid for account in accounts} | {user.uid for user in granted}
    ranges = [each for name in names for each in host.accounts.subordinate(name)]
    return People(accounts, granted, Uids(uids, ranges), names, altered)


def check_unaltered(found: People) -> None:
    """Raises `user_protected`: an account that was given another id is for a person to look at."""
    if found.altered:
        listed = ", ".join(found.altered)
        raise error("user_protected", f"the user id of {listed} was changed since this node made the account")


def plain_home(home: str, name: str) -> bool:
    """Only a user's own directory below /home is ever removed."""
    return home == f"/home/{name}"


def outputs(view: StepView, **values: Any) -> dict[str, Any]:
    return {"allocation_id": view.params.allocation_id, **values}
