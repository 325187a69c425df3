"""May this node have this credential now (CR-01, CR-02; 004 §4.5)? And what came of it.

Nothing is issued outside a step that runs now, on the node that asks, at its present attempt; nothing is opened that
the signed definition does not name in that very step, and that the operation's policy does not allow.
"""

import msgspec

from hostler.base.digest import canonical_json
from hostler.base.errors import HostlerError, error
from hostler.catalog.binding import bind
from hostler.catalog.credentials import intent_of, source_of, type_of
from hostler.catalog.definition import Definition
from hostler.catalog.params.credential import Mint
from hostler.catalog.policy import allows_source
from hostler.control.kernel import events
from hostler.control.kernel.assign import judged_again
from hostler.control.kernel.changes import between
from hostler.control.kernel.commands import AuthorizeMint, MintGrant, RecordMint
from hostler.control.kernel.credential_rows import MintRow
from hostler.control.kernel.documents import definition_of
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import DefinitionRow, NodeRow, OperationRow, StepRow, TaskRow
from hostler.control.kernel.transitions import ASSIGNED, RUNNING
from hostler.wire.mint import MintRequest
from hostler.wire.task import Policy, TaskMode

KIND = "credential.mint"
MOST_MINTED, MOST_ASKED = 3, 30  # of one step of one attempt
_OPEN = ("", "running")


def authorize(draft: Draft, command: AuthorizeMint) -> Decision:
    """→ `MintGrant`, or None while the step's start is on its way here and `wait` says that it may be.

    Raises:
        HostlerError: `mint_not_bound`, `mint_scope_denied`, `mint_limit`, `mint_replayed`, `unknown_credential_type`.
    """
    request = command.request
    task, operation = _bound(draft, command.node_id, request)
    definition = _definition(draft, operation)
    step = _asked_by_step(definition, operation, request)
    operation, denied = judged_again(draft, operation)
    if denied is not None:
        raise error("mint_scope_denied", f"{denied.message}, so nothing is minted for it any more")
    _check_source(definition, operation, request)
    if not _step_is_open(draft, task, definition, request.step_id):
        if command.wait:
            return draft.decision(None)
        raise error("mint_not_bound", f"step {request.step_id} does not run now")
    number = _next_number(draft, request)
    draft.insert(
        MintRow(
            attempt_uid=request.attempt_uid,
            step_id=request.step_id,
            number=number,
            task_id=task.task_id,
            operation_id=operation.operation_id,
            node_id=command.node_id,
            credential_type=request.credential_type,
            intent=canonical_json(request.intent).decode(),
            request_digest=request.digest(),
            asked_at_ms=draft.now_ms,
        )
    )
    deadline_ms = _deadline_ms(task, operation, definition)
    if deadline_ms <= draft.now_ms:
        raise error("mint_not_bound", f"the time of task {task.task_id} is over")
    grant = MintGrant(
        number=number,
        org_id=operation.org_id,
        project_id=operation.project_id,
        deadline_ms=deadline_ms,
        part=step.part,
    )
    return draft.decision(grant)


def record(draft: Draft, command: RecordMint) -> Decision:
    """→ None. Also the last look before anything is handed over: a task may have been cancelled meanwhile.

    Raises:
        HostlerError: `mint_not_bound`.
    """
    request = command.request
    row = draft.get(MintRow, (request.attempt_uid, request.step_id, command.number))
    if row is None or row.node_id != command.node_id or row.state != "asked":
        raise error("mint_not_bound", "there is no such request for a credential")
    task, operation = draft.get(TaskRow, row.task_id), draft.get(OperationRow, row.operation_id)
    assert task is not None
    assert operation is not None
    if not command.error_code:
        _bound(draft, command.node_id, request)
    state = "failed" if command.error_code else "minted"
    result = "refused" if command.error_code else "accepted"
    draft.update(
        msgspec.structs.replace(
            row,
            state=state,
            minter=command.minter,
            error_code=command.error_code,
            expires_at_ms=command.expires_at_ms,
            ended_at_ms=draft.now_ms,
        )
    )
    draft.events.append(
        events.operation_event(
            "credential.mint_failed" if command.error_code else "credential.minted",
            operation,
            draft.now_ms,
            actor=command.actor,
            action="credential.mint",
            change=between({"state": row.state}, {"state": state}),
            result=result,
            error_code=command.error_code,
            task_id=task.task_id,
            step_id=request.step_id,
            node_id=command.node_id,
            credential_type=request.credential_type,
            intent=request.intent,
            minter=command.minter,
            number=command.number,
            expires_at_ms=command.expires_at_ms,
        )
    )
    return draft.decision()


