"""CG-01, CG-04: nothing is signed for a node that cannot take it; what it waits for is said, and goes when it comes."""

from typing import Any

import msgspec
import pytest

from hostler.control.kernel.commands import CancelOperation, ExpireTasks, NodeHello, NodeStatus
from hostler.control.kernel.rows import NodeRow, TaskRow
from hostler.wire.node import Hello
from support.builders import definition
from support.control import USER, submit
from support.memory_view import Bench

NEEDS = {"gpu.vendor": ["nvidia", "amd"], "os.kernel": "linux"}
NVIDIA, NOTHING = {"gpu.vendor": "nvidia", "os.kernel": "linux"}, {"gpu.vendor": "none", "os.kernel": "linux"}


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.define(definition(type_="demo.gpu", capabilities=NEEDS))
    return made


def text(capabilities: dict[str, str]) -> str:
    return msgspec.json.encode(capabilities).decode()


def heartbeat(node: NodeRow, capabilities: dict[str, str]) -> NodeStatus:
    return NodeStatus(
        node_id=node.node_id,
        keyset_version=1,
        catalog_version=1,
        storage="ok",
        hold="",
        drift="",
        capabilities=capabilities,
    )


def asked(bench: Bench, node: NodeRow, **more: Any) -> TaskRow:
    operation_id = bench.run(submit(node, operation_type="demo.gpu", **more)).operation_id
    return bench.tasks(operation_id)[0]


def again(bench: Bench, task: TaskRow) -> TaskRow:
    row = bench.view.get(TaskRow, task.task_id)
    assert isinstance(row, TaskRow)
    return row


@pytest.mark.parametrize(
    ("has", "key"),
    [
        (NOTHING, "gpu.vendor"),
        ({"gpu.vendor": "amd"}, "os.kernel"),
        ({}, "gpu.vendor"),
        ({"os.kernel": "linux"}, "gpu.vendor"),
    ],
)
def test_CG_01_a_task_waits_unsigned_for_what_its_node_lacks_and_says_for_what(
    bench: Bench, has: dict[str, str], key: str
) -> None:
    node = bench.node(capabilities=text(has))
    task = asked(bench, node)
    assert (task.state, task.waiting_for) == ("queued", f"capability_missing: {key}")
    assert bench.orders == []
    operation = bench.operation(task.operation_id)
    assert (operation.status, operation.tasks_queued) == ("queued", 1)
    (said,) = [event for event in bench.events if event.type == "task.waiting"]
    assert (said.task_id, said.error_code) == (task.task_id, "capability_missing")
    bench.run(heartbeat(node, has | {"another.key": "x"}))
    assert len([event for event in bench.events if event.type == "task.waiting"]) == 1


def test_CG_01_a_node_that_has_it_gets_the_task_at_once(bench: Bench) -> None:
    task = asked(bench, bench.node(capabilities=text(NVIDIA)))
    assert (task.state, task.waiting_for) == ("assigned", "")


def test_CG_04_the_task_goes_in_the_same_commit_in_which_the_capability_is_heard_of(bench: Bench) -> None:
    node = bench.node(capabilities=text(NOTHING))
    task = asked(bench, node)
    decision = bench.decide(heartbeat(node, NVIDIA))
    assert decision.wake == {node.node_id}
    assert (again(bench, task).state, again(bench, task).waiting_for) == ("assigned", "")
    (event,) = [event for event in bench.events if event.type == "node.capabilities_changed"]
    assert msgspec.json.decode(event.body)["changed"] == {"gpu.vendor": ["none", "nvidia"]}


def test_CG_04_a_change_that_is_not_enough_names_the_next_key(bench: Bench) -> None:
    node = bench.node(capabilities=text({}))
    task = asked(bench, node)
    bench.run(heartbeat(node, {"gpu.vendor": "amd"}))
    assert again(bench, task).waiting_for == "capability_missing: os.kernel"
    assert bench.orders == []


def test_CG_04_a_node_that_comes_back_with_the_capability_gets_what_waited(bench: Bench) -> None:
    node = bench.node(capabilities=text(NOTHING))
    task = asked(bench, node)
    hello = Hello(agent_version="1", capabilities=NVIDIA)
    bench.run(NodeHello(node_id=node.node_id, session_id="s2", hello=hello))
    assert again(bench, task).state == "assigned"


