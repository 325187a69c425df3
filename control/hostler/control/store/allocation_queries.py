"""Allocations as people see them: each node's chain with its states and reasons (DM-11)."""

import sqlite3
from operator import attrgetter
from typing import Any

import msgspec

from hostler.control.store.axes import connection_of
from hostler.control.store.pages import decode_cursor, page_limit, page_of
from hostler.control.store.record_rows import columns, rows
from hostler.control.store.records import EventView, Page


class LinkView(msgspec.Struct, frozen=True, kw_only=True):
    """`deadline_ms` counts while the link is waiting or running."""

    link: str
    ref: str
    operation_id: str
    state: str
    tries: int
    deadline_ms: int
    started_at_ms: int
    finished_at_ms: int
    error_code: str
    error_message: str


class AllocationNode(msgspec.Struct, frozen=True, kw_only=True):
    """`revoke_operation_id`: the newest access revoke outside the chain, "" for none (OD-17)."""

    node_id: str
    node_name: str
    state: str
    health: str
    connection: str
    revoke_operation_id: str
    error_code: str
    error_message: str
    finished_at_ms: int
    links: tuple[LinkView, ...] = ()


class AllocationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`finished_at_ms` is set once every node is proved clean, or revoked."""

    allocation_id: str
    org_id: str
    project_id: str
    external_id: str
    requested_by: str
    correlation_id: str
    node_count: int
    labels: Any
    provision_ref: str
    state: str
    error_code: str
    error_message: str
    created_at_ms: int
    deadline_ms: int
    active_at_ms: int
    release_requested_ms: int
    finished_at_ms: int


class AllocationView(AllocationSummary, frozen=True, kw_only=True):
    inputs: Any
    nodes: tuple[AllocationNode, ...] = ()


_SUMMARY = columns(AllocationSummary)
_VIEW = columns(AllocationView, without=("nodes",))
_LINK = columns(LinkView)
_EVENT = columns(EventView)
_ORDER = "CASE link WHEN 'provision' THEN 0 WHEN 'deprovision' THEN 1 WHEN 'identity_revoke' THEN 2 ELSE 3 END"


def allocation(db: sqlite3.Connection, project_id: str | None, allocation_id: str) -> AllocationView | None:
    sql = f"SELECT {_VIEW} FROM allocations WHERE allocation_id = ?"  # noqa: S608
    found = rows(db, AllocationView, sql, (allocation_id,))
    if not found or project_id not in (None, found[0].project_id):
        return None
    return msgspec.structs.replace(found[0], nodes=_nodes(db, allocation_id))


def _nodes(db: sqlite3.Connection, allocation_id: str) -> tuple[AllocationNode, ...]:
    sql = f"""SELECT a.node_id, n.name AS node_name, a.state, n.health, {connection_of("n")}, a.revoke_operation_id,
               a.error_code, a.error_message, a.finished_at_ms
             FROM allocation_nodes a JOIN nodes n USING (node_id) WHERE a.allocation_id = ? ORDER BY n.name"""  # noqa: S608
    return tuple(
        msgspec.structs.replace(node, links=_links(db, allocation_id, node.node_id))
        for node in rows(db, AllocationNode, sql, (allocation_id,))
    )


def _links(db: sqlite3.Connection, allocation_id: str, node_id: str) -> tuple[LinkView, ...]:
    sql = (
        f"SELECT {_LINK} FROM allocation_links"  # noqa: S608
        f" WHERE allocation_id = ? AND node_id = ? ORDER BY {_ORDER}"
    )
    return tuple(rows(db, LinkView, sql, (allocation_id, node_id)))


def allocations(
    db: sqlite3.Connection, project_id: str | None, cursor: str, page_size: int, state: str
) -> Page[AllocationSummary]:
    """Newest first."""
    where, chosen = ["1"], list[Any]()
    for condition, value in (("project_id = ?", project_id), ("state = ?", state or None)):
        if value is not None:
            where.append(condition)
            chosen.append(value)
    if cursor:
        where.append("allocation_id < ?")
        chosen.append(decode_cursor(cursor))
    sql = (
        f"SELECT {_SUMMARY} FROM allocations WHERE {' AND '.join(where)}"  # noqa: S608
        " ORDER BY allocation_id DESC LIMIT ?"
    )
    found = rows(db, AllocationSummary, sql, (*chosen, page_limit(page_size) + 1))
    return page_of(found, page_size, attrgetter("allocation_id"))


def events(db: sqlite3.Connection, allocation_id: str, after: int, limit: int) -> list[EventView]:
    """In order of their ids; the two bounds name the partial index."""
    sql = (
        f"SELECT {_EVENT} FROM events WHERE resource_name = ? AND id > ?"  # noqa: S608
        " AND resource_name >= 'allocations/' AND resource_name < 'allocations0' ORDER BY id LIMIT ?"
    )
    return rows(db, EventView, sql, (f"allocations/{allocation_id}", after, limit))
