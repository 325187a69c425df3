"""Stories of the control plane, told under a clock that stands still, with ids that count."""

from collections.abc import Awaitable, Callable

from hostler.control.kernel.commands import (
    CancelOperation,
    ExpireTasks,
    RetryOperation,
    RevokeNode,
    SetDefinitionState,
)
from hostler.control.kernel.job_commands import CancelJob
from hostler.wire.report import TaskStatus
from support.builders import definition, render_step
from support.control import ADMIN, USER, Fleet, submit, task_report
from support.job_fleet import connect, submitted, worker
from support.jobs import job_definitions
from support.jobs import spec as job

Scenario = Callable[[Fleet], Awaitable[None]]


async def succeeds_on_two_nodes(fleet: Fleet) -> None:
    nodes = [await fleet.node("gpu-1"), await fleet.node("gpu-2")]
    await fleet.execute(submit(*nodes, idempotency_key="k1"))
    await fleet.execute(submit(*nodes, idempotency_key="k1"))
    for node in nodes:
        for spec in await fleet.take(node):
            fleet.clock.move(1000)
            await fleet.run(node, spec)


async def fails_and_is_tried_again(fleet: Fleet) -> None:
    node = await fleet.node("gpu-1")
    operation_id = await fleet.submit(node, idempotency_key="k1")
    (first,) = await fleet.take(node)
    await fleet.run(node, first, fail_at=1, code="digest_mismatch")
    await fleet.execute(RetryOperation(actor=USER, project_id="train", operation_id=operation_id))
    (second,) = await fleet.take(node)
    await fleet.report(node, task_report(first, TaskStatus.SUCCEEDED))
    await fleet.run(node, second)


async def is_cancelled_queued_and_running(fleet: Fleet) -> None:
    here, away = await fleet.node("gpu-1"), await fleet.enroll("gpu-2")
    operation_id = await fleet.submit(here, away, idempotency_key="k1")
    (spec,) = await fleet.take(here)
    await fleet.report(here, *fleet.story(here, spec)[:2])
    await fleet.execute(CancelOperation(actor=USER, project_id="train", operation_id=operation_id))
    await fleet.take(here)
    await fleet.report(here, task_report(spec, TaskStatus.CANCELED, error_code="canceled"))


async def waits_for_a_node_that_was_away(fleet: Fleet) -> None:
    node = await fleet.enroll("gpu-1")
    await fleet.submit(node, idempotency_key="k1", replicas=2)
    fleet.clock.move(3_600_000)
    await fleet.connect(node)
    fleet.clock.move(600_000)
    await fleet.execute(ExpireTasks())
    await fleet.lose(node)
    await fleet.connect(node, "s2")
    for spec in await fleet.take(node):
        await fleet.run(node, spec)


async def loses_a_node(fleet: Fleet) -> None:
    kept, revoked = await fleet.node("gpu-1"), await fleet.node("gpu-2")
    await fleet.submit(kept, revoked, idempotency_key="k1")
    (spec,) = await fleet.take(kept)
    await fleet.execute(RevokeNode(actor=ADMIN, node_id=revoked.node_id))
    await fleet.execute(SetDefinitionState(actor=ADMIN, ref="demo.write@v1", state="deprecated"))
    await fleet.run(kept, spec)


async def runs_jobs(fleet: Fleet) -> None:
    """A gang, a more important job that takes its place, a child, a node that is lost for too long."""
    await fleet.publish(*job_definitions(), version=2)
    one, two = await worker(fleet, "w1", cpu=2000), await worker(fleet, "w2", cpu=2000)
    gang = await submitted(fleet, job("gang", replicas=4, gang={}, priority="low"), idempotency_key="j1")
    await submitted(fleet, job("urgent", priority="critical", relocatable=True), idempotency_key="j2")
    for node in (one, two):
        await fleet.take(node)
    for node in (one, two):
        await fleet.take(node)
        for order in node.cancels:
            await fleet.report(node, task_report(order, TaskStatus.CANCELED, error_code="canceled"))
            node.open.pop(order.task_id, None)
        node.cancels.clear()
    (task,) = await fleet.take(one)
    await fleet.report(one, task_report(task, TaskStatus.RUNNING, at_ms=fleet.clock.now))
    await submitted(fleet, job("child"), parent=task.operation_id, idempotency_key="j3")
    await fleet.lose(one)
    fleet.clock.move(60_000)
    await fleet.execute(ExpireTasks())
    await connect(fleet, one, "s2", cpu=2000)
    await fleet.take(one)
    await fleet.report(one, task_report(task, TaskStatus.CANCELED, error_code="canceled"))
    for spec in await fleet.take(two):
        await fleet.run(two, spec)
    await fleet.execute(CancelJob(actor=USER, project_id="train", job_id=gang))


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        succeeds_on_two_nodes,
        fails_and_is_tried_again,
        is_cancelled_queued_and_running,
        waits_for_a_node_that_was_away,
        loses_a_node,
        runs_jobs,
    )
}


async def tell(fleet: Fleet, scenario: Scenario) -> None:
    await fleet.publish(definition(render_step("s0"), render_step("s1", path="/srv/app/other")))
    await scenario(fleet)
