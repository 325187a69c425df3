"""Which allocation this node is in, and how far it is out of it again: set and ended by signed tasks alone.

    (none) ─ provision ─▶ bound ─ deprovision taken ─▶ releasing ─▶ deprovisioned ─▶ revoked ─ verify ─▶ (none)

A link counts when it has succeeded here, by this journal, whatever the control plane says (AL-06, OP-09).
"""

import sqlite3

import msgspec

from hostler.agent.journal import meta
from hostler.base.errors import HostlerError, error
from hostler.wire.task import TaskMode, TaskSpec

KEY = "allocation_binding"
BOUND, RELEASING, DEPROVISIONED, REVOKED = "bound", "releasing", "deprovisioned", "revoked"
PROVISION, RELEASE = "allocation_provision", "allocation_release"
TRIGGERS = ("", PROVISION, RELEASE, "admin", "system", "agent_lifecycle", "federation")
# who asks, and for which type of operation → the link
LINKS = {
    (PROVISION, "allocation.runtime.provision"): "provision",
    (RELEASE, "allocation.runtime.deprovision"): "deprovision",
    (RELEASE, "allocation.identity.revoke"): "identity_revoke",
    (RELEASE, "node.reclaim.verify"): "reclaim_verify",
}
_TYPES = frozenset(type_ for _, type_ in LINKS)
_REACHED = {"deprovision": DEPROVISIONED, "identity_revoke": REVOKED}
# the stages at which a link of the same allocation may come
_AT = {
    "provision": (BOUND,),
    "deprovision": (BOUND, RELEASING, DEPROVISIONED, REVOKED),
    "identity_revoke": (DEPROVISIONED, REVOKED),
    "reclaim_verify": (REVOKED,),
}


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """`task_id` and `link` are those of the newest link that was taken."""

    allocation_id: str
    stage: str = BOUND
    task_id: str = ""
    link: str = ""


def check(task: TaskSpec, present: Binding | None) -> None:
    """Whether the task may come now.

    Raises:
        HostlerError: `wrong_allocation`; `chain_order` for a link out of its order or without its chain.
    """
    link = LINKS.get((task.trigger_source, task.operation_type), "")
    if task.trigger_source not in TRIGGERS or (task.trigger_source in (PROVISION, RELEASE) and not link):
        raise _out_of_order(task, f"{task.operation_type} is no link of {task.trigger_source!r}")
    if link:
        _check_link(task, link, present)
        return
    inside = present.allocation_id if present else ""
    if task.allocation_id != inside:
        bound = task.allocation_id or "none"
        raise error("wrong_allocation", f"the task is bound to allocation {bound}, the node is in {inside or 'none'}")
    if present is None or task.trigger_source:
        return
    if task.operation_type in _TYPES:
        raise _out_of_order(task, "it comes by the allocation's own chain")
    if present.stage != BOUND:
        raise error("wrong_allocation", f"allocation {inside} is being released on this node: nothing new starts")


def _check_link(task: TaskSpec, link: str, present: Binding | None) -> None:
    if not task.allocation_id or task.mode is not TaskMode.APPLY:
        raise _out_of_order(task, "a link is applied, for one allocation")
    if present is None:
        if link in ("provision", "deprovision"):  # a node that was never provisioned may be cleaned as well
            return
        raise _out_of_order(task, "this node is in no allocation")
    if present.allocation_id != task.allocation_id:
        raise error(
            "wrong_allocation",
            f"link {link} is of allocation {task.allocation_id}, the node is in {present.allocation_id}",
        )
    if present.stage not in _AT[link]:
        raise _out_of_order(task, f"link {link} does not follow {present.stage}")


def _out_of_order(task: TaskSpec, why: str) -> HostlerError:
    return error("chain_order", f"{task.operation_type} was asked for out of its order: {why}")


def after_accept(present: Binding | None, task: TaskSpec) -> Binding | None:
    """The binding once the task is taken."""
    link = LINKS.get((task.trigger_source, task.operation_type), "")
    if not link:
        return present
    stage = present.stage if present else BOUND
    if link == "deprovision":
        stage = RELEASING
    return Binding(allocation_id=task.allocation_id, stage=stage, task_id=task.task_id, link=link)


def after_success(present: Binding | None, task_id: str) -> Binding | None:
    """The binding once a task has succeeded: None after a passed verification, and only then."""
    if present is None or present.task_id != task_id:
        return present
    if present.link == "reclaim_verify":
        return None
    return msgspec.structs.replace(present, stage=_REACHED.get(present.link, present.stage))


def load(db: sqlite3.Connection) -> Binding | None:
    data = meta.get(db, KEY)
    return msgspec.json.decode(data, type=Binding | None) if data is not None else None


def store(db: sqlite3.Connection, binding: Binding | None) -> None:
    meta.put(db, KEY, msgspec.json.encode(binding))
