"""API-21, LC-17, LC-18, LC-20, SK-23: what `recover` does, what it leaves alone, and what an answer moves."""

import json
from typing import Any

import msgspec
import pytest

from hostler.control.kernel.allocation_commands import CordonNode, ProbeNode, QuarantineNode, ReleaseAllocation
from hostler.control.kernel.commands import FoldReports, NodeGone, NodeHello, NodeStatus, RevokeNode, TasksAccepted
from hostler.control.kernel.node_commands import Recovered, RecoverNode
from hostler.control.kernel.rows import NodeRow, TaskRow
from hostler.wire.node import Hello
from hostler.wire.report import Report, StepReport, StepStatus, TaskReport, TaskStatus
from support.allocations import Lending
from support.control import ADMIN, USER, submit
from support.memory_view import Bench


def recover(node: NodeRow, reason: str = "stuck") -> RecoverNode:
    return RecoverNode(actor=ADMIN, node_id=node.node_id, reason=reason, correlation_id="cor_r")


def what(done: Recovered) -> list[str]:
    return [each.what for each in done.did]


def one_task(lending: Lending, node: NodeRow) -> TaskRow:
    """A tenant's task that the node took and of which nothing was heard since."""
    operation_id = lending.run(submit(node)).operation_id
    (task,) = lending.bench.tasks(operation_id)
    lending.run(TasksAccepted(node_id=node.node_id, task_ids=(task.task_id,)))
    return now(lending, task)


def now(lending: Lending, task: TaskRow) -> TaskRow:
    row: TaskRow = lending.bench.view.get(TaskRow, task.task_id)
    return row


def answer(lending: Lending, done: Recovered, **said: Any) -> None:
    """The node's answer to the probe that recovery has asked for."""
    operation_id = next(each.operation_id for each in done.did if each.what == "task_probed")
    (task,) = lending.bench.tasks(operation_id)
    outputs = json.dumps({"state": "unknown", "container": "none"} | said).encode()
    ids = {"task_id": task.task_id, "attempt_uid": task.attempt_uid}
    step = StepReport(
        **ids,
        step_id="truth",
        step_kind="task.probe",
        step_index=0,
        status=StepStatus.SUCCEEDED,
        outputs_json=outputs,
        started_at_ms=1,
        finished_at_ms=2,
    )
    bodies = (step, TaskReport(**ids, status=TaskStatus.SUCCEEDED))
    reports = tuple(Report(next(lending._outbox), body) for body in bodies)
    lending.run(FoldReports(node_id=task.node_id, reports=reports))


def test_LC_20_a_cloned_identity_is_let_go_and_the_next_hello_is_the_node() -> None:
    lending = Lending(1)
    (node,) = lending.nodes
    for instance in ("one", "two", "one"):
        lending.bench.decide(
            NodeHello(node_id=node.node_id, session_id=instance, hello=Hello(agent_version="1", instance_id=instance))
        )
    assert lending.node(node.node_id).hold == "identity_cloned"
    done = lending.run(recover(node))
    assert what(done) == ["hold_ended"]
    assert "not connected" in done.remains[0]
    assert lending.node(node.node_id).hold == ""
    (line,) = lending.audit("node.recover")
    body = json.loads(line.body)
    assert (body["before"]["hold"], body["after"]["hold"], body["reason"]) == ("identity_cloned", "", "stuck")


def test_P1_a_rollback_is_ended_by_the_root_alone() -> None:
    lending = Lending(1)
    (node,) = lending.nodes
    lending.run(NodeHello(node_id=node.node_id, session_id="s1", hello=Hello(agent_version="1", high_sequence=9)))
    done = lending.run(recover(node))
    assert (what(done), lending.node(node.node_id).hold) == ([], "controller_rollback")
    assert "signed by the root" in done.remains[0]


def test_LC_20_a_stuck_link_is_tried_again_and_the_chain_goes_on_to_the_pool() -> None:
    lending = Lending(1)
    allocation_id = lending.active()
    (node,) = lending.nodes
    lending.run(ReleaseAllocation(actor=USER, project_id="train", allocation_id=allocation_id))
    lending.fail(allocation_id, node.node_id)
    assert lending.state(allocation_id) == "failed"
    done = lending.run(recover(node))
    assert "link_retried" in what(done)
    assert lending.state(allocation_id) == "releasing"
    lending.clean(allocation_id, node.node_id)
    assert (lending.state(allocation_id), lending.node(node.node_id).health) == ("released", "ok")
    assert lending.node(node.node_id).baseline_of == allocation_id, "what a later probe compares with"


def test_LC_20_only_the_link_of_this_node_is_tried_again() -> None:
    lending = Lending(2)
    allocation_id = lending.active(node_count=2)
    first, second = lending.nodes
    lending.run(ReleaseAllocation(actor=USER, project_id="train", allocation_id=allocation_id))
    for node in (first, second):
        lending.fail(allocation_id, node.node_id)
    lending.run(recover(first))
    states = {lease.node_id: lease.state for lease in lending.leases(allocation_id)}
    assert states == {first.node_id: "releasing", second.node_id: "quarantined"}


def test_LC_20_a_node_that_a_failed_probe_locked_is_probed_and_a_person_s_quarantine_is_not_touched() -> None:
    lending = Lending(1)
    (node,) = lending.nodes
    operation_id = lending.run(ProbeNode(actor=ADMIN, node_id=node.node_id, correlation_id="c"))
    lending.tell(lending.bench.tasks(operation_id)[0], TaskStatus.FAILED)
    assert lending.node(node.node_id).health == "quarantined"
    (done,) = lending.run(recover(node)).did
    assert done.what == "node_probed"
    lending.tell(lending.bench.tasks(done.operation_id)[0])
    assert lending.node(node.node_id).health == "ok"
    lending.run(QuarantineNode(actor=ADMIN, node_id=node.node_id, reason="hums"))
    left = lending.run(recover(node))
    assert (what(left), lending.node(node.node_id).health) == ([], "quarantined")
    assert "hums" in left.remains[0]


