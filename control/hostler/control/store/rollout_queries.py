"""Rollouts as people see them: their waves with what became of the nodes, and the nodes in pages (API-20)."""

import sqlite3
from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.control.kernel.agent_rows import RolloutNodeRow, RolloutRow
from hostler.control.kernel.rollout_states import NODE_STATES, RUN_IN_PROGRESS, WAITING_FOR_OPERATOR
from hostler.control.store.pages import decode_cursor, encode_cursor, page_limit
from hostler.control.store.record_rows import rows
from hostler.control.store.records import Page
from hostler.control.store.tables import STATEMENTS


class WaveView(msgspec.Struct, frozen=True, kw_only=True):
    """`boundary`: `canary`, or the value of the label that made it. `states`: how many nodes of it are in each."""

    index: int
    boundary: str
    nodes: int
    states: dict[str, int]


class RolloutSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`error_code` says why it paused by itself, `failed_node` where. `states` is of all its nodes."""

    rollout_id: str
    target_version: str
    state: str
    wave: int
    waves: int
    approved_wave: int
    failures: int
    turning_back: bool
    reason: str
    error_code: str
    failed_node: str
    requested_by: str
    correlation_id: str
    created_at_ms: int
    wave_started_ms: int
    soaking_until_ms: int
    finished_at_ms: int
    nodes: int
    states: dict[str, int]


class RolloutNodeView(msgspec.Struct, frozen=True, kw_only=True):
    """One node. `agent_version` is what it runs now by its own word.

    Attributes:
        blocking_run_id, blocking_requested_by: somebody else's lifecycle run of the node that is waited for, see
            `waiting_for`; "" for none.
        next_command: what shows a person how to end that wait; "" where none is waited for.
    """

    node_id: str
    node_name: str
    wave: int
    boundary: str
    state: str
    waiting_for: str
    run_state: str
    run_waiting_for: str
    blocking_run_id: str
    blocking_requested_by: str
    next_command: str
    connection: str
    agent_version: str
    from_version: str
    run_id: str
    rollback_run_id: str
    tries: int
    started_at_ms: int
    took_at_ms: int
    failed_check: str
    error_code: str
    reason: str
    finished_at_ms: int


class RolloutView(RolloutSummary, frozen=True, kw_only=True):
    """`waiting_for_people`: nodes that somebody has to do something about; the first few, by wave."""

    waiting_for_people: tuple[RolloutNodeView, ...]
    settings: Any
    wave_list: tuple[WaveView, ...]
    members: Page[RolloutNodeView]


_ROLLOUT = STATEMENTS[RolloutRow].columns
_FROM_ROW = tuple(name for name in RolloutNodeView.__struct_fields__ if name in RolloutNodeRow.__struct_fields__)
_SHOW_RUN = "hostler agents runs"  # prints the commands that the run waits for
_MOST_PEOPLE = 20
_NODE = f"""
    SELECT {", ".join(f"m.{name}" for name in _FROM_ROW)}, n.name AS node_name, n.connection, n.agent_version,
      coalesce(r.state, '') AS run_state, coalesce(r.waiting_for, '') AS run_waiting_for,
      coalesce(b.run_id, '') AS blocking_run_id, coalesce(b.requested_by, '') AS blocking_requested_by,
      CASE WHEN m.waiting_for = '{WAITING_FOR_OPERATOR}' THEN coalesce('{_SHOW_RUN} ' || b.run_id, '') ELSE '' END
        AS next_command
    FROM agent_rollout_nodes m JOIN nodes n USING (node_id)
    LEFT JOIN agent_lifecycle_runs r
      ON r.run_id = CASE WHEN m.rollback_run_id != '' THEN m.rollback_run_id ELSE m.run_id END
    LEFT JOIN node_agents a
      ON a.node_id = m.node_id AND m.waiting_for IN ('{RUN_IN_PROGRESS}', '{WAITING_FOR_OPERATOR}')
    LEFT JOIN agent_lifecycle_runs b ON b.run_id = a.run_id AND b.finished_at_ms = 0
"""  # noqa: S608 - our own names
_PEOPLE = f"""{_NODE}
    WHERE m.rollout_id = :rollout AND b.run_id IS NOT NULL AND m.waiting_for = '{WAITING_FOR_OPERATOR}'
    ORDER BY m.wave, m.node_id LIMIT :limit
"""
_NODES = f"""{_NODE}
    WHERE m.rollout_id = :rollout AND (m.wave, m.node_id) > (:wave, :node)
      AND (:only = -1 OR m.wave = :only) AND (:state = '' OR m.state = :state)
    ORDER BY m.wave, m.node_id LIMIT :limit
