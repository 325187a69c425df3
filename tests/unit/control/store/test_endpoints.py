"""Endpoints as readers see them: by the clock and the attempt, not by the pruner (TE-11, TE-15)."""

from pathlib import Path
from typing import Any

from hostler.control.kernel.endpoint_commands import RegisterEndpoint
from hostler.control.loops.endpoints import sweep
from hostler.wire.task import TaskSpec
from support.control import Fleet
from support.job_fleet import jobs_in, submitted, worker
from support.jobs import spec as job

MINUTE = 60_000


async def running(fleet: Fleet) -> tuple[Any, TaskSpec]:
    node = await worker(fleet)
    await submitted(fleet, job("train"))
    (spec,) = await fleet.take(node)
    return node, spec


async def register(fleet: Fleet, node: Any, spec: TaskSpec, endpoint_id: str = "e1", lease_ms: int = 3 * MINUTE) -> Any:
    return await fleet.execute(
        RegisterEndpoint(
            node_id=node.node_id, task_id=spec.task_id, attempt_uid=spec.attempt_uid, endpoint_id=endpoint_id,
            name=endpoint_id, address="10.0.0.7:30001", metadata={}, lease_ms=lease_ms, node_address="10.0.0.7",
            ports=(30001,),
        )
    )  # fmt: skip


async def seen(fleet: Fleet) -> list[str]:
    named = await fleet.engine.reader.endpoints_named("acme", "train", "/ann/train", "")
    shown = await fleet.engine.reader.endpoints("train", "", "", "", 100)
    assert [each.endpoint_id for each in named] == [each.endpoint_id for each in shown.items]
    return [each.endpoint_id for each in named]


async def test_TE_11_a_lease_that_is_over_is_hidden_at_once_and_swept_later(tmp_path: Path) -> None:
    async with jobs_in(tmp_path) as fleet:
        node, spec = await running(fleet)
        await register(fleet, node, spec)
        await register(fleet, node, spec, "e2", 10 * MINUTE)
        fleet.clock.move(3 * MINUTE - 1)
        assert await seen(fleet) == ["e1", "e2"]
        fleet.clock.move(1)
        assert await seen(fleet) == ["e2"]
        assert await fleet.events(type_="endpoint.expired") == []
        assert await sweep(fleet.engine) == 1
        (event,) = await fleet.events(type_="endpoint.expired")
        assert event.body["endpoint_id"] == "e1"
        assert await sweep(fleet.engine) == 0
        await register(fleet, node, spec)
        assert await seen(fleet) == ["e1", "e2"]


async def test_TE_11_a_renewal_moves_the_deadline(tmp_path: Path) -> None:
    async with jobs_in(tmp_path) as fleet:
        node, spec = await running(fleet)
        for _ in range(5):
            await register(fleet, node, spec)
            fleet.clock.move(2 * MINUTE)
        assert await seen(fleet) == ["e1"]


async def test_TE_11_a_hard_killed_task_s_endpoint_disappears_although_its_lease_goes_on(tmp_path: Path) -> None:
    async with jobs_in(tmp_path) as fleet:
        node, spec = await running(fleet)
        await register(fleet, node, spec, lease_ms=0)
        await fleet.run(node, spec, fail_at=0, code="killed_by_signal")
        assert await seen(fleet) == []
        assert await sweep(fleet.engine) == 1


async def test_TE_15_a_row_from_before_there_were_leases_never_expires(tmp_path: Path) -> None:
    async with jobs_in(tmp_path) as fleet:
        node, spec = await running(fleet)
        await register(fleet, node, spec)
        fleet.engine._db.execute("UPDATE endpoints SET lease_deadline_ms = NULL")  # as an import leaves it
        fleet.clock.move(1000 * 24 * 60 * MINUTE)
        assert await sweep(fleet.engine) == 0
        (found,) = await fleet.engine.reader.endpoints_named("acme", "train", "/ann/train", "e1")
        assert found.lease_deadline_ms is None


async def test_AZ_10_a_name_of_another_tenant_or_project_is_not_there(tmp_path: Path) -> None:
    async with jobs_in(tmp_path) as fleet:
        node, spec = await running(fleet)
        await register(fleet, node, spec)
        ask = fleet.engine.reader.endpoints_named
        assert await ask("rival", "train", "/ann/train", "") == []
        assert await ask("acme", "lab", "/ann/train", "") == []
        assert (await fleet.engine.reader.endpoints("lab", "", "", "", 100)).items == ()
