"""Read-only queries about agents: plain functions over a connection, called in a reader thread."""

import sqlite3
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import msgspec

from hostler.control.kernel.agent_badges import BADGES, CURRENT, DRIFT, badge, summary
from hostler.control.kernel.agent_versions import CHANNELS
from hostler.control.store import queries
from hostler.control.store.agent_records import (
    AdminNode,
    AdminNodes,
    AgentSummary,
    ChannelView,
    Lifecycle,
    NodeAgent,
    ReleaseView,
    RunView,
)
from hostler.control.store.pages import decode_cursor, page_limit, page_of
from hostler.control.store.record_rows import columns, rows
from hostler.control.store.records import NodeView, Page
from hostler.pki.agent_report import DriftState

# a node that is away and whose certificate has run out may come back by itself (PK-05)
_EXPIRED = """n.connection != 'connected' AND n.state = 'active' AND (SELECT max(not_after_ms) FROM certificates c
    WHERE c.node_id = n.node_id AND c.state IN ('issued', 'proved')) <= :now"""
_NODE_DRIFT = f"CASE WHEN {_EXPIRED} THEN '{DriftState.CERTIFICATE_ONLY}' ELSE n.drift END"
_JUDGED = f"n.agent_version, a.commit_id, a.desired_version, a.drift_state, {_NODE_DRIFT}"
_BADGE = f"agent_badge({_JUDGED})"
_JOINED = "nodes n JOIN node_agents a ON a.node_id = n.node_id"
_AGENT = f"""SELECT n.node_id, {_BADGE} AS badge, a.channel AS agent_channel, a.pinned_version,
    a.desired_version AS desired_agent_version, n.agent_version AS reported_agent_version,
    a.commit_id AS agent_commit, a.suite, a.drift_state, a.reported_at_ms AS last_probe_at_ms,
    a.next_report_ms AS next_probe_at_ms, a.trial_version, a.delivery_mode AS desired_delivery_mode,
    a.last_delivery_attempt_ms AS last_delivery_attempt_at_ms, a.last_delivery_result,
    a.last_delivery_correlation_id, a.run_id, coalesce(r.state, '') AS run_state,
    coalesce(r.waiting_for, '') AS waiting_for
    FROM {_JOINED} LEFT JOIN agent_lifecycle_runs r ON r.run_id = a.run_id"""  # noqa: S608
_ALIKE = f"SELECT {_JUDGED}, count(*) FROM {_JOINED} WHERE n.state = 'active' GROUP BY 1, 2, 3, 4, 5"  # noqa: S608
_RUN = columns(RunView, without=("node_name", "project_id"), table="r")
_RUNS = f"""SELECT {_RUN}, n.name AS node_name, n.project_id FROM agent_lifecycle_runs r
    JOIN nodes n ON n.node_id = r.node_id"""  # noqa: S608
_RELEASE = columns(ReleaseView)
# by badge nodes are found as the cards count them: those that are in service
_OF_BADGE = f"n.state = 'active' AND CASE :badge WHEN '{DRIFT}' THEN {_BADGE} != '{CURRENT}' ELSE {_BADGE} = :badge END"
FILTERS = {"badge": _OF_BADGE, "drift": "a.drift_state = :drift", "channel": "a.channel = :channel"}
WORDS = {"badge": (*BADGES, DRIFT), "drift": tuple(DriftState), "channel": CHANNELS}


def wanted(db: sqlite3.Connection, node_id: str) -> tuple[str, str]:
    """Scheduling, and the version that the node should run; "" for neither."""
    sql = f"SELECT n.scheduling, a.desired_version FROM {_JOINED} WHERE n.node_id = ?"  # noqa: S608
    row = db.execute(sql, (node_id,)).fetchone()
    return (str(row[0]), str(row[1])) if row else ("", "")


def nodes(db: sqlite3.Connection, now_ms: int, chosen: dict[str, str], cursor: str, page_size: int) -> AdminNodes:
    """By id, with the cards over all of them.

    Args:
        chosen: filter of `FILTERS` to the value asked for.
    """
    where = " AND ".join(["n.node_id > :after", *(FILTERS[name] for name in chosen)])
    asked = {"now": now_ms, "after": decode_cursor(cursor), "limit": page_limit(page_size) + 1, **chosen}
    sql = f"{_AGENT} WHERE {where} ORDER BY n.node_id LIMIT :limit"
    page = page_of(rows(db, NodeAgent, sql, asked), page_size, attrgetter("node_id"))
    agents = {agent.node_id: agent for agent in page.items}
    found = tuple(_admin_node(node, agents[node.node_id]) for node in _nodes(db, agents))
    return AdminNodes(items=found, next_cursor=page.next_cursor, summary=_summary(db, now_ms))


