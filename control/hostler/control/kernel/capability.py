"""Whether a node can take a task at all: nothing is signed for one that cannot (CG-01, CG-04)."""

import functools

import msgspec

from hostler.catalog.capabilities import unmet
from hostler.control.kernel import events
from hostler.control.kernel.documents import definition_of
from hostler.control.kernel.model import Draft
from hostler.control.kernel.rows import DefinitionRow, NodeRow, OperationRow, TaskRow

CAPABILITY_MISSING = "capability_missing"


def missing(draft: Draft, operation: OperationRow, node: NodeRow) -> str:
    """The key that keeps the operation from this node; "" when it can take it."""
    row = draft.get(DefinitionRow, f"{operation.operation_type}@{operation.version}")
    return _missing(row.document, node.capabilities) if row is not None else ""


@functools.lru_cache(maxsize=2048)
def _missing(document: str, capabilities: str) -> str:
    return unmet(definition_of(document).capabilities, msgspec.json.decode(capabilities, type=dict[str, str]))


def wait(draft: Draft, operation: OperationRow, task: TaskRow, key: str) -> TaskRow:
    """The task stays where it is and says what it waits for: in its row, and once in the log."""
    reason = f"{CAPABILITY_MISSING}: {key}"
    if task.waiting_for == reason:
        return task
    waiting = msgspec.structs.replace(task, waiting_for=reason)
    draft.update(waiting)
    said = events.task_event("task.waiting", operation, task, draft.now_ms, CAPABILITY_MISSING, waiting_for=reason)
    draft.events.append(said)
    return waiting