def test_CG_01_a_task_is_not_signed_again_for_a_node_that_lost_the_capability(bench: Bench) -> None:
    node = bench.node(capabilities=text(NVIDIA))
    task = asked(bench, node)
    bench.run(heartbeat(node, NOTHING))
    bench.now = task.expires_at_ms + 1
    bench.run(ExpireTasks())
    bench.run(ExpireTasks())
    assert len(bench.orders) == 1
    assert (again(bench, task).state, again(bench, task).waiting_for) == ("assigned", "capability_missing: gpu.vendor")

    bench.run(heartbeat(node, NVIDIA))
    assert len(bench.orders) == 2
    assert again(bench, task).waiting_for == ""


@pytest.mark.parametrize("late_ms", [0, 3_600_000], ids=["window-open", "window-past"])
def test_CG_01_what_was_signed_and_not_taken_is_taken_back_when_the_node_returns_without_the_capability(
    bench: Bench, late_ms: int
) -> None:
    node = bench.node(capabilities=text(NVIDIA))
    task = asked(bench, node)
    bench.now += late_ms
    bench.run(NodeHello(node_id=node.node_id, session_id="s2", hello=Hello(agent_version="1", capabilities=NOTHING)))
    waits = again(bench, task)
    assert (waits.state, waits.sequence, waits.waiting_for) == ("queued", 0, "capability_missing: gpu.vendor")
    operation = bench.operation(task.operation_id)
    assert (operation.tasks_queued, operation.tasks_in_flight) == (1, 0)
    bench.run(heartbeat(node, NVIDIA))
    assert again(bench, task).state == "assigned"
    assert again(bench, task).sequence > task.sequence, "a number is never given out twice"


def test_CG_01_what_the_node_has_taken_is_left_to_it(bench: Bench) -> None:
    node = bench.node(capabilities=text(NVIDIA))
    task = asked(bench, node)
    said = Hello(agent_version="1", capabilities=NOTHING, high_sequence=task.sequence, open_tasks=(task.task_id,))
    bench.run(NodeHello(node_id=node.node_id, session_id="s2", hello=said))
    assert (again(bench, task).state, again(bench, task).waiting_for) == ("assigned", "")


def test_CG_01_a_limited_operation_passes_over_the_node_that_lacks_it() -> None:
    from hostler.wire.task import Policy

    bench = Bench(policy=Policy(max_concurrency=1))
    bench.define(definition(type_="demo.gpu", capabilities=NEEDS))
    without, having = bench.node(capabilities=text(NOTHING)), bench.node(capabilities=text(NVIDIA))
    operation_id = bench.run(submit(without, having, operation_type="demo.gpu")).operation_id
    assert {task.node_id: task.state for task in bench.tasks(operation_id)} == {
        without.node_id: "queued",
        having.node_id: "assigned",
    }


def test_CG_01_a_waiting_task_can_be_cancelled_and_ends_at_the_operations_deadline(bench: Bench) -> None:
    node = bench.node(capabilities=text(NOTHING))
    one, other = asked(bench, node), asked(bench, node)
    bench.run(CancelOperation(actor=USER, project_id="train", operation_id=one.operation_id))
    assert (again(bench, one).state, again(bench, one).waiting_for) == ("canceled", "")
    bench.now = bench.operation(other.operation_id).deadline_ms
    assert bench.run(ExpireTasks()) == 1
    assert (again(bench, other).error_code, again(bench, other).waiting_for) == ("expired", "")


def test_CG_04_a_heartbeat_without_capabilities_takes_none_away(bench: Bench) -> None:
    node = bench.node(capabilities=text(NVIDIA))
    bench.run(heartbeat(node, {}))
    assert bench.view.get(NodeRow, node.node_id).capabilities == text(NVIDIA)


def test_CG_04_of_what_a_hostile_node_says_little_is_kept(bench: Bench) -> None:
    node = bench.node(capabilities=text(NVIDIA))
    flood = {f"k{number:05}": "v" for number in range(10_000)}
    odd = {"UPPER": "v", "a b": "v", "k" * 65: "v", "long": "v" * 129, "line": "a\nb", "": "v", "gpu.vendor": "nvidia"}
    for said in (flood, odd):
        bench.run(heartbeat(node, said))
        kept = msgspec.json.decode(bench.view.get(NodeRow, node.node_id).capabilities)
        assert len(kept) <= 64
        assert kept.keys() <= said.keys()
    assert kept == {"gpu.vendor": "nvidia"}
    said = Hello(agent_version="1", capabilities=flood)
    bench.run(NodeHello(node_id=node.node_id, session_id="s2", hello=said))
    assert len(msgspec.json.decode(bench.view.get(NodeRow, node.node_id).capabilities)) == 64
