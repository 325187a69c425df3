"""The task API of one attempt (TE-04, TE-07, TE-08, TE-10, X33)."""

import asyncio
import contextlib
import stat
import tempfile
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import msgspec
import pytest
import yaml

from hostler.agent.taskapi import server as server_module
from hostler.agent.taskapi.routes import ROUTES
from hostler.agent.taskapi.server import MOST_OF_TASK, TaskApi
from hostler.base.errors import HostlerError
from hostler.sdk import TaskClient
from support.control import FrozenClock
from support.task_api import ANSWERS, FACTS, ITEM, FakeCalls, served

CONTRACT = Path(__file__).resolve().parents[4] / "proto/hostler/taskapi/v1/openapi.yaml"
DOCUMENT = yaml.safe_load(CONTRACT.read_text())
BODIES: dict[str, Any] = {
    "/v1/progress": {"done": 1, "total": 2, "unit": "steps", "note": "warming up"},
    "/v1/endpoints/{endpoint_id}": {"name": "a", "port": 30001},
    "/v1/jobs": {"name": "x", "command": ["true"]},
}


def check(value: Any, schema: dict[str, Any]) -> None:
    jsonschema.validate(value, {**schema, "components": DOCUMENT["components"]})


def test_the_contract_names_exactly_the_routes_that_are_served() -> None:
    described = {
        (method.upper(), path, tuple(p["name"] for p in operation.get("parameters", ())))
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    }
    assert described == {(route.method, route.path, route.query) for route in ROUTES}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_every_answer_and_every_refusal_is_as_the_contract_says(route: Any) -> None:
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    path = route.path.replace("{endpoint_id}", "e1").replace("{job_id}", "op_2")
    body = BODIES.get(route.path) if route.method in ("POST", "PUT") else None
    if body is not None and "requestBody" in operation:
        check(body, operation["requestBody"]["content"]["application/json"]["schema"])
    async with served() as api:
        answer = await api.http.request(route.method, path, json=body)
        assert answer.status_code < 300, answer.text
        check(answer.json(), operation["responses"][str(answer.status_code)]["content"]["application/json"]["schema"])
        if route.path == "/v1/context":
            return
        api.calls.away, api.clock.now = True, api.clock.now + 3_600_000
        if route.path == "/v1/keys":
            assert (await api.http.get(path)).json() == ANSWERS["keys"]  # kept for the attempt
            return
        away = await api.http.request(route.method, path, json=body)
        assert (away.status_code, away.headers["retry-after"]) == (503, "5")
        assert away.headers["content-type"] == "application/problem+json"
        check(away.json(), DOCUMENT["components"]["schemas"]["Problem"])
        assert away.json()["error_code"] == "controller_unreachable"


async def test_TE_08_the_context_is_the_signed_task_s_and_needs_nobody() -> None:
    async with served() as api:
        api.calls.away = True
        found = (await api.http.get("/v1/context")).json()
        assert found["parent_job"] == "/ann/train"
        assert found["ports"] == {"actor": 30001}
        assert api.calls.asked == []
    async with served(msgspec.structs.replace(FACTS, parent="", job="/ann/train")) as api:
        assert (await api.http.get("/v1/context")).json()["parent_job"] is None


async def test_TE_10_the_node_s_address_and_the_task_s_ports_are_the_agent_s_to_say() -> None:
    async with served() as api:
        await api.http.put("/v1/endpoints/e1", json={"name": "a", "port": 30001, "lease_ms": 600_000})
        method, said = api.calls.asked[-1]
        assert method == "endpoints.register"
        assert (said["address"], said["node_address"], list(said["ports"])) == ("10.0.0.7:30001", "10.0.0.7", [30001])
        await api.http.put("/v1/endpoints/e1", json={"name": "a", "port": 22})
        assert list(api.calls.asked[-1][1]["ports"]) == [30001]  # for the control plane to refuse
        forged = await api.http.put("/v1/endpoints/e1", json={"name": "a", "port": 1, "ports": [1]})
        assert (forged.status_code, forged.json()["error_code"]) == (422, "unknown_field")
        both = await api.http.put("/v1/endpoints/e1", json={"name": "a", "port": 1, "address": "10.0.0.7:1"})
        assert both.status_code == 422


