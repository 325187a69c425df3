"""Code bundles: kept for a project, named by its jobs, handed to the nodes that run them (JB-08).

The digest is no secret and opens nothing: whatever is asked, it is asked of one project's own bundles.
"""

from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.control.kernel import events
from hostler.control.kernel.actor import Actor
from hostler.control.kernel.bundle_commands import BundleGrant, DeleteBundle, ExpireBundles, StoreBundle, UseBundle
from hostler.control.kernel.bundle_rows import DELETED, HELD, BundleRow
from hostler.control.kernel.changes import Change, gone, made
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import EventRow, NodeRow, OperationRow, TaskRow
from hostler.control.kernel.transitions import IN_FLIGHT
from hostler.wire.task import TaskMode

replace = msgspec.structs.replace
_SYSTEM = Actor(kind="system", name="hostler-control")


def store(draft: Draft, command: StoreBundle) -> Decision:
    """→ whether it is new. The same bytes again are no event: they were of use just now, that is all."""
    key = (command.org_id, command.project_id, command.sha256)
    known = draft.get(BundleRow, key)
    if known is not None and known.state == HELD:
        draft.update(replace(known, last_used_ms=draft.now_ms))
        return draft.decision(False)
    kept = draft.view.bundle_bytes(command.org_id, command.project_id)
    if kept + command.size_bytes > command.quota_bytes:
        raise error(
            "bundle_quota",
            f"bundles of project {command.project_id} take {kept} bytes, and {command.size_bytes} more are above "
            f"{command.quota_bytes}",
        )
    row = BundleRow(
        org_id=command.org_id,
        project_id=command.project_id,
        sha256=command.sha256,
        size_bytes=command.size_bytes,
        created_by=command.actor.name,
        created_at_ms=draft.now_ms,
        last_used_ms=draft.now_ms,
    )
    draft.update(row) if known is not None else draft.insert(row)
    change = made(size_bytes=row.size_bytes)
    draft.events.append(_event("bundle.stored", row, draft, command.actor, "bundle.store", change))
    return draft.decision(True)


def delete(draft: Draft, command: DeleteBundle) -> Decision:
    row = held(draft, command.org_id, command.project_id, command.sha256)
    if row is None:
        raise error("not_found", f"there is no bundle {command.sha256[:64]!r} in project {command.project_id!r}")
    if draft.view.bundle_is_named(row.project_id, row.sha256):
        raise error("bundle_in_use", f"a job that has not ended names bundle {row.sha256}")
    _drop(draft, row, command.actor, "bundle.deleted", "bundle.delete")
    return draft.decision()


def use(draft: Draft, command: UseBundle) -> Decision:
    """→ `BundleGrant`. One sentence for every reason: a node that asks amiss learns nothing of others' bundles."""
    task, node = draft.get(TaskRow, command.task_id), draft.get(NodeRow, command.node_id)
    operation = draft.get(OperationRow, task.operation_id) if task else None
    fits = (
        task is not None
        and operation is not None
        and node is not None
        and node.state == "active"
        and task.node_id == command.node_id
        and task.attempt_uid == command.attempt_uid
        and task.state in IN_FLIGHT
        and not task.cancel_requested
        and not operation.cancel_requested_ms
        and operation.mode == TaskMode.APPLY
        and named_by(operation) == command.sha256
    )
    if not fits or operation is None:
        raise error("bundle_not_bound", f"task {command.task_id[:64]} does not run on this node with that bundle")
    row = require(draft, operation.org_id, operation.project_id, command.sha256)
    return draft.decision(BundleGrant(row.org_id, row.project_id, row.size_bytes))


def expire(draft: Draft, command: ExpireBundles) -> Decision:
    """→ keys of those that went. What an open job names stays, however long ago it was fetched."""
    expired = []
    for row in draft.view.unused_bundles(command.unused_since_ms, command.limit):
        if draft.view.bundle_is_named(row.project_id, row.sha256):
            draft.update(replace(row, last_used_ms=draft.now_ms))  # not looked at again for as long
            continue
        _drop(draft, row, _SYSTEM, "bundle.expired", "bundle.expire")
        expired.append((row.org_id, row.project_id, row.sha256))
    return draft.decision(tuple(expired))


def require(draft: Draft, org_id: str, project_id: str, sha256: str) -> BundleRow:
    """For a submit that names a bundle: the project's own, and of use from now on.

    Raises:
        HostlerError: `bundle_missing`, also where another project holds the very same bytes.
    """
    row = held(draft, org_id, project_id, sha256)
    if row is None:
        raise error("bundle_missing", f"project {project_id!r} holds no bundle {sha256[:64]}", pointer="/bundle")
    fresh = replace(row, last_used_ms=draft.now_ms)
    draft.update(fresh)
    return fresh


def held(draft: Draft, org_id: str, project_id: str, sha256: str) -> BundleRow | None:
    row = draft.get(BundleRow, (org_id, project_id, sha256))
    return row if row is not None and row.state == HELD else None


def named_by(operation: OperationRow) -> str:
    """The bundle of a job's inputs; "" for none, and for an operation that is no job."""
    inputs: Any = msgspec.json.decode(operation.inputs)
    return str(inputs.get("bundle", "")) if operation.operation_type.startswith("job.container.") else ""


def _drop(draft: Draft, row: BundleRow, actor: Actor, type_: str, action: str) -> None:
    draft.update(replace(row, state=DELETED))
    draft.events.append(_event(type_, row, draft, actor, action, gone(size_bytes=row.size_bytes)))


def _event(type_: str, row: BundleRow, draft: Draft, actor: Actor, action: str, change: Change) -> EventRow:
    return events.admin_event(
        type_,
        f"bundles/{row.sha256}",
        draft.now_ms,
        actor=actor,
        action=action,
        change=change,
        org_id=row.org_id,
        project_id=row.project_id,
        sha256=row.sha256,
        size_bytes=row.size_bytes,
    )
