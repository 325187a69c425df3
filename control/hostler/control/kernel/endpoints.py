"""Endpoints: registered, renewed, removed and swept (TE-10..TE-17, API-27).

A task speaks through its node, and only while its attempt is the present one: what a former attempt still says is
refused (`stale_attempt`). It can advertise nothing but its own ports on its own node (TE-10).
"""

import ipaddress
import re
from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.catalog.job import root_of
from hostler.control.kernel import events
from hostler.control.kernel.endpoint_commands import (
    EndpointLease,
    RegisterEndpoint,
    SweepEndpoints,
    UnregisterEndpoint,
)
from hostler.control.kernel.endpoint_rows import EndpointRow
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rows import NodeRow, OperationRow, TaskRow
from hostler.control.kernel.tasks import operation_of
from hostler.control.kernel.transitions import ASSIGNED, RUNNING

replace = msgspec.structs.replace
MIN_LEASE_MS, MAX_LEASE_MS = 180_000, 259_200_000  # 3 minutes, 72 hours (TE-12)
MOST_OF_TASK = 64
MAX_METADATA = 4096
JOB_TYPES = frozenset({"job.container.run", "job.container.private"})
ADDRESS_KEY = "node.address"  # capability: under which other nodes reach this one
_SWEPT = 500
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9.-]+)):(?P<port>[1-9][0-9]{0,4})", re.ASCII)


def register(draft: Draft, command: RegisterEndpoint) -> Decision:
    """→ `EndpointLease`.

    Raises:
        HostlerError: `stale_attempt`, `invalid_request`, `address_not_own`, `endpoint_limit`, `endpoint_removed`.
    """
    task, operation = bound(draft, command.node_id, command.task_id, command.attempt_uid)
    _check_words(command)
    _check_address(draft, command)
    lease_ms = clamped(command.lease_ms)
    namespace = root_of(job_of(operation)["job"])
    known = draft.get(EndpointRow, (task.task_id, command.endpoint_id))
    if known is None:
        _check_room(draft, task)
    elif known.state == "removed":
        # a renewal that was under way when its task took the name away
        raise error("endpoint_removed", f"endpoint {command.endpoint_id} was unregistered", hint="choose a new id")
    row = EndpointRow(
        task_id=task.task_id,
        endpoint_id=command.endpoint_id,
        attempt_uid=task.attempt_uid,
        node_id=command.node_id,
        org_id=operation.org_id,
        project_id=operation.project_id,
        operation_id=operation.operation_id,
        namespace=namespace,
        name=command.name,
        address=command.address,
        metadata=events.json_text(command.metadata),
        registered_at_ms=known.registered_at_ms if known else draft.now_ms,
        renewed_at_ms=draft.now_ms,
        lease_deadline_ms=draft.now_ms + lease_ms,
    )
    if known is None:
        draft.insert(row)
    else:
        draft.update(row)
    if known is None or _said(known) != _said(row):  # a mere renewal is no news
        draft.events.append(_event("endpoint.registered", draft, operation, task, row))
    lease = EndpointLease(
        endpoint_id=row.endpoint_id,
        name=row.name,
        namespace=namespace,
        address=row.address,
        lease_ms=lease_ms,
        lease_deadline_ms=draft.now_ms + lease_ms,
    )
    return draft.decision(lease)


def unregister(draft: Draft, command: UnregisterEndpoint) -> Decision:
    """→ whether there was one. Raises `stale_attempt`."""
    task, operation = bound(draft, command.node_id, command.task_id, command.attempt_uid)
    row = draft.get(EndpointRow, (task.task_id, command.endpoint_id))
    if row is None or row.state == "removed":
        return draft.decision(False)
    draft.update(replace(row, state="removed"))
    draft.events.append(_event("endpoint.removed", draft, operation, task, row))
    return draft.decision(True)


def sweep(draft: Draft, _: SweepEndpoints) -> Decision:
    """→ how many. Nobody sees them any more by then: readers look at the clock and the attempt themselves."""
    swept = 0
    for row in draft.view.endpoints_over(draft.now_ms, _SWEPT):
        task = draft.get(TaskRow, row.task_id)
        draft.update(replace(row, state="expired"))
        swept += 1
        if task is not None:
            operation = operation_of(draft, row.operation_id)
            draft.events.append(_event("endpoint.expired", draft, operation, task, row))
    return draft.decision(swept)


