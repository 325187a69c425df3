"""The client's end of a relay: a WebSocket. Binary messages are a byte for the stream and its data, text is JSON.

client → {"type": "resize", "rows": 24, "columns": 80} · {"type": "eof"} · {"type": "beat"}
server → {"type": "window", "bytes": n}, which is how much more input it takes · {"type": "beat"} · and at the end
{"type": "exit", "code": 0} or {"type": "error", "error_code": "relay_closed", "message": "…"}
"""

import asyncio
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from hostler.base.errors import HostlerError, error
from hostler.base.ids import new_id
from hostler.base.logs import get_logger
from hostler.control.api.authz import is_unlimited, permit, permit_project
from hostler.control.api.call import Parts
from hostler.control.api.principal import Caller
from hostler.control.api.problems import problem
from hostler.control.rpc.relays import Relay
from hostler.wire.relay import STDIN, RelayData, RelayEnd, RelayFrame, RelayWindow

_log = get_logger("hostler.control.api.relay")
PATH = "/api/v1/projects/{project_id}/relays/{relay_id}"
MAX_MESSAGE = 65_536
BEAT_S, SILENT_S = 1.0, 4.0
_LAST_WORD_S = 1.0
Extent = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class Resize(msgspec.Struct, frozen=True, tag="resize", forbid_unknown_fields=True):
    rows: Extent
    columns: Extent


class Eof(msgspec.Struct, frozen=True, tag="eof", forbid_unknown_fields=True):
    pass


class Beat(msgspec.Struct, frozen=True, tag="beat", forbid_unknown_fields=True):
    pass


_SAID: "msgspec.json.Decoder[Resize | Eof | Beat]" = msgspec.json.Decoder(Resize | Eof | Beat)
_BEAT = '{"type":"beat"}'


async def serve(socket: WebSocket, *, parts: Parts) -> None:
    """Refuses before it accepts: whoever may not attach learns no more than from any other route."""
    project_id, relay_id = socket.path_params["project_id"], socket.path_params["relay_id"]
    authorization = socket.headers.get("authorization", "")
    try:
        caller = await parts.authenticator.of(authorization)
        permit(caller, "jobs.exec")
        if not is_unlimited(caller):
            permit_project(caller, await parts.projects.org_of(project_id), project_id)
        with parts.relays.of_client(relay_id, project_id, caller.name) as relay:
            await socket.accept()
            await _Attached(socket, relay, parts, caller, authorization).run()
    except HostlerError as err:
        _log.info("relay.refused", error_code=err.code)
        await socket.send_denial_response(problem(err, new_id("cor", parts.engine.clock.now_ms())))


async def unsupported(socket: WebSocket, *, parts: Parts) -> None:
    """Where HTTP alone is spoken."""
    try:
        await parts.authenticator.of(socket.headers.get("authorization", ""))
        raise error("upgrade_unsupported", "a request through the proxy stays HTTP/1.1")
    except HostlerError as err:
        await socket.send_denial_response(problem(err, new_id("cor", parts.engine.clock.now_ms())))


class _Attached:
    def __init__(self, socket: WebSocket, relay: Relay, parts: Parts, caller: Caller, authorization: str) -> None:
        self._socket = socket
        self._relay = relay
        self._parts = parts
        self._caller = caller
        self._authorization = authorization
        self._heard_at = asyncio.get_running_loop().time()
        self._moved_at = self._heard_at
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        """Until either end is through. The program's last word goes to the client first, if it takes it in time."""
        async with asyncio.TaskGroup() as group:
            up = group.create_task(self._up())
            others = [group.create_task(self._down()), group.create_task(self._watch())]
            await asyncio.wait((up, *others), return_when=asyncio.FIRST_COMPLETED)
            self._relay.close("relay_closed", "the client has left the session")
            await asyncio.wait((up,), timeout=_LAST_WORD_S)
            for task in (up, *others):
                task.cancel()

    async def _up(self) -> None:
        """To the client. A slow one holds up the program that writes, and nothing else."""
        try:
            async for frame in self._relay.to_client():
                await self._pass_on(frame)
        except (WebSocketDisconnect, RuntimeError, OSError):
            return  # it has gone

    async def _pass_on(self, frame: RelayFrame) -> None:
        self._moved_at = asyncio.get_running_loop().time()
        if isinstance(frame, RelayData):
            await self._send(bytes=bytes((frame.stream,)) + frame.data)
        elif isinstance(frame, RelayWindow):
            await self._send(text=f'{{"type":"window","bytes":{frame.bytes}}}')
        elif isinstance(frame, RelayEnd):
            await self._end(frame)

    async def _end(self, frame: RelayEnd) -> None:
        said: dict[str, Any] = {"type": "exit", "code": frame.exit_code}
        if frame.error_code:
            said = {"type": "error", "error_code": frame.error_code, "message": frame.message}
        await self._send(text=msgspec.json.encode(said).decode())
        await self._socket.close()

    async def _down(self) -> None:
        """From the client. Ends when it goes, or breaks a rule."""
        try:
            while True:
                message = await self._socket.receive()
                self._heard_at = asyncio.get_running_loop().time()
                if message["type"] == "websocket.disconnect":
                    return
                if (data := message.get("bytes")) is not None:
                    self._input(data)
                else:
                    self._take(_SAID.decode(message.get("text") or ""))
        except (WebSocketDisconnect, msgspec.MsgspecError, HostlerError):
            return

    def _input(self, data: bytes) -> None:
        if not data or data[0] != STDIN:
            raise error("invalid_request", "a client sends standard input and nothing else")
        self._moved_at = self._heard_at
        self._relay.input(STDIN, data[1:])

    def _take(self, said: Resize | Eof | Beat) -> None:
        if isinstance(said, Resize):
            self._relay.resize(said.rows, said.columns)
        elif isinstance(said, Eof):
            self._relay.end_input()

    async def _watch(self) -> None:
        """Every second: whether the client is there and may be, and whether anything has moved for long."""
        loop, idle_s = asyncio.get_running_loop(), self._parts.relays.idle_s
        while True:
            await asyncio.sleep(BEAT_S)
            if await self._unwelcome():
                self._relay.close("revoked", "the principal may not do this any more")
                return
            if loop.time() - self._moved_at > idle_s:
                self._relay.close("relay_closed", f"nothing moved for {idle_s:.0f} s")
                return
            if loop.time() - self._heard_at > SILENT_S:
                return
            if not self._sending.locked():  # a client that is behind has more to read already
                with suppress(WebSocketDisconnect, RuntimeError, OSError):
                    await self._send(text=_BEAT)

    async def _unwelcome(self) -> bool:
        try:
            return await self._parts.authenticator.of(self._authorization) != self._caller
        except HostlerError:
            return True

    async def _send(self, **message: Any) -> None:
        async with self._sending:
            await self._socket.send({"type": "websocket.send", **message})