def _bound(draft: Draft, node_id: str, request: MintRequest) -> tuple[TaskRow, OperationRow]:
    """One sentence for every reason: who asks amiss learns nothing of others' tasks."""
    task = draft.get(TaskRow, request.task_id)
    node = draft.get(NodeRow, node_id)
    operation = draft.get(OperationRow, task.operation_id) if task else None
    fits = (
        task is not None
        and operation is not None
        and node is not None
        and request.node_id == node_id
        and node.state == "active"
        and task.node_id == node_id
        and task.operation_id == request.operation_id
        and task.attempt_uid == request.attempt_uid
        and task.state in (ASSIGNED, RUNNING)
        and not task.cancel_requested
        and not operation.cancel_requested_ms
        and operation.mode == TaskMode.APPLY
    )
    if not fits or task is None or operation is None:
        raise error("mint_not_bound", f"task {request.task_id} does not run on this node at that attempt")
    return task, operation


def _definition(draft: Draft, operation: OperationRow) -> Definition:
    row = draft.get(DefinitionRow, f"{operation.operation_type}@{operation.version}")
    if row is None or row.digest != operation.definition_digest:
        raise error("mint_not_bound", f"the definition of operation {operation.operation_id} is not here")
    return definition_of(row.document)


def _step_is_open(draft: Draft, task: TaskRow, definition: Definition, step_id: str) -> bool:
    """It runs; or it has, and a step that it minted for is still to end: its agent has restarted meanwhile."""
    status = {step.id: _status(draft, task, index) for index, step in enumerate(definition.steps)}
    own = status.get(step_id, "absent")
    if own == "running":
        return True
    template = next(step for step in definition.steps if step.id == step_id) if own == "succeeded" else None
    users = template.params.get("for_steps", ()) if template else ()
    return any(status.get(user, "absent") in _OPEN for user in users)


def _status(draft: Draft, task: TaskRow, index: int) -> str:
    row = draft.get(StepRow, (task.task_id, task.attempt_number, index))
    return row.status if row else ""


def _asked_by_step(definition: Definition, operation: OperationRow, request: MintRequest) -> Mint:
    """The step's own parameters, which must say the very same."""
    type_of(request.credential_type)
    template = next((step for step in definition.steps if step.id == request.step_id), None)
    if template is None or template.kind != KIND:
        raise error("mint_not_bound", f"step {request.step_id} is no {KIND}")
    try:
        # without outputs: what a node reports must not widen what it may have
        params = msgspec.convert(bind(template.params, msgspec.json.decode(operation.inputs), {}), Mint)
    except (msgspec.ValidationError, HostlerError) as err:
        raise error("mint_scope_denied", f"step {request.step_id} names no intent that can be issued") from err
    asked = (request.credential_type, request.part, request.intent)
    if asked != (params.credential_type, params.part, params.intent):
        raise error("mint_scope_denied", f"what is asked for is not what step {request.step_id} names")
    return params


def _check_source(definition: Definition, operation: OperationRow, request: MintRequest) -> None:
    source = source_of(intent_of(request.credential_type, request.intent))
    policy = msgspec.json.decode(operation.policy, type=Policy)
    if source and not allows_source(policy, definition.artifacts.allowed_sources, source):
        raise error("mint_scope_denied", f"{source} is no allowed artifact source of the operation")


def _next_number(draft: Draft, request: MintRequest) -> int:
    minted = 0
    for number in range(1, MOST_ASKED + 1):
        row = draft.get(MintRow, (request.attempt_uid, request.step_id, number))
        if row is None:
            if minted >= MOST_MINTED:
                break
            return number
        if row.request_digest == request.digest():
            raise error("mint_replayed", "this request was answered before")
        minted += row.state != "failed"
    raise error("mint_limit", f"step {request.step_id} has asked for credentials too often in this attempt")


def _deadline_ms(task: TaskRow, operation: OperationRow, definition: Definition) -> int:
    """The task's own, counted from when it began (CR-03)."""
    policy = msgspec.json.decode(operation.policy, type=Policy)
    said = [seconds for seconds in (definition.timeout_seconds, policy.timeout_seconds) if seconds > 0]
    return task.started_at_ms + min(said, default=86_400) * 1000
