"""The Docker Engine by its API (RN-03)."""

import asyncio
import math
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hostler.agent.containers import docker_logs, docker_spec, strays
from hostler.agent.containers.following import Following
from hostler.agent.containers.pulls import by_digest
from hostler.agent.containers.runtime import Executed, Found, Line, PullAuth, Size, State, Stats, Status, Terminal
from hostler.agent.containers.spec import ContainerSpec
from hostler.base.errors import HostlerError, error

if TYPE_CHECKING:
    from hostler.agent.containers.docker_client import Client
    from hostler.agent.containers.docker_terminal import DockerTerminal

SOCKET = Path("/run/docker.sock")
_AWAY_S, _UNSTARTED_S = 0.2, 0.05
_CDI_SINCE = 25


class _Id(msgspec.Struct, frozen=True, rename="pascal"):
    id: str


class _Listed(msgspec.Struct, frozen=True, rename="pascal"):
    id: str
    names: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    state: str = ""


class _Cpu(msgspec.Struct, frozen=True):
    total_usage: int = 0


class _CpuStats(msgspec.Struct, frozen=True):
    cpu_usage: _Cpu = _Cpu()


class _Memory(msgspec.Struct, frozen=True):
    usage: int = 0
    stats: dict[str, int] = {}


class _Pids(msgspec.Struct, frozen=True):
    current: int = 0


class _Measured(msgspec.Struct, frozen=True):
    cpu_stats: _CpuStats = _CpuStats()
    memory_stats: _Memory = _Memory()
    pids_stats: _Pids = _Pids()