def test_LC_17_a_task_that_the_node_knows_nothing_of_ends_as_interrupted() -> None:
    lending = Lending(0)
    node = lending.bench.node()
    task = one_task(lending, node)
    done = lending.run(recover(node))
    assert what(done) == ["task_probed"]
    assert what(lending.run(recover(node))) == [], "it is being asked about already"
    answer(lending, done, state="unknown")
    assert (now(lending, task).state, now(lending, task).error_code) == ("failed", "interrupted_apply")
    (event,) = lending.events("task.probed")
    assert json.loads(event.body)["found"] == "unknown"


def test_LC_17_a_task_that_runs_is_promoted_and_goes_on() -> None:
    lending = Lending(0)
    node = lending.bench.node()
    task = one_task(lending, node)
    answer(lending, lending.run(recover(node)), state="running")
    assert now(lending, task).state == "running"
    lending.tell(task)
    assert now(lending, task).state == "succeeded"


@pytest.mark.parametrize("state", ["running", "unknown", "succeeded"])
def test_LC_18_what_has_ended_stays_as_it_ended_whatever_a_probe_says(state: str) -> None:
    lending = Lending(0)
    node = lending.bench.node()
    task = one_task(lending, node)
    done = lending.run(recover(node))
    lending.tell(task, TaskStatus.FAILED)
    before = now(lending, task)
    answer(lending, done, state=state)
    assert (now(lending, task), len(lending.events("task.probed"))) == (before, 1)
    assert what(lending.run(recover(node))) == [], "an old failure is not asked about"


def test_an_answer_about_another_node_s_task_moves_nothing() -> None:
    lending = Lending(0)
    honest, liar = lending.bench.node(), lending.bench.node()
    task = one_task(lending, honest)
    one_task(lending, liar)
    done = lending.run(recover(liar))
    operation = lending.bench.operation(done.did[0].operation_id)
    about = json.dumps({"task_id": task.task_id, "attempt_uid": task.attempt_uid})
    lending.bench.view.put(msgspec.structs.replace(operation, inputs=about))
    answer(lending, done, state="unknown")
    assert now(lending, task).state == "assigned"


@pytest.mark.parametrize(("org_id", "moved"), [("rival", False), ("acme", True)])
def test_S2_no_tenants_probe_ends_the_task_of_another(org_id: str, moved: bool) -> None:
    """A node says of a foreign task that it knows nothing of it, whoever's it is."""
    lending = Lending(0)
    node = lending.bench.node()
    task = one_task(lending, node)
    done = lending.run(recover(node))
    operation = lending.bench.operation(done.did[0].operation_id)
    asked = msgspec.structs.replace(operation, trigger_source="tenant_request", org_id=org_id, project_id="train")
    lending.bench.view.put(asked)
    answer(lending, done, state="unknown")
    assert (now(lending, task).state == "failed") is moved
    assert bool(lending.events("task.probed")) is moved


def test_recovery_asks_about_a_bounded_number_of_tasks() -> None:
    lending = Lending(0)
    node = lending.bench.node(parallel_tasks=20)
    for _ in range(10):
        one_task(lending, node)
    done = lending.run(recover(node))
    assert what(done) == ["task_probed"] * 8
    assert "2 more" in done.remains[0]
    assert what(lending.run(recover(node))) == ["task_probed"] * 2


def test_what_waited_is_sent_and_what_people_wish_is_named() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(NodeGone(node_id=node.node_id, session_id="s1"))
    bench.run(CordonNode(actor=ADMIN, node_id=node.node_id, owner="ops", kind="cordoned"))
    bench.run(submit(node))
    assert any("not connected" in text for text in bench.run(recover(node)).remains)
    said = {
        "keyset_version": 1,
        "catalog_version": 1,
        "hold": "",
        "drift": "clock_skew",
        "storage": "storage_unhealthy",
    }
    bench.run(NodeHello(node_id=node.node_id, session_id="s2", hello=Hello(agent_version="1")))
    bench.run(NodeStatus(node_id=node.node_id, **said))
    left = bench.run(recover(node)).remains
    assert any("cordoned" in text for text in left)
    assert any("clock_skew" in text for text in left)


def test_a_revoked_node_is_not_recovered_and_the_refusal_is_in_the_audit() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(RevokeNode(actor=ADMIN, node_id=node.node_id))
    assert bench.refusal(recover(node)).code == "revoked"
    assert [e.type for e in bench.events][-1] == "node.recover_refused"


def test_AL_11_the_first_probe_of_a_new_node_takes_its_baseline_and_clears_no_quarantine() -> None:
    lending = Lending(0)
    node = lending.pool_node(baseline_of="")
    lending.run(QuarantineNode(actor=ADMIN, node_id=node.node_id, reason="new here"))
    for expected, health in (("node.baseline.take", "quarantined"), ("node.reclaim.probe", "ok")):
        operation_id = lending.run(ProbeNode(actor=ADMIN, node_id=node.node_id, correlation_id="c"))
        operation = lending.bench.operation(operation_id)
        assert operation.operation_type == expected
        assert json.loads(operation.inputs)["allocation_id"] == "enrolled"
        lending.tell(lending.bench.tasks(operation_id)[0])
        assert lending.node(node.node_id).health == health
    assert len(lending.events("node.baseline_taken")) == 1
