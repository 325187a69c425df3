"""What the administrators' page and a new version of a channel cost with many nodes (LC-01, LC-06, API-19).

    python tests/bench/agent_lists.py [--nodes 10000] [--plans]

Milliseconds of CPU time, so that a busy machine says the same; of the queries the best of some rounds: one answer of
`GET /api/v1/admin/nodes` per filter, its cards alone, and `SetChannel` for all of them. `--plans` prints how SQLite
goes about the queries.
"""

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hostler.control.kernel.agent_badges import BADGES
from hostler.control.kernel.agent_commands import SetChannel
from hostler.control.store import agent_queries
from hostler.control.store.db import open_reader
from support.control import ADMIN, fleet_in
from support.rolling import AGENTS, NEW, OLD, Nodes

PAGE, ROUNDS = 100, 5


def many(db: sqlite3.Connection, count: int) -> None:
    """`count` nodes like the one there is: one in ten is away, one in fifty has drifted; two certificates each."""
    for table, changed in (
        ("nodes", {"name": "'node-' || i", "connection": "CASE WHEN i % 10 = 0 THEN 'lost' ELSE connection END"}),
        ("node_agents", {"drift_state": "CASE WHEN i % 50 = 1 THEN 'config_drift' ELSE drift_state END"}),
        ("certificates", {"serial": "'s' || i"}),
        ("certificates", {"serial": "'t' || i"}),
    ):
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        changed = {"node_id": "printf('nod_%06d', i)"} | changed
        chosen = ", ".join(changed.get(name, name) for name in columns)
        db.execute(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
            f" INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} FROM (SELECT * FROM {table} LIMIT 1), n"
        )
    db.commit()


def best_ms(act: Callable[[], Any]) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        act()
        taken.append(time.process_time() - began)
    return round(min(taken) * 1000, 2)


def lists(db: sqlite3.Connection, now_ms: int) -> dict[str, float]:
    def page(**chosen: str) -> Callable[[], Any]:
        return lambda: agent_queries.nodes(db, now_ms, chosen, "", PAGE)

    asked = {"all": {}, "drift": {"drift": "config_drift"}, "channel": {"channel": "stable"}}
    asked |= {badge: {"badge": badge} for badge in (*BADGES, "drift")}
    return {"cards alone": best_ms(lambda: agent_queries._summary(db, now_ms))} | {
        f"page, {name}": best_ms(page(**chosen)) for name, chosen in asked.items()
    }


async def measure(count: int, *, plans: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        async with fleet_in(Path(folder), settings=AGENTS) as fleet:
            nodes = Nodes(fleet)
            await nodes.prepare("eu")
            many(fleet.engine._db, count)
            found = {}
            for version in (OLD, NEW):
                command = SetChannel(actor=ADMIN, channel="stable", version=version, correlation_id="c")
                began = time.process_time()
                moved = await fleet.execute(command)
                found[f"set channel to {version}, {moved} nodes"] = round((time.process_time() - began) * 1000, 2)
            with closing(open_reader(Path(folder) / "control.db")) as db:
                if plans:
                    print_plans(db, fleet.clock.now)
                return found | lists(db, fleet.clock.now)


def print_plans(db: sqlite3.Connection, now_ms: int) -> None:
    """Of every statement that one page needs."""
    said: list[str] = []
    db.set_trace_callback(said.append)
    agent_queries.nodes(db, now_ms, {"badge": "drift"}, "", PAGE)
    agent_queries.channels(db)
    db.set_trace_callback(None)
    for sql in said:
        print(" ".join(sql.split())[:200], file=sys.stderr)
        for row in db.execute(f"EXPLAIN QUERY PLAN {sql}"):
            print(f"    {row[3]}", file=sys.stderr)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--nodes", type=int, default=10_000)
    asked.add_argument("--plans", action="store_true")
    given = asked.parse_args()
    print(json.dumps(asyncio.run(measure(given.nodes, plans=given.plans)), indent=2))


if __name__ == "__main__":
    main()