def bound(draft: Draft, node_id: str, task_id: str, attempt_uid: str) -> tuple[TaskRow, OperationRow]:
    """The task of a job and its operation, if that attempt of it runs on that node now.

    One sentence for every reason: who asks amiss learns nothing of others' tasks.
    """
    task, node = draft.get(TaskRow, task_id), draft.get(NodeRow, node_id)
    operation = draft.get(OperationRow, task.operation_id) if task else None
    fits = (
        task is not None
        and operation is not None
        and node is not None
        and node.state == "active"
        and task.node_id == node_id
        and task.attempt_uid == attempt_uid
        and task.state in (ASSIGNED, RUNNING)
        and operation.operation_type in JOB_TYPES
    )
    if not fits or task is None or operation is None:
        raise error("stale_attempt", f"task {task_id[:64]} of a job does not run on this node at that attempt")
    return task, operation


def job_of(operation: OperationRow) -> dict[str, Any]:
    """What the job was submitted as; the inputs of its operation."""
    inputs: dict[str, Any] = msgspec.json.decode(operation.inputs)
    return inputs


def clamped(lease_ms: int) -> int:
    """TE-12. 0 is unset."""
    return max(MIN_LEASE_MS, min(lease_ms, MAX_LEASE_MS)) if lease_ms else MAX_LEASE_MS


def host_and_port(address: str) -> tuple[str, int]:
    """Raises `invalid_request` for what is no `host:port`."""
    found = _ADDRESS.fullmatch(address) if len(address) <= 300 else None
    port = int(found["port"]) if found else 0
    if found is None or port > 65_535:
        raise error("invalid_request", "an address is host:port, such as 10.0.0.7:30001", pointer="/address")
    return found["six"] or found["host"], port


def _check_words(command: RegisterEndpoint) -> None:
    if not _ID.fullmatch(command.endpoint_id):
        raise error("invalid_request", "an endpoint id has 1 to 64 letters, digits and ._-", pointer="/endpoint_id")
    if not _NAME.fullmatch(command.name):
        raise error("invalid_request", "an endpoint's name has 1 to 128 letters, digits and ._-", pointer="/name")
    if len(events.json_text(command.metadata)) > MAX_METADATA:
        raise error("invalid_request", f"metadata is {MAX_METADATA} bytes at most", pointer="/metadata")


def _check_address(draft: Draft, command: RegisterEndpoint) -> None:
    """Its own node, or loopback there, and a port that it holds."""
    host, port = host_and_port(command.address)
    node = draft.get(NodeRow, command.node_id)
    reported = str(msgspec.json.decode(node.capabilities).get(ADDRESS_KEY, "")) if node else ""
    own = reported or command.node_address
    if not (_same(host, own) or _is_loopback(host)):
        raise error("address_not_own", f"{host} is not the address of the node that the task runs on")
    if port not in command.ports:
        raise error("address_not_own", f"port {port} is not one of the task's", hint="name it among the job's ports")


def _same(host: str, own: str) -> bool:
    try:
        return ipaddress.ip_address(host) == ipaddress.ip_address(own)
    except ValueError:
        return bool(own) and host.lower() == own.lower()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_room(draft: Draft, task: TaskRow) -> None:
    held = draft.rows_of(EndpointRow, draft.view.endpoints_of_task(task.task_id))
    if sum(row.state == "registered" for row in held) >= MOST_OF_TASK:
        raise error("endpoint_limit", f"the task has {MOST_OF_TASK} endpoints already")


def _said(row: EndpointRow) -> tuple[str, ...]:
    return row.attempt_uid, row.name, row.address, row.metadata, row.state


def _event(type_: str, draft: Draft, operation: OperationRow, task: TaskRow, row: EndpointRow) -> Any:
    return events.task_event(
        type_,
        operation,
        task,
        draft.now_ms,
        endpoint_id=row.endpoint_id,
        name=row.name,
        namespace=row.namespace,
        address=row.address,
    )
