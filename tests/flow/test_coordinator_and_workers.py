"""The flow of seed 003: a coordinator and two workers find each other by name, as processes below a control plane."""

from pathlib import Path

import msgspec

from hostler.catalog.job import JobSpec
from hostler.cli.jobs_file import read_jobs
from support.plane import PROJECT, plane
from support.tasking import JOBS, ROOT, agent, ended, submit_job

EXAMPLE = ROOT / "docs/examples/coordinator_workers"


def job(name: str) -> JobSpec:
    (spec,) = read_jobs(EXAMPLE / f"{name}.yaml")
    return spec


async def test_TE_19_TE_16_TE_18_a_coordinator_and_two_workers_of_separate_root_jobs_call_each_other(
    tmp_path: Path,
) -> None:
    async with plane(tmp_path) as control:
        await control.publish(JOBS)
        async with agent(control, path=f"{EXAMPLE}:{ROOT}/agent") as running:
            coordinator = await submit_job(control, running.node, job("coordinator"))
            workers = await submit_job(control, running.node, job("workers"))
            first = await ended(control, coordinator)
            assert first["status"] == "succeeded", running.said
            assert "total=999000 workers=worker-0,worker-1" in running.said["/ann/coordinator"]
            second = await ended(control, workers)
            assert second["status"] == "succeeded", running.said
            listed = await control.call("GET", f"/api/v1/projects/{PROJECT}/operations")
            inputs = control.rows("SELECT inputs FROM operations ORDER BY created_at_ms, operation_id")
            paths = {msgspec.json.decode(row[0])["job"] for row in inputs}
            assert paths == {"/ann/coordinator", "/ann/workers", "/ann/workers/worker-0", "/ann/workers/worker-1"}
            assert len(listed["items"]) == 4
            for each in listed["items"]:
                assert (await ended(control, each["operation_id"]))["status"] in ("succeeded", "canceled")
            left = await control.call("GET", f"/api/v1/projects/{PROJECT}/endpoints")
            assert left["items"] == []
        types = {row[0] for row in control.rows("SELECT type FROM events WHERE type LIKE 'endpoint.%'")}
        assert types == {"endpoint.registered", "endpoint.removed"}
