"""Was it seen before, is it from now, is it newer than all others?"""

from hostler.agent.admission.case import Case
from hostler.agent.admission.verdict import Replayed
from hostler.base.errors import error
from hostler.wire.task import TaskSpec


def replay(case: Case) -> Replayed | None:
    """Known tasks come out here, before anything could judge them anew: for ever, not for a window (T1).

    A retry is a new attempt of the same task: a higher number, and only once the last one has ended.
    A cancel of a task that still runs goes on; of one that has ended, the first result is the answer.
    """
    order = case.order
    found = case.view.known(order.task_id)
    if found is None:
        return None
    same = found.attempt_uid == order.attempt_uid
    if isinstance(order, TaskSpec):
        stands = same or found.open or order.attempt_number <= found.attempt_number
    else:
        stands = same and not found.open
    return Replayed(order.task_id, case.digest, found.open) if stands else None


def epoch(case: Case) -> None:
    """Raises `controller_rollback`: a control plane speaks that has forgotten something, or of a past epoch.

    Or `epoch_unsigned`: the dispatch key alone cannot open an epoch, only the root can (P1).
    """
    named, present = case.order.control_epoch, case.view.control_epoch
    if case.view.held:
        raise error("controller_rollback", f"this node takes nothing new in epoch {present}: its past was forgotten")
    if named < present:
        raise error("controller_rollback", f"epoch {named} is below {present}, seen before")
    if named > present:
        raise error("epoch_unsigned", f"the task is of epoch {named}, the root has signed {present}")


def freshness(case: Case) -> None:
    """Raises `not_yet_valid` or `expired`: no tolerance, neither before nor after (T3, I4)."""
    order, now = case.order, case.now_ms
    if now < order.not_before_ms:
        raise error("not_yet_valid", f"the task is valid in {order.not_before_ms - now} ms by this clock")
    if now >= order.expires_at_ms:
        raise error("expired", f"the task's validity ended {now - order.expires_at_ms} ms ago by this clock")


def sequence(case: Case) -> None:
    """Raises `stale_sequence`: sequences only rise. Cancels name an attempt and are idempotent."""
    high = case.view.high_sequence
    if case.order.sequence <= high:
        raise error("stale_sequence", f"sequence {case.order.sequence} is not above {high}, seen before")


def storage(case: Case) -> None:
    """Raises `storage_unhealthy`: what cannot be remembered is not started (K4)."""
    if case.view.storage != "ok":
        raise error("storage_unhealthy", f"the journal of this node cannot be written ({case.view.storage})")