"""
_COUNTS = """
    SELECT wave, max(CASE WHEN state != 'skipped' THEN boundary ELSE '' END), state, count(*)
    FROM agent_rollout_nodes WHERE rollout_id = ? GROUP BY wave, state ORDER BY wave
"""


class Wanted(msgspec.Struct, frozen=True):
    """Which of a rollout's nodes: `wave` -1 and `state` "" for any."""

    cursor: str = ""
    page_size: int = 100
    wave: int = -1
    state: str = ""


def rollout(db: sqlite3.Connection, rollout_id: str, wanted: Wanted) -> RolloutView | None:
    sql = f"SELECT {_ROLLOUT} FROM agent_rollouts WHERE rollout_id = ?"  # noqa: S608
    found = rows(db, RolloutRow, sql, (rollout_id,))
    if not found:
        return None
    waves = _waves(db, rollout_id)
    return RolloutView(
        **_summary(db, found[0], waves),
        waiting_for_people=tuple(rows(db, RolloutNodeView, _PEOPLE, {"rollout": rollout_id, "limit": _MOST_PEOPLE})),
        settings=msgspec.json.decode(found[0].settings),
        wave_list=tuple(waves),
        members=_nodes(db, rollout_id, wanted),
    )


def rollouts(db: sqlite3.Connection, cursor: str, page_size: int, state: str) -> Page[RolloutSummary]:
    """Newest first."""
    where, chosen = ["1"], list[Any]()
    if state:
        where.append("state = ?")
        chosen.append(state)
    if cursor:
        where.append("rollout_id < ?")
        chosen.append(decode_cursor(cursor))
    sql = (
        f"SELECT {_ROLLOUT} FROM agent_rollouts WHERE {' AND '.join(where)}"  # noqa: S608
        " ORDER BY rollout_id DESC LIMIT ?"
    )
    found = rows(db, RolloutRow, sql, (*chosen, page_limit(page_size) + 1))
    shown = [RolloutSummary(**_summary(db, row, _waves(db, row.rollout_id))) for row in found[:page_size]]
    following = encode_cursor(shown[-1].rollout_id) if len(found) > page_size else ""
    return Page(tuple(shown), following)


def _summary(db: sqlite3.Connection, row: RolloutRow, waves: list[WaveView]) -> dict[str, Any]:
    states = {state: sum(wave.states.get(state, 0) for wave in waves) for state in NODE_STATES}
    taken = {name: getattr(row, name) for name in RolloutSummary.__struct_fields__ if hasattr(row, name)}
    named = db.execute("SELECT name FROM nodes WHERE node_id = ?", (row.failed_node_id,)).fetchone()
    return taken | {
        "turning_back": bool(row.turning_back),
        "failed_node": str(named[0]) if named else "",
        "nodes": sum(wave.nodes for wave in waves),
        "states": {state: count for state, count in states.items() if count},
    }


def _waves(db: sqlite3.Connection, rollout_id: str) -> list[WaveView]:
    found: dict[int, tuple[str, dict[str, int]]] = {}
    for wave, boundary, state, count in db.execute(_COUNTS, (rollout_id,)):
        known, states = found.get(wave, ("", {}))
        found[wave] = known or boundary, states | {state: count}
    return [
        WaveView(index=wave, boundary=boundary, nodes=sum(states.values()), states=states)
        for wave, (boundary, states) in found.items()
    ]


def _nodes(db: sqlite3.Connection, rollout_id: str, wanted: Wanted) -> Page[RolloutNodeView]:
    wave, node = _position(wanted.cursor)
    asked = {
        "rollout": rollout_id,
        "wave": wave,
        "node": node,
        "only": wanted.wave,
        "state": wanted.state,
        "limit": page_limit(wanted.page_size) + 1,
    }
    found = rows(db, RolloutNodeView, _NODES, asked)
    shown = tuple(found[: wanted.page_size])
    if len(found) <= wanted.page_size:
        return Page(shown, "")
    return Page(shown, encode_cursor(f"{shown[-1].wave}:{shown[-1].node_id}"))


def _position(cursor: str) -> tuple[int, str]:
    """Raises `invalid_cursor`."""
    if not cursor:
        return -1, ""
    wave, colon, node = decode_cursor(cursor).partition(":")
    if not colon or not (wave.isascii() and wave.isdigit() and len(wave) <= 6):
        raise error("invalid_cursor", "the cursor is of another list")
    return int(wave), node
