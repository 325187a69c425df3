"""Starts containers of containerd for the agent, and outlives it: one process a node.

Run as `python -I -m hostler.agent.containers.cri_keeper SOCKET DIRECTORY`, in a session of its own. containerd gives up
the start of a container whose caller dies; this caller lives on. From the start of a container to its end it reads the
pipes that the container speaks through (`cri_pipes`), and notes what containerd forgets when it is killed in the wrong
moment (`cri_noted`): that the program had begun, and how it ended. The directory holds the notes, `lock`, and the
SEQPACKET socket `s`, one request a connection:

    {"do": "start", "id", "log"}    {"done"} once it is started, or {"code", "message"}
    {"do": "hold", "id", "log"}     {"done"} once its pipes are held, for one that another keeper started
    {"do": "settled", "id"}         {"done"} once all that an ended container said stands in its log

It leaves by itself when it has had nothing to keep for a minute.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Annotated, Literal

import grpc
import msgspec

from hostler.agent.containers.cri_client import CRI_METADATA, Client
from hostler.agent.containers.cri_noted import STREAMS, Notes
from hostler.agent.containers.cri_pipes import Pipes, give_back
from hostler.agent.containers.cri_sandboxes import MAKE_S
from hostler.base.clock import SystemClock
from hostler.base.errors import HostlerError
from hostler.cri.v1 import api_pb2 as cri
from hostler.cri.v1 import tasks_pb2 as tasks

MESSAGE_BYTES = 64 * 1024
DONE = {"done": "yes"}
IDLE_S = 60.0
_WAIT_S = 24 * 3600.0
_AGAIN_S, _MOST_FAILURES = 0.05, 12_000  # a containerd that is away for ten minutes may be gone for good
_LOOKS, _LOOK_S = 30, 0.01  # for a start that was cut off to come to rest
_TASKS = "io.containerd.runtime.v2.task/k8s.io"


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    do: Literal["start", "hold", "settled"]
    id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9]{1,128}$(?!\n)")]
    log: str = ""


class Said(msgspec.Struct, frozen=True):
    """Of what containerd says of itself."""

    stateDir: str = ""  # noqa: N815 - containerd's spelling


class Keeper:
    def __init__(self, path: Path, place: Path) -> None:
        self._client = Client(path)
        self._notes = Notes(place)
        self._pipes = Pipes(place)
        self._state = ""
        self._starting: dict[str, asyncio.Task[dict[str, str]]] = {}
        self._awaited: set[str] = set()

    async def serve(self, listener: socket.socket) -> None:
        """Until there was nothing to do for a while."""
        self._notes.forget_old(SystemClock().now_ms())
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    async with asyncio.timeout(IDLE_S):
                        link, _ = await loop.sock_accept(listener)
                except TimeoutError:
                    self._pipes.let_removed_go()
                    if not (self._starting or self._awaited or self._pipes.holds()):
                        break
                    continue
                link.setblocking(False)
                group.create_task(self._answer(link, group))
        await self._client.close()

    async def _answer(self, link: socket.socket, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        with link, contextlib.suppress(OSError, msgspec.DecodeError):  # who asked is gone, or is none of ours
            order = msgspec.json.decode(await loop.sock_recv(link, MESSAGE_BYTES), type=Order)
            answer = await self._done(order, group)
            await loop.sock_sendall(link, msgspec.json.encode(answer))

    async def _done(self, order: Order, group: asyncio.TaskGroup) -> dict[str, str]:
        try:
            if order.do == "settled":
                await self._pipes.settled(order.id)
                return DONE
            await self._learn_state()
            pipes = self._pipes_of(order.id)
            if order.do == "hold":
                self._pipes.hold(order.id, Path(order.log))
                give_back(pipes)
                self._pipes.let_go(order.id)
            else:
                self._pipes.take(order.id, pipes, Path(order.log))
                if order.id not in self._starting:
                    self._starting[order.id] = group.create_task(self._start(order))
                answer = await asyncio.shield(self._starting[order.id])
                if answer != DONE:
                    return answer
            if order.id not in self._awaited:
                self._awaited.add(order.id)
                group.create_task(self._see_end(order.id))
        except HostlerError as err:
            return {"code": err.code, "message": err.message}
        return DONE

    async def _start(self, order: Order) -> dict[str, str]:
        request = cri.StartContainerRequest(container_id=order.id)
        try:
            await self._client.call(self._client.runtime.StartContainer, request, f"starting {order.id}", MAKE_S)
            if give_back(self._pipes_of(order.id)):
                self._notes.forget_pipes(order.id)
            self._pipes.let_go(order.id)
        except HostlerError as err:
            if not _is_cut(err) or await self._note_cut(order.id):
                give_back(self._pipes_of(order.id))
            return {"code": err.code, "message": err.message}
        finally:
            self._starting.pop(order.id, None)
        return DONE

    def _pipes_of(self, container: str) -> list[tuple[str, Path]]:
        """Stream and path of each that containerd has made for it, or of what stands in its place."""
        place = Path(self._state or "/nowhere") / "containers" / container / "io"
        return [(name, path) for name in STREAMS for path in place.glob(f"*/{container}-{name}")]

    async def _learn_state(self) -> None:
        if not self._state:
            request = cri.StatusRequest(verbose=True)
            said = await self._client.call(self._client.runtime.Status, request, "asking where its state is")
            with contextlib.suppress(
                msgspec.DecodeError
            ):  # another than ours to read: containerd brings all to the log
                self._state = msgspec.json.decode(said.info.get("config", "{}"), type=Said).stateDir

    async def _note_cut(self, container: str) -> bool:
        """Whether its program has begun.

        Its shim lives on without containerd: what is in the place of the program now is all there is to know.
        """
        begun = self._notes.of(container).begun
        for _ in range(_LOOKS):
            if begun or (begun := has_begun(Path(self._state).parent / _TASKS / container)):
                break
            await asyncio.sleep(_LOOK_S)
        self._notes.add(container, cut=True, begun=begun)
        return begun

    async def _see_end(self, container: str) -> None:
        """Its shim tells the end once; a containerd that is killed in that moment does not know it afterwards."""
        request, what = tasks.WaitRequest(container_id=container), f"waiting for {container}"
        client, failures = self._client, 0
        try:
            while True:
                try:
                    said = await client.call(client.tasks.Wait, request, what, _WAIT_S, metadata=CRI_METADATA)
                except HostlerError as err:
                    if err.code == "container_missing":
                        self._notes.add(container, gone=True)
                        return
                    failures += 1
                    if failures > _MOST_FAILURES and not self._pipes.holds(container):
                        return
                    await asyncio.sleep(_AGAIN_S)
                    continue
                if said.exited_at.seconds > 0:
                    at_ms = said.exited_at.ToMilliseconds()
                    self._notes.add(container, ended_at_ms=at_ms, exit_code=said.exit_status)
                return
        finally:
            self._awaited.discard(container)


def has_begun(bundle: Path, proc: Path = Path("/proc")) -> bool:
    """Whether the program itself runs: until it is let go, runc waits in its place under its own name."""
    try:
        pid = int((bundle / "init.pid").read_text())
        words = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return False
    return bool(words[0]) and not (words[0].endswith(b"runc") and words[1:2] == [b"init"])


def _is_cut(err: HostlerError) -> bool:
    cause = err.__cause__
    return isinstance(cause, grpc.aio.AioRpcError) and cause.code() is grpc.StatusCode.UNAVAILABLE


def listen(directory: int) -> socket.socket:
    """The path may be long, so it goes by a descriptor of the directory."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink("s", dir_fd=directory)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    listener.bind(f"/proc/self/fd/{directory}/s")
    listener.listen(512)
    return listener


async def keep(path: Path, place: Path, directory: int) -> None:
    keeper = Keeper(path, place)
    with listen(directory) as listener:
        await keeper.serve(listener)


def main() -> None:
    path, place = map(Path, sys.argv[1:3])
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    lock = os.open("lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=directory)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # there is one
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    asyncio.run(keep(path, place, directory))


if __name__ == "__main__":
    main()
