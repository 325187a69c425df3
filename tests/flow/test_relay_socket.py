"""API-26 at the control plane's edges: who may attach over HTTP and over gRPC, and what flows between them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from hostler.catalog.load import load_profiles
from hostler.cli.demo_files import builtin_profiles
from hostler.control.api import relay as edge
from hostler.control.rpc import relays
from hostler.v1 import node_pb2_grpc
from hostler.wire.codec_relay import relay_message, relay_value
from hostler.wire.relay import STDIN, STDOUT, WINDOW, RelayBeat, RelayData, RelayEnd, RelayOpen, RelayWindow
from hostler.wire.report import TaskReport, TaskStatus
from support.builders import definition
from support.fake_node import FakeNode, Session
from support.plane import ORG, PROJECT, Plane, plane, submission, until

pytestmark = pytest.mark.timeout(60)
INSIDE = sorted(
    each.type for each, _ in load_profiles(builtin_profiles()).definitions if each.type.startswith("job.task.")
)
EXEC = next(each for each, _ in load_profiles(builtin_profiles()).definitions if each.ref == "job.task.exec@v1")


@dataclass
class Place:
    control: Plane
    node: FakeNode
    session: Session
    job: str
    clients: dict[str, httpx.AsyncClient]

    async def ask(self, who: str = "", **body: Any) -> httpx.Response:
        client = self.clients[who] if who else self.control.http
        path = f"/api/v1/projects/{PROJECT}/jobs/{self.job}/exec"
        return await client.post(path, json={"command": ["sh"]} | body)

    async def made(self, who: str = "") -> dict[str, Any]:
        answer = await self.ask(who)
        assert answer.status_code == 202, answer.text
        await self.session.take()
        return answer.json()  # type: ignore[no-any-return]

    @asynccontextmanager
    async def socket(self, path: str, who: str = "") -> AsyncIterator[ClientConnection]:
        client = self.clients[who] if who else self.control.http
        headers = {"authorization": client.headers.get("authorization", "")}
        async with connect(self.control.ports.server.replace("http", "ws") + path, additional_headers=headers,
                           proxy=None, compression=None) as socket:  # fmt: skip
            yield socket

    async def status_of(self, path: str, who: str = "") -> int:
        try:
            async with self.socket(path, who):
                return 101
        except InvalidStatus as err:
            return err.response.status_code


@asynccontextmanager
async def place_in(folder: Path, **settings: Any) -> AsyncIterator[Place]:
    async with plane(folder, **settings) as control:
        await control.publish(definition(), EXEC)
        node = await control.enroll("gpu-1")
        roles = {"ann": "project_admin", "ben": "project_admin", "vera": "project_viewer", "max": "project_member"}
        clients = {name: await control.principal(name, role, ORG, PROJECT) for name, role in roles.items()}
        clients["rival"] = await control.principal("rival", "tenant_admin", "rival")
        clients["nobody"] = control.client("")
        try:
            async with node.session() as session:
                job = await control.submit(node)
                (spec,) = await session.take()
                common = {"task_id": spec.task_id, "attempt_uid": spec.attempt_uid}
                await session.report(node.reports(TaskReport(**common, status=TaskStatus.RUNNING, at_ms=1)))
                yield Place(control, node, session, job, clients)
        finally:
            for client in clients.values():
                await client.aclose()


@asynccontextmanager
async def opened(node: FakeNode, relay_id: str) -> AsyncIterator[Any]:
    """The agent's end."""
    async with node.channel() as channel:
        call = node_pb2_grpc.NodeServiceStub(channel).Relay(wait_for_ready=True)
        await call.write(relay_message(RelayOpen(relay_id)))
        yield call
        call.cancel()


async def heard(call: Any, type_: type[Any]) -> Any:
    async with asyncio.timeout(10):
        while True:
            message = await call.read()
            assert message is not grpc.aio.EOF
            if isinstance(frame := relay_value(message), type_):
                return frame


async def refusal(call: Any) -> grpc.StatusCode:
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        async with asyncio.timeout(10):
            while await call.read() is not grpc.aio.EOF:
                pass
    code: grpc.StatusCode = await call.code()
    return code


