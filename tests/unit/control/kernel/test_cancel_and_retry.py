"""OP-17 and RT-02..RT-04."""

import msgspec
import pytest

from hostler.control.kernel.commands import (
    Actor,
    CancelOperation,
    ExpireTasks,
    FoldReports,
    NodeHello,
    RetryOperation,
)
from hostler.control.kernel.orders import CancelOrder, TaskOrder
from hostler.control.kernel.rows import AttemptRow
from hostler.wire.node import Hello
from hostler.wire.report import Report, StepReport, StepStatus, TaskReport, TaskStatus
from hostler.wire.task import Policy, ReusedStep
from support.builders import definition, render_step
from support.control import USER, submit
from support.memory_view import Bench


def cancel(operation_id: str, **more) -> CancelOperation:
    return CancelOperation(**({"actor": USER, "project_id": "train", "operation_id": operation_id} | more))


def retry(operation_id: str, **more) -> RetryOperation:
    return RetryOperation(**({"actor": USER, "project_id": "train", "operation_id": operation_id} | more))


def hello(node, high: int = 0, open_tasks: tuple[str, ...] = ()) -> NodeHello:
    said = Hello(agent_version="1", high_sequence=high, open_tasks=open_tasks)
    return NodeHello(node_id=node.node_id, session_id="s2", hello=said)


class Story:
    """One operation of several steps on one node."""

    def __init__(self, *, connected: bool = True, steps=None, policy: Policy | None = None) -> None:
        self.bench = Bench(policy)
        steps = steps or [render_step(f"s{n}", path=f"/srv/{n}") for n in range(3)]
        self.bench.define(definition(*steps))
        self.node = self.bench.node(connected=connected)
        self.operation_id = self.bench.run(submit(self.node)).operation_id
        self._outbox = 0

    @property
    def task(self):
        return self.bench.tasks(self.operation_id)[0]

    @property
    def status(self) -> str:
        return self.bench.operation(self.operation_id).status

    def say(self, *bodies) -> None:
        reports = []
        for body in bodies:
            self._outbox += 1
            reports.append(Report(self._outbox, body))
        self.bench.run(FoldReports(node_id=self.node.node_id, reports=tuple(reports)))

    def end(self, status: str, **more) -> None:
        task = self.task
        self.say(TaskReport(task_id=task.task_id, attempt_uid=task.attempt_uid, status=TaskStatus(status), **more))

    def step(self, index: int, status: str, **more) -> None:
        task = self.task
        self.say(
            StepReport(
                task_id=task.task_id,
                attempt_uid=task.attempt_uid,
                step_id=f"s{index}",
                step_index=index,
                step_kind="file.render",
                status=StepStatus(status),
                receipt_digest=f"receipt {task.attempt_number}.{index}",
                outputs_json=b'{"n":%d}' % index if status == "succeeded" else b"",
                **more,
            )
        )

    def reused(self) -> list[ReusedStep]:
        attempt = self.bench.view.get(AttemptRow, self.task.attempt_uid)
        return msgspec.msgpack.decode(attempt.reused, type=list[ReusedStep])

    def events(self, type_: str) -> list[str]:
        return [event.type for event in self.bench.events if event.type == type_]


def test_OP_17_a_queued_operation_is_cancelled_at_once() -> None:
    story = Story(connected=False)
    story.bench.run(cancel(story.operation_id))
    assert story.status == "canceled"
    assert story.events("operation.canceled") == ["operation.canceled"]
    assert story.bench.orders == []


def test_OP_17_EV_05_a_running_one_is_cancelled_only_after_the_agent_confirmed() -> None:
    story = Story()
    story.end("running")
    story.bench.run(cancel(story.operation_id))
    assert story.status == "running"
    assert isinstance(story.bench.orders[-1], CancelOrder)
    assert story.events("operation.canceled") == []
    story.end("canceled", error_code="canceled")
    assert story.status == "canceled"
    assert story.events("operation.canceled") == ["operation.canceled"]


def test_OP_17_a_sent_task_that_was_not_confirmed_waits_for_its_node_too() -> None:
    story = Story()
    story.bench.run(cancel(story.operation_id))
    assert story.status == "queued"
    assert [type(order) for order in story.bench.orders] == [TaskOrder, CancelOrder]
    assert story.bench.orders[1].sequence > story.bench.orders[0].sequence