class Docker:
    """
    Args:
        node_id: whose containers they are; the engine may run those of others besides.
    """

    name = "docker"

    def __init__(self, socket: Path, node_id: str) -> None:
        self._socket, self._node_id = socket, node_id
        self._made: Client | None = None
        self._fresh: set[str] = set()  # made by this very process, and not asked to start since
        self._begun: set[str] = set()  # started by it, and not looked at since
        self._following = Following()

    @property
    def _client(self) -> "Client":
        if self._made is None:
            from hostler.agent.containers.docker_client import Client

            self._made = Client(self._socket)
        return self._made

    async def close(self) -> None:
        self._following.close()
        if self._made is not None:
            await self._made.close()
            self._made = None

    async def available(self) -> str:
        said = msgspec.json.decode(await self._client.call("GET", "/version", "asking for its version", limit_s=5.0))
        return str(said.get("Version", ""))

    async def pull(self, reference: str, auth: PullAuth | None = None) -> str:
        """Returns the id of the image's configuration: digests of registries are kept for what was pulled only."""
        await self._client.pull(by_digest(reference), auth)
        said = await self._client.call("GET", f"/images/{reference}/json", f"looking for {reference}")
        return msgspec.json.decode(said, type=_Id).id

    async def has_image(self, reference: str) -> bool:
        said = await self._client.call("GET", f"/images/{reference}/json", f"looking for {reference}", fine=(404,))
        return bool(said)

    async def create(self, spec: ContainerSpec) -> str:
        what = f"creating {spec.name}"
        if spec.devices.cdi:
            await self._refuse_old(spec)
        body = docker_spec.body(spec)
        made = await self._client.call(
            "POST", "/containers/create", what, fine=(409,), params={"name": spec.name}, body=body
        )
        if made:
            fresh = msgspec.json.decode(made, type=_Id).id
            self._fresh.add(fresh)
            return fresh
        for found in await self.list(spec.labels):  # the name is taken, by the first of two creates
            if found.name == spec.name:
                return found.id
        raise error("container_failed", f"the Docker Engine has another container of the name {spec.name}")

    async def start(self, container: str) -> None:
        """The engine would start one that has ended once more, so it is looked at unless it is fresh."""
        fresh = container in self._fresh
        self._fresh.discard(container)
        if fresh or (await self.status(container)).state is State.CREATED:
            await self._client.call("POST", f"/containers/{container}/start", f"starting {container}", fine=(304,))
            self._begun.add(container)

    async def status(self, container: str) -> Status:
        return docker_spec.status_of(await self._look(container))

    async def wait(self, container: str) -> Status:
        return await self._following.waited(container, lambda: self._wait(container))

    async def _wait(self, container: str) -> Status:
        """The engine takes longest to look at one that has just begun, so that one is waited for unseen."""
        runs = container in self._begun
        self._begun.discard(container)
        while True:
            try:
                if runs:
                    what = f"waiting for {container}"
                    await self._client.call("POST", f"/containers/{container}/wait", what, limit_s=None)
                    self._following.ended(container)
                status = await self.status(container)
                if status.ended:
                    return status
                runs = status.state is State.RUNNING
                if runs:
                    continue
                pause = _UNSTARTED_S
            except HostlerError as err:
                if err.code != "runtime_unavailable":
                    raise
                pause = _AWAY_S
            await asyncio.sleep(pause)

    async def logs(self, container: str, cursor: str = "", *, follow: bool = False) -> AsyncIterator[Line]:
        """The engine's own stream, and once it has ended what that may have left out."""

        async def ended() -> bool:
            return (await self.status(container)).ended

        lines = docker_logs.Lines(cursor)
        with self._following.follower(container) as follower:
            while True:
                over = False
                try:
                    over = await (follower.over(ended) if follow else ended())
                    async for line in self._lines(container, lines, follow=follow and not over):
                        yield line
                except HostlerError as err:
                    if err.code == "container_missing" and lines.cursor != cursor:
                        return
                    if err.code != "runtime_unavailable" or not follow:
                        raise
                    await asyncio.sleep(_AWAY_S)
                if over:
                    for line in lines.finish():
                        yield line
                if over or not follow:
                    return
                await follower.pause(read_some=True)  # its daemon went away, or it has just ended
                lines = docker_logs.Lines(lines.cursor)

    async def stats(self, container: str) -> Stats:
        what, parameters = f"measuring {container}", {"stream": "0", "one-shot": "1"}
        raw = await self._client.call("GET", f"/containers/{container}/stats", what, params=parameters)
        said = msgspec.json.decode(raw, type=_Measured)
        sized = await self._look(container, size="1")
        memory = said.memory_stats
        idle = memory.stats.get("total_inactive_file", memory.stats.get("inactive_file", 0))
        return Stats(
            cpu_nanos=said.cpu_stats.cpu_usage.total_usage,
            memory_bytes=max(0, memory.usage - idle),
            disk_bytes=sized.size_rw,
            pids=said.pids_stats.current,
        )

    async def exec(self, container: str, command: tuple[str, ...], timeout_s: float) -> Executed:
        running = await self._attach(container, command, tty=None)
        try:
            async with asyncio.timeout(timeout_s):
                streams = await running.collect()
                code = await running.wait()
        except TimeoutError as err:
            raise error("timeout", f"{command[0]} did not end in time") from err
        finally:
            await running.close()
        return Executed(exit_code=code, stdout=streams["stdout"], stderr=streams["stderr"])

    async def attach(self, container: str, command: tuple[str, ...], *, tty: Size | None) -> Terminal:
        return await self._attach(container, command, tty=tty)

    async def stop(self, container: str, grace_s: float) -> None:
        seconds = math.ceil(grace_s)
        await self._client.call(
            "POST", f"/containers/{container}/stop", f"stopping {container}", fine=(304, 404),
            params={"t": str(seconds)}, limit_s=grace_s + 60.0,
        )  # fmt: skip

    async def remove(self, container: str) -> None:
        self._fresh.discard(container)
        self._begun.discard(container)
        what, parameters = f"removing {container}", {"force": "1", "v": "1"}
        await self._client.call("DELETE", f"/containers/{container}", what, fine=(404,), params=parameters)

    async def list(self, labels: Mapping[str, str]) -> tuple[Found, ...]:
        filters = msgspec.json.encode({"label": [f"{key}={value}" for key, value in labels.items()]}).decode()
        parameters = {"all": "1", "filters": filters}
        raw = await self._client.call("GET", "/containers/json", "listing containers", params=parameters)
        found = [
            Found(
                id=each.id,
                name=each.names[0].lstrip("/") if each.names else "",
                labels=each.labels,
                state=docker_spec.state_of(each.state),
            )
            for each in msgspec.json.decode(raw, type=tuple[_Listed, ...])
        ]
        return tuple(one for one in found if docker_spec.is_own(one, self._node_id))

    async def _look(self, container: str, **parameters: str) -> docker_spec.Inspected:
        what = f"looking at {container}"
        raw = await self._client.call("GET", f"/containers/{container}/json", what, params=parameters)
        return msgspec.json.decode(raw, type=docker_spec.Inspected)

    async def _lines(self, container: str, lines: docker_logs.Lines, *, follow: bool) -> AsyncIterator[Line]:
        asked: dict[str, str] = {"stdout": "1", "stderr": "1", "timestamps": "1", "follow": "1" if follow else "0"}
        if lines.since:
            asked["since"] = lines.since
        frames = docker_logs.Frames()
        path, what = f"/containers/{container}/logs", f"reading what {container} says"
        async with self._client.stream(path, what, params=asked) as pieces:
            async for piece in pieces:
                for stream, record in frames.feed(piece):
                    if (line := lines.take(stream, record)) is not None:
                        yield line

    async def _attach(self, container: str, command: tuple[str, ...], *, tty: Size | None) -> "DockerTerminal":
        from hostler.agent.containers.docker_terminal import DockerTerminal

        mark, what, is_tty = secrets.token_hex(8), f"starting {command[0]} in {container}", tty is not None
        body = {
            "Cmd": list(command), "Tty": is_tty, "AttachStdin": True, "AttachStdout": True, "AttachStderr": True,
            "Env": [f"{strays.VARIABLE}={mark}"],
        }  # fmt: skip
        made = await self._client.call("POST", f"/containers/{container}/exec", what, body=body)
        name = msgspec.json.decode(made, type=_Id).id
        streams = await self._client.upgrade(f"/exec/{name}/start", {"Detach": False, "Tty": is_tty}, what)
        terminal = DockerTerminal(self._client, name, mark, *streams, tty=is_tty)
        if tty is not None:
            try:
                await terminal.resize(*tty)  # the API takes a size with the start from 1.42 on
            except BaseException:
                await terminal.close()
                raise
        return terminal

    async def _refuse_old(self, spec: ContainerSpec) -> None:
        """An older one has no driver of that name, and says so only when the container starts."""
        found = re.match(r"\d+", await self.available())
        if found is None or int(found[0]) < _CDI_SINCE:
            raise error(
                "container_failed", f"{spec.name} needs devices by CDI, which the Docker Engine knows from 25 on"
            )