async def test_lists_are_served_while_the_control_plane_is_away_but_not_for_ever_and_not_past_a_lease() -> None:
    async with served() as api:
        short = ITEM | {"name": "b", "lease_deadline_ms": api.clock.now + 60_000}
        api.calls.answers["endpoints.list"] = {"namespace": "/ann/train", "items": [ITEM, short]}
        fresh = await api.http.get("/v1/endpoints", params={"job": "/ann/other"})
        assert "age" not in fresh.headers
        api.calls.away = True
        api.clock.move(61_000)
        kept = await api.http.get("/v1/endpoints", params={"job": "/ann/other"})
        assert (kept.status_code, kept.headers["age"]) == (200, "61")
        assert [each["name"] for each in kept.json()["items"]] == ["a"]
        assert (await api.http.get("/v1/endpoints", params={"name": "a"})).status_code == 503  # never asked before
        api.clock.move(900_000)
        assert (await api.http.get("/v1/endpoints", params={"job": "/ann/other"})).status_code == 503


async def test_N1_lists_are_kept_as_long_as_they_are_few_and_small() -> None:
    async with served() as api:

        async def kept(job: str) -> bool:
            return bool((await api.http.get("/v1/endpoints", params={"job": job})).status_code == 200)

        async def ask(*jobs: str, characters: int) -> None:
            items = [ITEM | {"metadata": {"m": "x" * characters}}]
            api.calls.away, api.calls.answers["endpoints.list"] = False, {"namespace": "/ann/train", "items": items}
            assert all([await kept(job) for job in jobs])
            api.calls.away = True

        await ask("/a/1", "/a/2", characters=10)
        assert await kept("/a/1")
        assert await kept("/a/2")
        await ask("/a/3", "/a/4", "/a/5", characters=900_000)
        assert [await kept(f"/a/{number}") for number in range(1, 6)] == [False, False, False, True, True]
        await ask("/a/6", characters=3_000_000)
        assert [await kept(f"/a/{number}") for number in range(1, 7)] == [False] * 5 + [True]


async def test_what_the_control_plane_refuses_is_passed_on_with_when_to_come_back() -> None:
    async with served() as api:
        api.calls.status, api.calls.answers["jobs.show"] = 429, {"error_code": "rate_limited"}
        answer = await api.http.get("/v1/jobs/op_2")
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


async def test_progress_is_passed_on_twice_a_second_and_at_the_end() -> None:
    async with served() as api:
        shown = [
            (await api.http.post("/v1/progress", json={"done": done, "total": 9})).json()["shown"] for done in (1, 2, 9)
        ]
        assert shown == [True, False, True]
        api.clock.move(600)
        assert (await api.http.post("/v1/progress", json={"done": 3, "total": 9})).json()["shown"]


async def test_waiting_is_bounded() -> None:
    async with served() as api:
        await api.http.get("/v1/jobs/op_2", params={"wait_s": "30"})
        assert api.calls.asked[-1] == ("jobs.wait", {"job_id": "op_2", "wait_s": 30.0})
        for text in ("31", "-1", "1e9", "x"):
            assert (await api.http.get("/v1/jobs/op_2", params={"wait_s": text})).status_code == 422


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/v1/secrets/x", 404, "not_found"),
        ("POST", "/v1/context", 405, "method_not_allowed"),
        ("GET", "/v1/context?x=1", 422, "invalid_request"),
        ("GET", "/v1/jobs/", 404, "not_found"),
        ("DELETE", "/v1/endpoints", 405, "method_not_allowed"),
    ],
)
async def test_what_there_is_not_is_said(method: str, path: str, status: int, code: str) -> None:
    async with served() as api:
        answer = await api.http.request(method, path)
        assert (answer.status_code, answer.json()["error_code"]) == (status, code)


async def test_a_bug_ends_the_request_and_nothing_else() -> None:
    async with served() as api:
        api.calls.broken = RuntimeError("secret detail")
        answer = await api.http.get("/v1/jobs/op_2")
        assert (answer.status_code, answer.json()["error_code"]) == (500, "internal_error")
        assert "secret detail" not in answer.text
        api.calls.broken = None
        assert (await api.http.get("/v1/jobs/op_2")).status_code == 200


async def test_X33_only_the_container_that_is_shown_the_directory_reaches_the_socket() -> None:
    async with served() as api:
        assert stat.S_IMODE(api.path.stat().st_mode) == 0o666  # whatever user the container runs as
        assert stat.S_IMODE(api.folder.stat().st_mode) == 0o755
        assert stat.S_IMODE(api.folder.parent.stat().st_mode) == 0o700  # nobody else gets here
        assert [entry.name for entry in api.folder.iterdir()] == ["task.sock"]
    assert not api.folder.exists()