def test_OP_17_a_second_cancel_signs_no_second_order() -> None:
    story = Story()
    story.bench.run(cancel(story.operation_id))
    story.bench.run(cancel(story.operation_id))
    assert len(story.bench.orders) == 2


def test_cancel_wins_or_the_operation_finished_never_both() -> None:
    story = Story()
    story.end("running")
    story.bench.run(cancel(story.operation_id))
    story.end("succeeded")
    story.end("canceled")
    assert story.status == "succeeded"
    assert story.events("operation.completed") == ["operation.completed"]
    assert story.events("operation.canceled") == []


def test_a_task_refused_after_its_cancel_counts_as_cancelled() -> None:
    story = Story()
    story.bench.run(cancel(story.operation_id))
    story.end("refused", error_code="expired")
    assert story.status == "canceled"


def test_a_cancel_for_a_node_that_is_away_is_signed_at_its_hello() -> None:
    story = Story()
    story.end("running")
    story.bench.view.put(msgspec.structs.replace(story.node, connection="lost"))
    story.bench.run(cancel(story.operation_id))
    assert not isinstance(story.bench.orders[-1], CancelOrder)
    story.bench.run(hello(story.node, high=1, open_tasks=(story.task.task_id,)))
    assert isinstance(story.bench.orders[-1], CancelOrder)


def test_a_cancel_that_the_node_never_got_is_signed_again_at_its_hello() -> None:
    story = Story()
    story.end("running")
    story.bench.run(cancel(story.operation_id))
    story.bench.run(hello(story.node, high=1, open_tasks=(story.task.task_id,)))
    assert [type(order) for order in story.bench.orders] == [TaskOrder, CancelOrder, CancelOrder]
    story.bench.run(hello(story.node, high=3, open_tasks=(story.task.task_id,)))
    assert len(story.bench.orders) == 3, "the node has it"


def test_a_cancelled_task_that_can_no_longer_start_ends_at_the_hello_of_its_node() -> None:
    story = Story()
    story.bench.view.put(msgspec.structs.replace(story.node, connection="lost"))
    story.bench.run(cancel(story.operation_id))
    story.bench.now += story.bench.settings.envelope_window_ms
    story.bench.run(hello(story.node, high=0))
    assert story.status == "canceled"


def test_OP_08_what_has_ended_cannot_be_cancelled() -> None:
    story = Story()
    story.end("succeeded")
    assert story.bench.refusal(cancel(story.operation_id)).code == "operation_final"


@pytest.mark.parametrize("make", [cancel, retry])
def test_S2_an_operation_of_another_project_or_tenant_does_not_exist(make) -> None:
    story = Story()
    stranger = Actor(kind="user", name="eve", role="project_admin", org_id="rival", project_id="train")
    for more in ({"project_id": "other"}, {"actor": stranger}):
        assert story.bench.refusal(make(story.operation_id, **more)).code == "not_found"
    assert story.bench.refusal(make("op_nothing")).code == "not_found"


def test_RT_03_a_retry_resumes_from_the_first_failed_step() -> None:
    story = Story()
    story.step(0, "succeeded")
    story.step(1, "failed", error_code="timeout")
    story.end("failed", error_code="timeout", failed_step_id="s1")
    story.bench.run(retry(story.operation_id))
    task = story.task
    assert (task.attempt_number, task.state) == (2, "assigned")
    assert story.reused() == [ReusedStep("s0", "receipt 1.0", b'{"n":0}')]
    assert isinstance(story.bench.orders[-1], TaskOrder)


def test_RT_04_a_step_that_is_not_reusable_runs_again() -> None:
    first = msgspec.structs.replace(render_step("s0", path="/srv/0"), reusable=False)
    story = Story(steps=[first, render_step("s1", path="/srv/1"), render_step("s2", path="/srv/2")])
    story.step(0, "succeeded")
    story.step(1, "succeeded")
    story.end("failed", error_code="timeout", failed_step_id="s2")
    story.bench.run(retry(story.operation_id))
    assert [step.step_id for step in story.reused()] == ["s1"]


