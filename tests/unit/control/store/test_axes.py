"""OD-15: how a node's connection is called, wherever it is read; rows of older control planes say it too."""

from pathlib import Path
from typing import Any

from hostler.control.kernel.commands import RevokeNode
from hostler.control.store.axes import CONNECTIONS
from support.control import ADMIN, FakeNode, Fleet, fleet_in
from support.lending import place


async def seen(fleet: Fleet, node: FakeNode) -> str:
    view = await fleet.engine.reader.node(node.node_id)
    (listed,) = (await fleet.engine.reader.nodes(None, None, "", 10)).items
    assert view is not None
    assert listed.connection == view.connection
    trusted = await fleet.engine.reader.trust_of_nodes()
    assert all(each.connection == view.connection for each in trusted)
    return str(view.connection)


async def test_OD_15_a_node_is_enrolling_connected_lost_and_retired(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        node = await fleet.enroll("gpu-1")
        passed = [await seen(fleet, node)]
        await fleet.connect(node)
        passed.append(await seen(fleet, node))
        await fleet.lose(node)
        passed.append(await seen(fleet, node))
        await fleet.execute(RevokeNode(actor=ADMIN, node_id=node.node_id))
        passed.append(await seen(fleet, node))
        assert tuple(passed) == CONNECTIONS
        kept: Any = fleet.engine._db.execute("SELECT connection FROM nodes").fetchall()
        assert kept == [("lost",)], "the row keeps its own words, so that no old row breaks"


async def test_OD_15_an_allocation_says_it_in_the_same_words(tmp_path: Path) -> None:
    async with place(tmp_path) as at:
        allocation_id = await at.active()
        assert [node["connection"] for node in (await at.show(allocation_id))["nodes"]] == ["connected"]
        await at.fleet.execute(RevokeNode(actor=ADMIN, node_id=at.nodes[0].node_id))
        assert [node["connection"] for node in (await at.show(allocation_id))["nodes"]] == ["retired"]
