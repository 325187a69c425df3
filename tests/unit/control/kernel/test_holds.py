"""Nodes that are held: they remember more than we do, or speak from two places. Nothing is sent to them."""

from hostler.control.kernel.commands import (
    Actor,
    ControlStarted,
    NodeGone,
    NodeHello,
    NodeStatus,
    RecoverEpoch,
    ReleaseNode,
)
from hostler.control.kernel.rows import CursorRow, MetaRow, NodeRow
from hostler.wire.node import Hello
from support.control import ADMIN, submit
from support.memory_view import Bench


def hello(node_id: str, session: str = "s1", **said: object) -> NodeHello:
    return NodeHello(node_id=node_id, session_id=session, hello=Hello(agent_version="1", **said))


def row(bench: Bench, node: object) -> NodeRow:
    return bench.view.get(NodeRow, node.node_id)


def test_P1_nothing_is_sent_to_a_node_that_has_seen_more_than_we_remember() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(hello(node.node_id, high_sequence=7))
    assert row(bench, node).hold == "controller_rollback"
    operation_id = bench.run(submit(node)).operation_id
    assert bench.orders == []
    assert bench.operation(operation_id).status == "queued"


def test_P1_what_waited_for_a_node_is_not_sent_when_it_comes_back_ahead_of_us() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(NodeGone(node_id=node.node_id, session_id="s1"))
    bench.run(submit(node))
    bench.run(hello(node.node_id, session="s2", high_sequence=7))
    assert bench.orders == []


def test_P1_a_node_that_says_that_it_holds_is_believed_also_after_we_have_caught_up() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(hello(node.node_id, hold="controller_rollback", control_epoch=1))
    bench.run(submit(node))
    assert bench.orders == []


def test_P1_what_a_node_held_for_in_an_older_epoch_is_over() -> None:
    bench = Bench(control_epoch=2)
    node = bench.node()
    bench.run(submit(node))
    bench.run(hello(node.node_id, session="s2", high_sequence=900, hold="controller_rollback", control_epoch=1))
    assert row(bench, node).hold == ""
    assert len(bench.orders) >= 1


def test_P1_a_recovery_asks_again_for_all_that_was_under_way_and_only_the_root_opens_it() -> None:
    bench = Bench()
    node = bench.node()
    bench.view.put(MetaRow("control_epoch", "1"))
    operation_id = bench.run(submit(node)).operation_id
    assert bench.refusal(RecoverEpoch(actor=ADMIN, control_epoch=1)).code == "invalid_request"
    assert bench.run(RecoverEpoch(actor=ADMIN, control_epoch=2)) == 1
    (task,) = bench.tasks(operation_id)
    assert (task.state, task.sequence) == ("queued", 0)
    operation = bench.operation(operation_id)
    assert (operation.tasks_queued, operation.tasks_in_flight) == (1, 0)
    assert bench.view.get(CursorRow, node.node_id).accepted_sequence == 0
    assert bench.view.get(MetaRow, "control_epoch").value == "2"


def test_PK_10_a_process_that_was_replaced_and_speaks_again_is_a_clone_and_neither_is_served() -> None:
    bench = Bench()
    node = bench.node()
    for session, instance in (("s1", "i1"), ("s2", "i2"), ("s3", "i3")):
        bench.run(hello(node.node_id, session=session, instance_id=instance))
    assert row(bench, node).hold == "", "restarts are no clones"
    refusal = bench.refusal(hello(node.node_id, session="s4", instance_id="i1"))
    assert refusal.code == "identity_cloned"
    assert row(bench, node).hold == "identity_cloned"
    assert any(event.type == "node.identity_cloned" for event in bench.events)
    assert bench.refusal(hello(node.node_id, session="s5", instance_id="i3")).code == "identity_cloned"
    assert bench.refusal(hello(node.node_id, session="s6", instance_id="i9")).code == "identity_cloned"
    bench.run(ReleaseNode(actor=ADMIN, node_id=node.node_id))
    bench.run(hello(node.node_id, session="s7", instance_id="i3"))
    assert row(bench, node).hold == ""


def test_the_same_process_may_dial_as_often_as_it_likes() -> None:
    bench = Bench()
    node = bench.node()
    for number in range(40):
        bench.run(hello(node.node_id, session=f"s{number}", instance_id="i1"))
    assert row(bench, node).hold == ""


def test_a_heartbeat_tells_what_was_proved_and_what_is_wrong_and_only_a_change_is_an_event() -> None:
    bench = Bench()
    node = bench.node()
    said = NodeStatus(
        node_id=node.node_id,
        keyset_version=4,
        catalog_version=9,
        storage="ok",
        hold="",
        drift="certificate_only_repair_needed",
    )
    bench.run(said)
    assert (row(bench, node).keyset_version, row(bench, node).drift) == (4, "certificate_only_repair_needed")
    before = len(bench.events)
    bench.run(said)
    assert len(bench.events) == before


def test_T11_a_new_dispatch_key_signs_again_what_nobody_has_taken() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(ControlStarted(dispatch_key_id="old"))
    bench.run(hello(node.node_id, session="s2"))
    operation_id = bench.run(submit(node)).operation_id
    (task,) = bench.tasks(operation_id)
    assert task.state == "assigned"
    orders = len(bench.orders)
    bench.run(ControlStarted(dispatch_key_id="new"))
    changed = [event for event in bench.events if event.type == "keyset.dispatch_key_changed"]
    assert len(changed) == 1
    assert task.task_id in changed[0].body
    bench.run(hello(node.node_id, session="s3", high_sequence=0))
    assert len(bench.orders) == orders + 1, "by the key that counts now"
    assert Actor(kind="system", name="x").role == ""