def test_RT_03_a_third_attempt_still_knows_what_the_first_finished() -> None:
    story = Story()
    story.step(0, "succeeded")
    story.end("failed", error_code="timeout", failed_step_id="s1")
    story.bench.run(retry(story.operation_id))
    story.step(0, "reused")
    story.step(1, "succeeded")
    story.end("failed", error_code="timeout", failed_step_id="s2")
    story.bench.run(retry(story.operation_id))
    assert [(step.step_id, step.outputs_json) for step in story.reused()] == [("s0", b'{"n":0}'), ("s1", b'{"n":1}')]


def test_RT_03_an_attempt_that_never_ran_hands_on_what_it_was_given() -> None:
    story = Story()
    story.step(0, "succeeded")
    story.end("failed", error_code="timeout", failed_step_id="s1")
    story.bench.run(retry(story.operation_id))
    story.end("refused", error_code="expired")
    story.bench.run(retry(story.operation_id))
    assert [step.step_id for step in story.reused()] == ["s0"]


def test_RT_03_only_tasks_that_did_not_succeed_are_tried_again() -> None:
    bench = Bench()
    nodes = [bench.node(), bench.node()]
    operation_id = bench.run(submit(*nodes)).operation_id
    for node, status in zip(nodes, ("succeeded", "failed"), strict=True):
        task = next(task for task in bench.tasks(operation_id) if task.node_id == node.node_id)
        end = TaskReport(task_id=task.task_id, attempt_uid=task.attempt_uid, status=TaskStatus(status))
        bench.run(FoldReports(node_id=node.node_id, reports=(Report(1, end),)))
    bench.run(retry(operation_id))
    assert [(t.state, t.attempt_number) for t in bench.tasks(operation_id)] == [("succeeded", 1), ("assigned", 2)]
    operation = bench.operation(operation_id)
    assert (operation.status, operation.attempt_number, operation.error_code) == ("queued", 2, "")


def test_retry_needs_an_end_and_success_needs_none() -> None:
    story = Story()
    assert story.bench.refusal(retry(story.operation_id)).code == "operation_not_final"
    story.end("succeeded")
    assert story.bench.refusal(retry(story.operation_id)).code == "operation_final"


def test_EV_10_each_attempt_ends_with_one_terminal_event_of_its_own() -> None:
    story = Story()
    story.end("failed", error_code="timeout")
    story.bench.run(retry(story.operation_id))
    story.end("succeeded")
    ends = [
        (event.type, msgspec.json.decode(event.body)["attempt_number"])
        for event in story.bench.events
        if event.type in ("operation.failed", "operation.completed", "operation.canceled")
    ]
    assert ends == [("operation.failed", 1), ("operation.completed", 2)]


def test_OD_30_an_envelope_that_expired_untaken_is_signed_again_for_the_same_attempt() -> None:
    story = Story()
    uid = story.task.attempt_uid
    story.bench.now += story.bench.settings.envelope_window_ms
    assert story.bench.run(ExpireTasks()) == 0
    first, second = story.bench.orders
    assert second.sequence > first.sequence
    assert second.expires_at_ms > story.bench.now
    assert story.task.attempt_uid == uid
    assert story.bench.run(ExpireTasks()) == 0
    assert len(story.bench.orders) == 2


def test_only_the_operations_own_deadline_ends_a_waiting_task() -> None:
    story = Story(connected=False)
    story.bench.now += story.bench.settings.start_within_ms - 1
    assert story.bench.run(ExpireTasks()) == 0
    story.bench.now += 1
    assert story.bench.run(ExpireTasks()) == 1
    assert (story.status, story.task.error_code) == ("failed", "expired")


def test_max_concurrency_hands_a_freed_slot_to_the_next_task() -> None:
    bench = Bench(Policy(max_concurrency=1))
    nodes = [bench.node(), bench.node()]
    operation_id = bench.run(submit(*nodes)).operation_id
    first = next(task for task in bench.tasks(operation_id) if task.state == "assigned")
    end = TaskReport(task_id=first.task_id, attempt_uid=first.attempt_uid, status=TaskStatus.SUCCEEDED)
    decision = bench.decide(FoldReports(node_id=first.node_id, reports=(Report(1, end),)))
    (order,) = decision.orders
    assert order.task_id != first.task_id
    assert decision.wake == {order.node.node_id}
