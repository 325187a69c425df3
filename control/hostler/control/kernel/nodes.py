"""Nodes: enrolment, certificates, sessions, revocation (PK-02, PK-04, PK-07, EV-11)."""

import msgspec

from hostler.base.digest import same_digest
from hostler.base.errors import error
from hostler.base.ids import NODE, is_name
from hostler.control.kernel import agent_succession, allocation_flow, changes, events
from hostler.control.kernel.actor import KERNEL, Actor
from hostler.control.kernel.allocation_states import POOL
from hostler.control.kernel.assign import give_up
from hostler.control.kernel.commands import (
    CreateEnrolmentToken,
    EnrollNode,
    NodeEnrolled,
    RecordCertificate,
    ReleaseNode,
    RevokeNode,
)
from hostler.control.kernel.credential_rows import RunnerKeyRow
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import CertificateRow, CursorRow, NodeRow, TokenRow
from hostler.control.kernel.tasks import node_of

replace = msgspec.structs.replace


def create_token(draft: Draft, command: CreateEnrolmentToken) -> Decision:
    """A token for one node that does not exist yet."""
    if not is_name(command.node_name):
        raise error("invalid_request", f"{command.node_name!r} cannot name a node", pointer="/node_name")
    if not command.org_id or not command.project_id:
        raise error("invalid_request", "a node belongs to a tenant and a project", pointer="/org_id")
    if (command.org_id == POOL) != (command.project_id == POOL):
        raise error("invalid_request", "a node of the pool belongs to no tenant", pointer="/org_id")
    if command.expires_at_ms <= draft.now_ms:
        raise error("invalid_request", "the token would have expired already", pointer="/expires_at_ms")
    _refuse_taken(draft, command.node_name)
    if draft.get(TokenRow, command.token_id) is not None:
        raise error("invalid_request", "the token's id is in use", pointer="/token_id")
    draft.insert(
        TokenRow(
            token_id=command.token_id,
            token_sha256=command.token_sha256,
            node_name=command.node_name,
            org_id=command.org_id,
            project_id=command.project_id,
            labels=events.json_text(command.labels),
            created_by=command.actor.name,
            created_at_ms=draft.now_ms,
            expires_at_ms=command.expires_at_ms,
        )
    )
    draft.events.append(
        events.admin_event(
            "node.token_created",
            f"enrolment-tokens/{command.token_id}",
            draft.now_ms,
            actor=command.actor,
            action="node.token.create",
            change=changes.made(
                node_name=command.node_name, labels=command.labels, expires_at_ms=command.expires_at_ms, used=False
            ),
            org_id=command.org_id,
            project_id=command.project_id,
            node_name=command.node_name,
            expires_at_ms=command.expires_at_ms,
        )
    )
    return draft.decision()


def enroll(draft: Draft, command: EnrollNode) -> Decision:
    """→ `NodeEnrolled`. The first key wins; the same key again is the same host trying again (I5)."""
    token = draft.get(TokenRow, command.token_id)
    if token is None or not same_digest(token.token_sha256, command.token_sha256):
        raise error("enrolment_token_invalid", "the enrolment token is unknown")
    if token.used_at_ms:
        return draft.decision(_same_host_again(draft, token, command))
    if token.expires_at_ms <= draft.now_ms:
        raise error("enrolment_token_invalid", "the enrolment token has expired")
    replaced = draft.get(NodeRow, token.node_id) if token.node_id else None
    if replaced is None or replaced.state != "active":
        _refuse_taken(draft, token.node_name)
    node = NodeRow(
        node_id=draft.ids.new(NODE, draft.now_ms),
        name=token.node_name,
        org_id=token.org_id,
        project_id=token.project_id,
        public_key=command.public_key_spki,
        thumbprint=command.thumbprint,
        # What the administrator wrote on the token wins over what the host says of itself.
        labels=events.json_text(command.labels | msgspec.json.decode(token.labels)),
        enrolled_at_ms=draft.now_ms,
        pool=int(token.project_id == POOL),
    )
    draft.insert(node)
    draft.insert(CursorRow(node_id=node.node_id))
    agent_succession.begin(draft, token, node.node_id)
    if command.runner_key:
        draft.insert(RunnerKeyRow(node.node_id, command.runner_key, draft.now_ms))
    draft.update(replace(token, used_at_ms=draft.now_ms, used_by_key=command.thumbprint, node_id=node.node_id))
    if replaced is not None:
        agent_succession.keep_out(draft, replaced, node.node_id)
    if replaced is not None and replaced.state == "active":
        _end(draft, replaced, KERNEL)  # one host, one identity: its receipts stay under the name it had
    draft.events.append(
        events.node_event(
            "node.enrolled",
            node,
            draft.now_ms,
            actor=Actor(kind="node", name=command.peer or node.node_id),
            action="node.enroll",
            change=changes.made(name=node.name, state=node.state, token_id=token.token_id),
            thumbprint=command.thumbprint,
            token_id=token.token_id,
            peer=command.peer,
        )
    )
    return draft.decision(_enrolled(node))