async def test_TE_20_a_directory_outlives_an_agent_that_stops_and_its_socket_is_made_anew() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base, facts = Path(folder) / "tasks", FACTS
        api = TaskApi(base, FakeCalls(), FrozenClock())
        ready = asyncio.Event()

        async def step() -> None:
            async with api.serve(facts):
                ready.set()
                await asyncio.Event().wait()

        running = asyncio.create_task(step())
        await ready.wait()
        inode = (base / facts.attempt_uid).stat().st_ino
        running.cancel()
        await asyncio.wait([running])
        assert list((base / facts.attempt_uid).iterdir()) == []
        (base / facts.attempt_uid / "task.sock").touch()  # what a killed agent leaves behind
        later = TaskApi(base, FakeCalls(), FrozenClock())
        async with later.serve(facts) as directory:
            assert directory.stat().st_ino == inode  # what the container has mounted
            assert stat.S_ISSOCK((directory / "task.sock").stat().st_mode)
        later.discard("../../etc")
        assert list(base.iterdir()) == []


async def test_a_directory_that_was_turned_into_a_link_is_not_followed(tmp_path: Path) -> None:
    base = tmp_path / "tasks"
    base.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (base / FACTS.attempt_uid).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HostlerError) as raised:
        async with TaskApi(base, FakeCalls(), FrozenClock()).serve(FACTS):
            pass
    assert raised.value.code == "file_error"
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_a_path_longer_than_an_address_of_a_socket_may_be_is_served(tmp_path: Path) -> None:
    base = tmp_path / ("x" * 100) / "tasks"
    async with TaskApi(base, FakeCalls(), FrozenClock()).serve(FACTS) as directory:
        client = TaskClient(f"unix://{directory}/task.sock")
        assert (await asyncio.to_thread(client.context))["job_id"] == "op_1"


async def test_who_speaks_slowly_is_cut_off_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "READ_S", 0.3)
    async with served() as api:
        reader, writer = await asyncio.open_unix_connection(str(api.path))
        writer.write(b"GET /v1/context HTTP/1.1\r\n")
        assert (await api.http.get("/v1/context")).status_code == 200
        async with asyncio.timeout(5):
            for _ in range(20):
                writer.write(b"x")
                await asyncio.sleep(0.05)
                if reader.at_eof():
                    break
            with contextlib.suppress(ConnectionResetError):  # told where it had not read the last byte
                assert await reader.read() == b""
        writer.close()


async def test_connections_of_a_task_are_bounded() -> None:
    async with served() as api:
        idle = [await asyncio.open_unix_connection(str(api.path)) for _ in range(MOST_OF_TASK)]
        await asyncio.sleep(0.1)
        answer = await api.http.get("/v1/context")
        assert (answer.status_code, answer.json()["error_code"]) == (429, "rate_limited")
        for _, writer in idle:
            writer.close()
        await asyncio.sleep(0.1)
        assert (await api.http.get("/v1/context")).status_code == 200


async def test_S2_tasks_that_hold_all_connections_of_a_node_leave_others_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "MOST_OF_NODE", 8)
    async with served() as api, api.server.serve(msgspec.structs.replace(FACTS, attempt_uid="att_other")) as other:
        greedy = [await asyncio.open_unix_connection(str(api.path)) for _ in range(8)]
        await asyncio.sleep(0.1)
        assert (await api.http.get("/v1/context")).status_code == 429
        own = [await asyncio.open_unix_connection(str(other / server_module.SOCKET)) for _ in range(3)]
        await asyncio.sleep(0.1)
        transport = httpx.AsyncHTTPTransport(uds=str(other / server_module.SOCKET))
        async with httpx.AsyncClient(transport=transport, base_url="http://task") as http:
            assert (await http.get("/v1/context")).status_code == 200
        for _, writer in (*greedy, *own):
            writer.close()


async def test_a_large_body_is_taken_to_the_limit_and_no_further() -> None:
    async with served() as api:
        assert (await api.http.post("/v1/jobs", json={"name": "x" * 1_000_000})).status_code == 202
        assert (await api.http.post("/v1/jobs", json={"name": "x" * (1 << 20)})).status_code == 429
