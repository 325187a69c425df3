"""Who may ask a task's endpoint, and what a foreign one, a silent one or one that is over answers (TE-22)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hostler.catalog.job import JobSpec
from hostler.catalog.load import load_profiles
from hostler.cli.demo_files import builtin_profiles
from hostler.control.api import lines
from hostler.wire.report import TaskReport, TaskStatus
from support.plane import ORG, PROJECT, Plane, plane
from support.tasking import CAPABILITIES, JOBS, calls_of, facts_of, submit_job

LAB = "lab"
FORWARD = next(each for each, _ in load_profiles(builtin_profiles()).definitions if each.ref == "job.task.forward@v1")


class Here(NamedTuple):
    control: Plane
    path: str


@asynccontextmanager
async def house(folder: Path) -> AsyncIterator[Here]:
    """A job whose task has registered an endpoint, on a node that does nothing by itself."""
    async with plane(folder) as control:
        await control.publish(JOBS, FORWARD)
        node = await control.enroll("gpu-1")
        async with node.session(capabilities=CAPABILITIES) as session, calls_of(node) as calls:
            await submit_job(control, node, JobSpec(name="web", command=("true",)), "ann")
            (spec,) = await session.take()
            common = {"task_id": spec.task_id, "attempt_uid": spec.attempt_uid}
            await session.report(node.reports(TaskReport(**common, status=TaskStatus.RUNNING, at_ms=1)))
            task = facts_of(spec, node.node_id, {"web": 30_001})
            said = {"endpoint_id": "web-id", "name": "web", "address": "10.0.0.7:30001"}
            said |= {"node_address": "10.0.0.7", "ports": (30_001,)}
            status, answer = await calls(task, "endpoints.register", said)
            assert status == 200, answer
            yield Here(control, f"/api/v1/projects/{PROJECT}/endpoints/{task.task_id}/web-id/proxy/x?a=1")


async def code(client: Any, method: str, asked: str) -> tuple[int, str]:
    answer = await client.request(method, asked)
    return answer.status_code, answer.json()["error_code"]


def forwards(here: Here) -> int:
    (row,) = here.control.rows("SELECT COUNT(*) FROM operations WHERE operation_type = 'job.task.forward'")
    return int(row[0])


async def refused(here: Here, name: str, role: str, org: str, project: str, method: str, asked: str = "") -> Any:
    async with await here.control.principal(name, role, org, project) as client:
        return await code(client, method, asked or here.path)


async def test_AZ_04_a_member_reaches_its_own_jobs_alone(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        for name, role in (("max", "project_member"), ("vera", "project_viewer")):
            for method in ("GET", "POST"):
                said = await refused(here, f"{name}-{method.lower()}", role, ORG, PROJECT, method)
                assert said == (403, "scope_denied"), (role, method)
        assert forwards(here) == 0


async def test_S2_an_endpoint_of_another_tenant_is_not_there(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        own = here.path.replace(f"/{PROJECT}/", f"/{LAB}/")
        assert await refused(here, "rival", "tenant_admin", "rival", "", "GET") == (404, "not_found")
        assert await refused(here, "labber", "project_admin", "rival", LAB, "GET") == (404, "not_found")
        assert await refused(here, "other", "project_admin", "rival", LAB, "GET", own) == (404, "not_found")
        assert forwards(here) == 0


async def test_TE_22_no_endpoint_no_connection(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        admin = here.control.http
        assert await code(admin, "GET", here.path.replace("web-id", "other")) == (404, "not_found")
        task = here.path.split("/")[6]
        assert here.control.rows("SELECT task_id FROM endpoints") == [(task,)]
        assert forwards(here) == 0


async def test_TE_22_a_node_that_opens_nothing_is_silent_and_its_line_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "OPEN_S", 0.3)
    async with house(tmp_path) as here:
        for number in range(lines.MOST_OF_ONE + 2):
            status, what = await code(here.control.http, "GET", here.path)
            assert (status, what) == (504, "endpoint_silent"), number
