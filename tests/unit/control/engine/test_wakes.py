"""Waking: nothing waits for a tick, and nobody is woken for another's news."""

import asyncio

from hostler.control import wakes as module
from hostler.control.wakes import Wakes
from support.control import fleet_in


async def test_a_topic_that_moved_before_the_wait_answers_at_once() -> None:
    wakes = Wakes()
    wakes.publish({"op_1": 7, "*": 7}, (), ())
    assert await wakes.changed("op_1", 6, 5)
    assert not await wakes.changed("op_1", 7, 0.01)


async def test_a_waiter_is_woken_by_its_own_topic_only() -> None:
    wakes = Wakes()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(wakes.changed("op_1", 0, 5))
        await asyncio.sleep(0)
        wakes.publish({"op_2": 3}, (), ())
        await asyncio.sleep(0)
        assert not waiting.done()
        wakes.publish({"op_1": 4}, (), ())
    assert waiting.result()
    assert wakes._waiting == {}


async def test_a_node_nobody_listens_for_leaves_nothing_behind() -> None:
    wakes = Wakes()
    event = wakes.node("nod_1")
    wakes.publish({}, ("nod_1", "nod_2"), ())
    assert event.is_set()
    assert set(wakes._nodes) == {"nod_1"}
    wakes.forget("nod_1")
    assert wakes._nodes == {}


async def test_old_topics_make_room_for_new_ones(monkeypatch) -> None:
    monkeypatch.setattr(module, "MAX_TOPICS", 3)
    wakes = Wakes()
    for number in range(10):
        wakes.publish({f"op_{number}": number + 1}, (), ())
    assert set(wakes._newest) == {"op_7", "op_8", "op_9"}


async def test_a_submit_wakes_its_node_and_its_followers(tmp_path) -> None:
    async with fleet_in(tmp_path) as fleet:
        await fleet.publish()
        node = await fleet.node()
        event = fleet.engine.wakes.node(node.node_id)
        newest = (await fleet.events())[-1].id
        async with asyncio.TaskGroup() as group:
            following = group.create_task(fleet.engine.wakes.changed("*", newest, 5))
            operation_id = await fleet.submit(node)
        assert event.is_set()
        assert following.result()
        assert await fleet.engine.wakes.changed(operation_id, 0, 0.01)


async def test_a_new_catalog_wakes_every_session(tmp_path) -> None:
    async with fleet_in(tmp_path) as fleet:
        event = fleet.engine.wakes.node("nod_1")
        await fleet.publish()
        assert event.is_set()