async def test_API_26_bytes_flow_between_a_socket_and_a_stream(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        made = await place.made("ann")
        async with opened(place.node, made["relay_id"]) as call, place.socket(made["path"], "ann") as socket:
            assert await heard(call, RelayWindow) == RelayWindow(WINDOW)
            await call.write(relay_message(RelayWindow(100)))
            assert await socket.recv() == '{"type":"window","bytes":100}'
            await socket.send(bytes((STDIN,)) + b"ls\n")
            assert await heard(call, RelayData) == RelayData(STDIN, b"ls\n")
            await socket.send('{"type":"eof"}')
            assert await heard(call, RelayEnd) == RelayEnd()
            await call.write(relay_message(RelayData(STDOUT, b"files")))
            assert await socket.recv() == bytes((STDOUT,)) + b"files"
            assert await heard(call, RelayWindow) == RelayWindow(5)
            await call.write(relay_message(RelayEnd(exit_code=4)))
            assert await socket.recv() == '{"type":"exit","code":4}'

        async def none_is_open() -> bool:
            return "\nhostler_relay_open 0.0\n" in (await place.control.http.get("/metrics")).text

        await until(none_is_open)


async def test_S2_only_who_asked_may_attach_and_nobody_learns_more(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        made = await place.made("ann")
        wanted = {"ben": 404, "rival": 404, "vera": 403, "nobody": 401}
        assert {who: await place.status_of(made["path"], who) for who in wanted} == wanted
        other = made["path"].replace(f"/{PROJECT}/", "/lab/")
        assert await place.status_of(other, "ann") == 404
        async with place.socket(made["path"], "ann"):
            assert await place.status_of(made["path"], "ann") == 409


async def test_S2_a_principal_that_lost_the_project_cannot_attach(tmp_path: Path) -> None:
    """The same name in another tenant is another principal."""
    async with place_in(tmp_path) as place:
        made = await place.made("ann")
        await place.control.http.delete("/api/v1/admin/principals/ann")
        again = await place.control.principal("ann", "project_admin", "rival", "lab")
        place.clients["ann again"] = again
        assert await place.status_of(made["path"], "ann again") == 404
        assert await place.status_of(made["path"], "ann") == 401


async def test_AZ_04_whose_tasks_one_may_enter(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        assert (await place.ask("max")).json()["error_code"] == "scope_denied"
        assert (await place.ask("vera")).status_code == 403
        assert (await place.ask("rival")).status_code == 404
        assert (await place.ask(task_index=7)).json()["error_code"] == "task_not_running"
        assert (await place.ask("ann")).status_code == 202


@pytest.mark.parametrize("operation_type", INSIDE)
async def test_AZ_04_a_member_enters_no_task_by_an_operation_of_its_own_making(
    tmp_path: Path, operation_type: str
) -> None:
    """It could name anybody's task there, and a relay that is its own."""
    async with place_in(tmp_path) as place:
        (task,) = (await place.control.operation(place.job))["tasks"]
        inputs = {"task_id": task["task_id"], "attempt_uid": task["attempt_uid"], "relay_id": "r", "command": ["sh"]}
        asked = submission(place.node, operation_type=operation_type, inputs=inputs)
        answer = await place.clients["max"].post(f"/api/v1/projects/{PROJECT}/operations", json=asked)
        assert (answer.status_code, answer.json()["error_code"]) == (422, "invalid_request")


async def test_OD_08_another_node_cannot_answer(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        made = await place.made("ann")
        other = await place.control.enroll("gpu-2")
        async with opened(other, made["relay_id"]) as call:
            assert await refusal(call) == grpc.StatusCode.NOT_FOUND
        async with opened(place.node, made["relay_id"]) as call, place.socket(made["path"], "ann"):
            await heard(call, RelayWindow)


async def test_X1_a_stream_that_does_not_begin_with_a_name_is_ended(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place, place.node.channel() as channel:
        call = node_pb2_grpc.NodeServiceStub(channel).Relay(wait_for_ready=True)
        await call.write(relay_message(RelayBeat()))
        assert await refusal(call) == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("said", ["{", '{"type":"resize","rows":0,"columns":1}', b"\x01output", b""])
async def test_X1_a_client_that_breaks_the_rules_is_cut(
    tmp_path: Path, said: str | bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge, "SILENT_S", 60.0)
    monkeypatch.setattr(relays, "SILENT_S", 60.0)
    async with place_in(tmp_path) as place:
        made = await place.made("ann")
        async with opened(place.node, made["relay_id"]) as call, place.socket(made["path"], "ann") as socket:
            await call.write(relay_message(RelayWindow(100)))
            assert "window" in str(await socket.recv())
            await socket.send(said)
            async with asyncio.timeout(20):  # before its silence would end it
                while "relay_closed" not in str(await socket.recv()):
                    pass


async def test_X1_input_beyond_the_window_is_cut(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        made = await place.made("ann")
        async with opened(place.node, made["relay_id"]) as call, place.socket(made["path"], "ann") as socket:
            await heard(call, RelayWindow)
            await socket.send(bytes((STDIN,)) + b"nobody granted this")
            await refusal(call)


async def test_X1_a_revoked_principal_and_a_revoked_node_lose_their_sessions(tmp_path: Path) -> None:
    async with place_in(tmp_path) as place:
        for revoke in ("principals/ann", f"nodes/{place.node.node_id}/revoke"):
            who = "ann" if "ann" in revoke else "ben"
            made = await place.made(who)
            async with opened(place.node, made["relay_id"]) as call, place.socket(made["path"], who) as socket:
                beats = asyncio.create_task(_beat(call, socket))
                await heard(call, RelayWindow)
                method = "DELETE" if who == "ann" else "POST"
                await place.control.http.request(method, f"/api/v1/admin/{revoke}")
                async with asyncio.timeout(5):
                    assert await refusal(call) != grpc.StatusCode.OK
                beats.cancel()


async def test_X1_a_client_that_says_nothing_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "SILENT_S", 0.5)
    monkeypatch.setattr(edge, "BEAT_S", 0.1)
    async with place_in(tmp_path) as place:
        made = await place.made("ann")
        async with opened(place.node, made["relay_id"]) as call, place.socket(made["path"], "ann"):
            beats = asyncio.create_task(_beat(call, None))
            async with asyncio.timeout(5):
                await refusal(call)
            beats.cancel()


async def test_a_session_in_which_nothing_moves_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "BEAT_S", 0.1)
    from hostler.control.rpc.relays import Relays

    monkeypatch.setattr(Relays, "idle_s", property(lambda self: 0.5, lambda self, value: None), raising=False)
    async with place_in(tmp_path) as place:
        made = await place.made("ann")
        async with opened(place.node, made["relay_id"]) as call, place.socket(made["path"], "ann") as socket:
            beats = asyncio.create_task(_beat(call, socket))
            async with asyncio.timeout(5):
                while "nothing moved" not in str(await socket.recv()):
                    pass
            beats.cancel()


async def _beat(call: Any, socket: ClientConnection | None) -> None:
    """As an agent and a client do that are well."""
    with contextlib.suppress(Exception):
        while True:
            await call.write(relay_message(RelayBeat()))
            if socket is not None:
                await socket.send('{"type":"beat"}')
            await asyncio.sleep(0.2)
