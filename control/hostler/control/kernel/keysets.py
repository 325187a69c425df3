"""Keysets and epochs: what the root has signed becomes the state of this control plane (PK-08, P1, T11).

The engine has verified a keyset before it comes here. An epoch is opened only by the root's word: what a
restored copy has forgotten is then asked of the nodes again, by the same tasks, which they run once.
"""

import msgspec

from hostler.base.errors import error
from hostler.control.kernel import events
from hostler.control.kernel.assign import cursor_of
from hostler.control.kernel.changes import Change, between
from hostler.control.kernel.commands import ControlStarted, PublishKeyset, RecoverEpoch
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import MetaRow
from hostler.control.kernel.tasks import move_task
from hostler.control.kernel.transitions import IN_FLIGHT
from hostler.control.kernel.trust_rows import KeysetRow
from hostler.pki.keyset import Keyset

replace = msgspec.structs.replace
EPOCH, DISPATCH_KEY = "control_epoch", "dispatch_key_id"
_SHOWN = 100  # ids in one event


def publish(draft: Draft, command: PublishKeyset, keyset: Keyset) -> Decision:
    """→ None. Files a keyset; connected nodes are sent it at once."""
    known = draft.get(KeysetRow, keyset.version)
    if known is not None:
        if known.keyset != command.keyset:
            raise error("keyset_rollback", f"keyset {keyset.version} is filed with another content")
        return draft.decision()
    draft.insert(
        KeysetRow(
            version=keyset.version,
            control_epoch=keyset.control_epoch,
            keyset=command.keyset,
            published_at_ms=draft.now_ms,
        )
    )
    draft.events.append(
        events.admin_event(
            "keyset.published",
            f"keysets/{keyset.version}",
            draft.now_ms,
            actor=command.actor,
            action="keyset.publish",
            change=Change({"version": command.replaces} if command.replaces else None, {"version": keyset.version}),
            version=keyset.version,
            control_epoch=keyset.control_epoch,
            roles={name: list(role.keyids) for name, role in keyset.roles.items()},
        )
    )
    return draft.decision()


def started(draft: Draft, command: ControlStarted) -> None:
    """A new dispatch key: what the old one signed and nobody has taken is signed again (T11)."""
    known = draft.get(MetaRow, DISPATCH_KEY)
    if not command.dispatch_key_id or (known is not None and known.value == command.dispatch_key_id):
        return
    if known is None:
        draft.insert(MetaRow(DISPATCH_KEY, command.dispatch_key_id))
        return
    draft.update(MetaRow(DISPATCH_KEY, command.dispatch_key_id))
    affected = []
    for task in draft.current(draft.view.assigned_tasks()):
        if task.sequence > cursor_of(draft, task.node_id).accepted_sequence:
            draft.update(replace(task, expires_at_ms=0))  # the next hello finds its window closed
            affected.append(task.task_id)
    draft.events.append(
        events.admin_event(
            "keyset.dispatch_key_changed",
            "keysets",
            draft.now_ms,
            actor=command.actor,
            action="keyset.dispatch_key.change",
            change=between({"key_id": known.value}, {"key_id": command.dispatch_key_id}),
            tasks=len(affected),
            task_ids=affected[:_SHOWN],
        )
    )


def recover(draft: Draft, command: RecoverEpoch) -> Decision:
    """→ number of tasks that will be asked for again.

    Raises:
        HostlerError: `invalid_request` for an epoch that is not above the present one.
    """
    present = draft.get(MetaRow, EPOCH)
    before = int(present.value) if present else 0
    if command.control_epoch <= before:
        raise error("invalid_request", f"epoch {command.control_epoch} is not above {before}, the store's own")
    draft.update(MetaRow(EPOCH, str(command.control_epoch)))
    asked = 0
    for node in draft.view.all_nodes():
        cursor = cursor_of(draft, node.node_id)
        draft.update(replace(cursor, accepted_sequence=0))
        if node.hold == "controller_rollback":
            draft.update(replace(node, hold=""))
        for task in draft.open_tasks_on(node.node_id):
            if task.state in IN_FLIGHT:
                move_task(draft, task, "recover", sequence=0, cancel_sequence=0, expires_at_ms=0, envelope_digest="")
                asked += 1
    draft.events.append(
        events.admin_event(
            "control.recovered",
            f"epochs/{command.control_epoch}",
            draft.now_ms,
            actor=command.actor,
            action="control.recover",
            change=between({"control_epoch": before}, {"control_epoch": command.control_epoch}),
            tasks=asked,
        )
    )
    return draft.decision(asked)