def _nodes(db: sqlite3.Connection, node_ids: Iterable[str]) -> list[NodeView]:
    chosen = msgspec.json.encode(list(node_ids)).decode()
    sql = f"SELECT {queries.NODE} FROM nodes WHERE node_id IN (SELECT value FROM json_each(?)) ORDER BY node_id"  # noqa: S608
    return rows(db, NodeView, sql, (chosen,))


def _admin_node(node: NodeView, agent: NodeAgent) -> AdminNode:
    return AdminNode(**{name: getattr(node, name) for name in NodeView.__struct_fields__}, agent=agent)


def _summary(db: sqlite3.Connection, now_ms: int) -> AgentSummary:
    """Nodes that are alike are judged once: fleets run a few versions, however many nodes they have."""
    counted = summary((badge(*alike), count) for *alike, count in db.execute(_ALIKE, {"now": now_ms}))
    return AgentSummary(**counted._asdict())


def lifecycle(db: sqlite3.Connection, now_ms: int, node_id: str) -> Lifecycle | None:
    found = rows(db, NodeAgent, f"{_AGENT} WHERE n.node_id = :node", {"now": now_ms, "node": node_id})
    if not found:
        return None
    (report,) = db.execute("SELECT report FROM node_agents WHERE node_id = ?", (node_id,)).fetchone()
    latest = run(db, found[0].run_id) if found[0].run_id else None
    return Lifecycle(agent=found[0], report=bytes(report), run=latest)


def run(db: sqlite3.Connection, run_id: str) -> RunView | None:
    return next(iter(rows(db, RunView, f"{_RUNS} WHERE r.run_id = ?", (run_id,))), None)


def runs(db: sqlite3.Connection, chosen: dict[str, str], cursor: str, page_size: int) -> Page[RunView]:
    """Newest first; `chosen` is among node_id, state, rollout_id."""
    where, asked = ["1"], list[Any]()
    for name, value in chosen.items():
        where.append(f"r.{name} = ?")
        asked.append(value)
    if cursor:
        where.append("r.run_id < ?")
        asked.append(decode_cursor(cursor))
    sql = f"{_RUNS} WHERE {' AND '.join(where)} ORDER BY r.run_id DESC LIMIT ?"
    found = rows(db, RunView, sql, (*asked, page_limit(page_size) + 1))
    return page_of(found, page_size, attrgetter("run_id"))


def releases(db: sqlite3.Connection, cursor: str, page_size: int) -> Page[ReleaseView]:
    """Newest first."""
    key = "printf('%015d %s %s', published_at_ms, version, suite)"
    where, asked = ("WHERE " + key + " < ?", [decode_cursor(cursor)]) if cursor else ("", [])
    sql = f"SELECT {_RELEASE} FROM agent_releases {where} ORDER BY {key} DESC LIMIT ?"  # noqa: S608
    found = rows(db, ReleaseView, sql, (*asked, page_limit(page_size) + 1))
    return page_of(found, page_size, lambda row: f"{row.published_at_ms:015d} {row.version} {row.suite}")


def channels(db: sqlite3.Connection) -> list[ChannelView]:
    """The two that have a version, also while nobody has named it."""
    sql = """SELECT names.value AS channel, coalesce(c.version, '') AS version,
        coalesce(c.changed_at_ms, 0) AS changed_at_ms, coalesce(c.changed_by, '') AS changed_by,
        (SELECT count(*) FROM node_agents a JOIN nodes n USING (node_id)
         WHERE a.channel = names.value AND n.state = 'active') AS nodes
        FROM json_each('["stable", "candidate"]') names LEFT JOIN agent_channels c ON c.channel = names.value"""
    return rows(db, ChannelView, sql)


def package(db: sqlite3.Connection, file: str) -> str:
    """SHA-256 of the newest release of that file that was not withdrawn, "" for none."""
    sql = """SELECT sha256 FROM agent_releases WHERE file = ? AND channels != '[]'
             ORDER BY published_at_ms DESC LIMIT 1"""
    row = db.execute(sql, (file,)).fetchone()
    return str(row[0]) if row else ""
