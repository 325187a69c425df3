"""What time alone does: tasks that nobody came for, launches that stalled, chains and jobs whose time is up."""

from hostler.control.kernel import allocation_flow, job_flow, launches
from hostler.control.kernel.assign import assign, give_up, order_cancel, waits
from hostler.control.kernel.commands import ExpireTasks
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.sessions import UNTAKEN
from hostler.control.kernel.tasks import end_task, node_of, operation_of
from hostler.control.kernel.transitions import ASSIGNED, FINAL

EXPIRE_LIMIT = 1000


def expire(draft: Draft, _: ExpireTasks) -> Decision:
    """→ number of tasks ended as `expired`.

    A window that passed untaken while the node is connected is opened again; only the operation's own
    deadline ends a task. A node that was away for all of that time may still hold it: its late word is kept.
    """
    ended = 0
    for task in draft.current(draft.view.overdue_tasks(draft.now_ms, EXPIRE_LIMIT)):
        if task.state in FINAL:
            continue
        node = node_of(draft, task.node_id)
        if task.cancel_requested:
            if task.state == ASSIGNED and node.connection == "connected":
                end_task(draft, task, "cancel", error_code="canceled", error_message=UNTAKEN)
        elif operation_of(draft, task.operation_id).deadline_ms <= draft.now_ms:
            give_up(draft, task, "expired", f"node {node.name} did not take the task in time")
            ended += 1
        elif task.state == ASSIGNED and not node.hold and not waits(node, operation_of(draft, task.operation_id)):
            assign(draft, task, node)
    for task in draft.current(draft.view.unanswered_cancels(draft.now_ms, EXPIRE_LIMIT)):
        if task.state not in FINAL:
            order_cancel(draft, task, node_of(draft, task.node_id))
    launches.ask_about_stalled(draft)
    allocation_flow.expire(draft)
    job_flow.expire(draft)
    return draft.decision(ended)
