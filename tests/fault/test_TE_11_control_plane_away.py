"""TE-11, TE-13: the control plane goes away under a running task and comes back. Its names and its renewals survive."""

import tempfile
from pathlib import Path

import httpx

from hostler.agent.taskapi.server import SOCKET, TaskApi
from hostler.base.clock import SystemClock
from hostler.catalog.job import JobSpec
from support.plane import plane, prepare, until
from support.tasking import CAPABILITIES, JOBS, calls_of, facts_of, submit_job

NAME = {"name": "actor", "port": 30001, "lease_ms": 600_000}


async def test_TE_11_a_task_goes_on_with_what_it_knows_while_the_control_plane_is_away(tmp_path: Path) -> None:
    config = prepare(tmp_path)
    with tempfile.TemporaryDirectory(prefix="hostler-away-") as folder:
        async with plane(tmp_path, config) as control:
            await control.publish(JOBS)
            node = await control.enroll()
            async with node.session(capabilities=CAPABILITIES) as session:
                await submit_job(control, node, JobSpec(name="one", command=("true",)))
                (spec,) = await session.take()
            facts = facts_of(spec, node.node_id, {"actor": 30001})
        async with calls_of(node) as calls:
            api = TaskApi(Path(folder) / "tasks", calls, SystemClock())
            async with api.serve(facts) as directory, asking(directory) as http:
                await while_there(tmp_path, config, http)
                away = await http.put("/v1/endpoints/e1", json=NAME)
                assert (away.status_code, away.json()["error_code"]) == (503, "controller_unreachable")
                assert int(away.headers["retry-after"]) > 0
                assert (await http.get("/v1/context")).json()["job"] == "/ann/one"
                assert (await http.get("/v1/keys")).status_code == 200
                kept = await http.get("/v1/endpoints")
                assert [each["name"] for each in kept.json()["items"]] == ["actor"]
                assert int(kept.headers["age"]) >= 1
                async with plane(tmp_path, config) as control:
                    await until(lambda: renewed(http))
                    fresh = await http.get("/v1/endpoints")
                    assert "age" not in fresh.headers
                    (found,) = fresh.json()["items"]
                    assert found["renewed_at_ms"] > found["registered_at_ms"]
                    registered = control.rows("SELECT count(*) FROM events WHERE type = 'endpoint.registered'")
                    assert registered == [(1,)]


async def while_there(home: Path, config: object, http: httpx.AsyncClient) -> None:
    async with plane(home, config):  # type: ignore[arg-type]
        assert (await http.put("/v1/endpoints/e1", json=NAME)).status_code == 200
        assert (await http.get("/v1/keys")).status_code == 200
        assert len((await http.get("/v1/endpoints")).json()["items"]) == 1


async def renewed(http: httpx.AsyncClient) -> bool:
    return (await http.put("/v1/endpoints/e1", json=NAME)).status_code == 200


def asking(directory: Path) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(uds=str(directory / SOCKET))
    return httpx.AsyncClient(transport=transport, base_url="http://task", timeout=40)