def _same_host_again(draft: Draft, token: TokenRow, command: EnrollNode) -> NodeEnrolled:
    node = node_of(draft, token.node_id)
    if not same_digest(token.used_by_key, command.thumbprint):
        raise error(
            "enrolment_token_used",
            f"the enrolment token of {token.node_name} was used by another key",
            node_id=node.node_id,
        )
    if node.state == "revoked":
        raise error("revoked", f"node {node.name} is revoked", node_id=node.node_id)
    return _enrolled(node)


def _enrolled(node: NodeRow) -> NodeEnrolled:
    return NodeEnrolled(node.node_id, node.name, node.org_id, node.project_id)


def _refuse_taken(draft: Draft, name: str) -> None:
    if any(node.state == "active" for node in draft.view.nodes_named(name)):
        raise error("node_exists", f"a node named {name} exists")


def release(draft: Draft, command: ReleaseNode) -> Decision:
    """Ends a hold; the node's past instances are forgotten, so that the one which comes next is it."""
    node = node_of(draft, command.node_id)
    if not node.hold:
        return draft.decision()
    end_hold(draft, node)
    draft.events.append(
        events.node_event(
            "node.released",
            node,
            draft.now_ms,
            actor=command.actor,
            action="node.release",
            change=changes.between({"hold": node.hold}, {"hold": ""}),
        )
    )
    return draft.decision()


def end_hold(draft: Draft, node: NodeRow) -> None:
    draft.update(replace(node, hold="", instance_id="", past_instances="[]"))
    draft.look_at(node.org_id, node.project_id, node.allocation_id, node.node_id)


def record_certificate(draft: Draft, command: RecordCertificate) -> Decision:
    node = node_of(draft, command.node_id)
    if node.state == "revoked":
        raise error("revoked", f"node {node.name} is revoked", node_id=node.node_id)
    if draft.get(CertificateRow, (command.node_id, command.serial)) is None:
        draft.insert(
            CertificateRow(
                node_id=command.node_id,
                serial=command.serial,
                thumbprint=command.thumbprint,
                not_before_ms=command.not_before_ms,
                not_after_ms=command.not_after_ms,
                issued_at_ms=draft.now_ms,
                pem=command.certificate_pem,
            )
        )
        draft.events.append(
            events.node_event(
                "node.certificate_issued",
                node,
                draft.now_ms,
                actor=Actor(kind="node", name=node.node_id),
                action="node.certificate.issue",
                change=changes.made(serial=command.serial, not_after_ms=command.not_after_ms),
                serial=command.serial,
                not_after_ms=command.not_after_ms,
            )
        )
    return draft.decision()


def prove_certificate(draft: Draft, node_id: str, serial: str) -> None:
    """First use of a certificate: it was stored, so the ones before it are done with (PK-04)."""
    used = draft.get(CertificateRow, (node_id, serial)) if serial else None
    if used is None or used.state != "issued":
        return
    draft.update(replace(used, state="proved", changed_at_ms=draft.now_ms))
    for other in draft.view.certificates_of(node_id):
        before = other.serial != serial and other.issued_at_ms <= used.issued_at_ms
        if before and other.state in ("issued", "proved"):
            draft.update(replace(other, state="superseded", changed_at_ms=draft.now_ms))


def revoke(draft: Draft, command: RevokeNode) -> Decision:
    """The node loses its identity; what it was doing ends here, its late word stays history."""
    node = draft.get(NodeRow, command.node_id) or next(iter(draft.view.nodes_named(command.node_id)), None)
    if node is None:
        raise error("not_found", f"there is no node {command.node_id}")
    if node.state != "revoked":
        _end(draft, node, command.actor)
    return draft.decision()


def _end(draft: Draft, node: NodeRow, actor: Actor) -> None:
    revoked = replace(node, state="revoked", revoked_at_ms=draft.now_ms)
    draft.update(revoked)
    for certificate in draft.view.certificates_of(node.node_id):
        draft.update(replace(certificate, state="revoked", changed_at_ms=draft.now_ms))
    draft.events.append(
        events.node_event(
            "node.revoked",
            revoked,
            draft.now_ms,
            actor=actor,
            action="node.revoke",
            change=changes.of_rows(node, revoked, "state"),
        )
    )
    for task in draft.open_tasks_on(node.node_id):
        give_up(draft, task, "revoked", f"node {node.name} was revoked")
    if node.allocation_id:
        allocation_flow.node_revoked(draft, node.allocation_id, node.node_id)
    draft.agent_nodes[node.node_id] = None
    draft.revoked.append(node.node_id)
