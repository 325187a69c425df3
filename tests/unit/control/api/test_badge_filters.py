"""LC-06, API-19: nodes are found by each badge and by drift, page by page, as the cards count them."""

from pathlib import Path
from typing import Any

import httpx

from hostler.control.kernel.agent_badges import BADGES
from hostler.control.kernel.commands import RevokeNode
from hostler.control.store import agent_queries
from hostler.control.store.db import open_reader
from hostler.pki.agent_report import DriftState
from support.control import ADMIN
from support.http_api import api_in
from support.rolling import AGENTS, NEW, Nodes

PATH = "/api/v1/admin/nodes"
EACH = 3


async def all_of(admin: httpx.AsyncClient, **query: str) -> tuple[list[str], Any]:
    """Every node, two at a time, and the cards."""
    found: list[str] = []
    cursor, cards = "", None
    while cards is None or cursor:
        answer = await admin.get(PATH, params=query | {"page_size": "2", "cursor": cursor})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert len(page["items"]) <= 2
        found += [node["agent"]["badge"] for node in page["items"]]
        assert cards in (None, page["summary"]), "the same on every page"
        cursor, cards = page["next_cursor"], page["summary"]
    return found, cards


async def test_LC_06_each_badge_and_drift_find_their_nodes_over_pages(tmp_path: Path) -> None:
    async with api_in(tmp_path, settings=AGENTS) as api:
        admin = await api.client("platform_admin")
        nodes = Nodes(api.fleet)
        await nodes.prepare(*["eu"] * EACH * len(BADGES))
        said = (
            (NEW, "c", DriftState.IN_SYNC),
            ("1.0.0", "c", DriftState.IN_SYNC),
            (NEW, "c", DriftState.CONFIG_DRIFT),
            (NEW, "c", DriftState.CERTIFICATE_ONLY),
            ("dev", "unknown", DriftState.IN_SYNC),
        )
        db = api.fleet.engine._db
        for number, node in enumerate(nodes.nodes):
            version, commit, state = said[number % len(said)]
            db.execute("UPDATE nodes SET agent_version = ? WHERE node_id = ?", (version, node.node_id))
            change = "UPDATE node_agents SET commit_id = ?, drift_state = ?, desired_version = ? WHERE node_id = ?"
            db.execute(change, (commit, state, NEW, node.node_id))
        for badge in BADGES:
            found, cards = await all_of(admin, badge=badge)
            assert found == [badge] * EACH
        drifted, cards = await all_of(admin, badge="drift")
        assert len(drifted) == cards["agent_drift"] == EACH * 4
        assert "Current" not in drifted
        await api.fleet.execute(RevokeNode(actor=ADMIN, node_id=nodes.nodes[1].node_id))
        drifted, cards = await all_of(admin, badge="drift")
        assert len(drifted) == cards["agent_drift"] == EACH * 4 - 1, "what was revoked is neither listed nor counted"
        assert len((await all_of(admin, badge="Outdated"))[0]) == EACH - 1
        assert len((await all_of(admin))[0]) == EACH * 5, "it is there without a filter"


async def test_API_19_a_word_that_is_none_is_refused_and_says_which_there_are(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin = await api.client("platform_admin")
        for name, words in agent_queries.WORDS.items():
            answer = await admin.get(PATH, params={name: "fine"})
            assert (answer.status_code, answer.json()["pointer"]) == (422, f"/{name}")
            assert answer.json()["detail"] == f"{name} is one of {', '.join(words)}"
            for word in words:
                assert (await admin.get(PATH, params={name: word})).status_code == 200


async def test_API_19_a_page_is_found_by_indexes_and_the_cards_by_one_look_at_each_node(tmp_path: Path) -> None:
    """What a request costs must not grow faster than the fleet: no table is scanned within a scan."""
    async with api_in(tmp_path):
        db = open_reader(tmp_path / "control.db")
        asked: list[str] = []
        db.set_trace_callback(asked.append)
        for chosen in ({}, {"badge": "drift"}, {"badge": "Outdated"}, {"drift": "config_drift"}, {"channel": "stable"}):
            agent_queries.nodes(db, 0, chosen, "", 100)
        db.set_trace_callback(None)
        for sql in asked:
            plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}")]
            scans = [line for line in plan if line.startswith("SCAN") and "json_each" not in line]
            cards = "count(*)" in sql
            assert scans == (["SCAN n USING INDEX nodes_active_name"] if cards else []), (sql, plan)
            assert all("USING" in line for line in plan if line.startswith("SEARCH")), plan
        db.close()
