"""containerd by the Container Runtime Interface (RN-02): a sandbox for each attempt, and its phases in it."""

import asyncio
import contextlib
import math
import os
import re
import shutil
import signal
import stat
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hostler.agent.containers import cri_logs, groups
from hostler.agent.containers.pulls import by_digest
from hostler.agent.containers.runtime import (
    Executed,
    Found,
    Line,
    PullAuth,
    State,
    Stats,
    Status,
    Terminal,
)
from hostler.agent.containers.spec import ContainerSpec
from hostler.base.errors import HostlerError, error

if TYPE_CHECKING:
    from hostler.agent.containers.cri_client import Client
    from hostler.agent.containers.cri_sandboxes import Sandboxes
    from hostler.cri.v1 import api_pb2 as cri

SOCKET = Path("/run/containerd/containerd.sock")
SHM = Path("/dev/shm/hostler")  # noqa: S108 - ours alone; each container's part has a directory of its own
LOG_BYTES, PIDS = "hostler.log-bytes", "hostler.pids"  # annotations: what is kept up while it runs
_LOOK_S = 1.0  # how often a running container's log is looked at
_AWAY_S, _UNSTARTED_S = 0.2, 0.05
_SETTLE_S = 0.003  # from the end of a process to its end in CRI
_LEFT_TURNS = 40  # for a process to die by SIGKILL
_CDI_SINCE = (1, 7)


class _Spec(msgspec.Struct, frozen=True):
    process: dict[str, object] = {}


class _Info(msgspec.Struct, frozen=True):
    """What containerd tells of a container beyond CRI."""

    sandboxID: str = ""  # noqa: N815 - containerd's spelling
    pid: int = 0
    runtimeSpec: _Spec = _Spec()  # noqa: N815


class Containerd:
    """
    Args:
        log_dir: where containerd writes what containers say.
        run_dir: for pipes of terminals; a short path.
    """

    name = "containerd"

    def __init__(self, socket: Path, log_dir: Path, run_dir: Path, shm_dir: Path = SHM) -> None:
        self._socket = socket
        self._logs = log_dir
        self._run = run_dir
        self._shm = shm_dir
        self._made: tuple[Client, Sandboxes] | None = None

    @property
    def _client(self) -> "Client":
        return self._parts[0]

    @property
    def _sandboxes(self) -> "Sandboxes":
        return self._parts[1]

    @property
    def _parts(self) -> "tuple[Client, Sandboxes]":
        if self._made is None:
            from hostler.agent.containers.cri_client import Client  # gRPC loads with the first container
            from hostler.agent.containers.cri_sandboxes import Sandboxes

            client = Client(self._socket)
            self._made = client, Sandboxes(client, self._logs)
        return self._made

    async def close(self) -> None:
        if self._made is not None:
            await self._made[0].close()
            self._made = None

    async def available(self) -> str:
        from hostler.cri.v1 import api_pb2 as cri

        said = await self._client.call(
            self._client.runtime.Version, cri.VersionRequest(), "asking for its version", 5.0
        )
        return f"{said.runtime_name} {said.runtime_version}"

    async def pull(self, reference: str, auth: PullAuth | None = None) -> str:
        return await self._client.pull(by_digest(reference), auth)

    async def has_image(self, reference: str) -> bool:
        from hostler.cri.v1 import api_pb2 as cri

        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=reference))
        said = await self._client.call(self._client.images.ImageStatus, request, f"looking for {reference}")
        return bool(said.HasField("image"))

    async def create(self, spec: ContainerSpec) -> str:
        from hostler.agent.containers import cri_spec
        from hostler.agent.containers.cri_sandboxes import MAKE_S
        from hostler.cri.v1 import api_pb2 as cri

        here = await self._sandboxes.containers({cri_spec.NAME: spec.name})
        if here:
            return str(here[0].id)
        if not await self.has_image(spec.image):
            raise error("image_missing", f"containerd does not hold {spec.image} for {spec.name}")
        if spec.devices.cdi:
            await self._refuse_old(spec)
        shm = ""
        if spec.limits.shm_bytes > cri_spec.DEFAULT_SHM:
            shm = str(self._shm_of(spec.name))
        config = cri_spec.container_config(
            spec,
            unified=groups.unified(),
            shm=shm,
            annotations={LOG_BYTES: str(spec.log_bytes), PIDS: str(spec.limits.pids)},
        )
        sandbox = cri_spec.sandbox_config(spec, self._logs)
        request = cri.CreateContainerRequest(
            pod_sandbox_id=await self._sandboxes.made(spec, sandbox), config=config, sandbox_config=sandbox
        )
        made = await self._client.call(self._client.runtime.CreateContainer, request, f"creating {spec.name}", MAKE_S)
        return str(made.container_id)

    async def start(self, container: str) -> None:
        from hostler.agent.containers.cri_sandboxes import MAKE_S
        from hostler.cri.v1 import api_pb2 as cri

        said, _ = await self._look(container)
        if said.state != cri.CONTAINER_CREATED:
            return
        request = cri.StartContainerRequest(container_id=container)
        try:
            await self._client.call(self._client.runtime.StartContainer, request, f"starting {container}", MAKE_S)
        except HostlerError as err:
            if not await self._lost(container, err):
                raise
            return
        most = int(said.annotations.get(PIDS, "0"))
        if most and not groups.unified():
            _, info = await self._look(container)
            groups.limit_pids(info.pid, most)

    async def status(self, container: str) -> Status:
        from hostler.agent.containers import cri_spec

        said, info = await self._look(container)
        return cri_spec.status_of(said, info.pid, await self._sandboxes.address(info.sandboxID))

    async def wait(self, container: str) -> Status:
        from hostler.agent.containers import cri_spec

        settle = _SETTLE_S
        while True:
            try:
                said, info = await self._look(container)
                status = cri_spec.status_of(said, info.pid, "")
                if status.ended:
                    return status
                pause = _UNSTARTED_S
                if status.state is State.RUNNING:
                    waited = await self._until_told(said)
                    pause = settle = _SETTLE_S if waited else min(settle * 2, _UNSTARTED_S)
            except HostlerError as err:
                if err.code != "runtime_unavailable":
                    raise
                pause = _AWAY_S
            await asyncio.sleep(pause)

    async def logs(self, container: str, cursor: str = "", *, follow: bool = False) -> AsyncIterator[Line]:
        said, _ = await self._look(container)

        async def ended() -> bool:
            try:
                return (await self.status(container)).ended
            except HostlerError as err:
                if err.code == "runtime_unavailable":
                    return False
                if err.code == "container_missing":
                    return True
                raise

        async for line in cri_logs.lines(cri_logs.LogReader(Path(said.log_path), cursor), ended, follow=follow):
            yield line

    async def stats(self, container: str) -> Stats:
        from hostler.cri.v1 import api_pb2 as cri
        from hostler.cri.v1 import tasks_pb2 as tasks

        client, what = self._client, f"measuring {container}"
        said = await client.call(client.runtime.ContainerStats, cri.ContainerStatsRequest(container_id=container), what)
        listed = await client.native(client.tasks.ListPids, tasks.ListPidsRequest(container_id=container), what)
        return Stats(
            cpu_nanos=said.stats.cpu.usage_core_nano_seconds.value,
            memory_bytes=said.stats.memory.working_set_bytes.value,
            disk_bytes=said.stats.writable_layer.used_bytes.value,
            pids=len(listed.processes),
        )

    async def exec(self, container: str, command: tuple[str, ...], timeout_s: float) -> Executed:
        from hostler.cri.v1 import api_pb2 as cri

        seconds = max(1, math.ceil(timeout_s))
        request = cri.ExecSyncRequest(container_id=container, cmd=command, timeout=seconds)
        what = f"running {command[0]} in {container}"
        done = await self._client.call(self._client.runtime.ExecSync, request, what, seconds + 10.0)
        return Executed(exit_code=done.exit_code, stdout=done.stdout, stderr=done.stderr)

    async def attach(self, container: str, command: tuple[str, ...], *, tty: bool) -> Terminal:
        from hostler.agent.containers.containerd_terminal import attach

        said, info = await self._look(container)
        if not info.pid:
            raise error("container_failed", f"{said.metadata.name} does not run, so nothing can run in it")
        return await attach(self._client, self._run, container, info.runtimeSpec.process, command, tty=tty)

    async def stop(self, container: str, grace_s: float) -> None:
        from hostler.agent.containers.cri_sandboxes import unless_gone
        from hostler.cri.v1 import api_pb2 as cri

        request = cri.StopContainerRequest(container_id=container, timeout=math.ceil(grace_s))
        await unless_gone(
            self._client.call(self._client.runtime.StopContainer, request, f"stopping {container}", grace_s + 60.0)
        )

    async def remove(self, container: str) -> None:
        from hostler.agent.containers.cri_sandboxes import MAKE_S, unless_gone
        from hostler.cri.v1 import api_pb2 as cri

        client = self._client
        request = cri.ListContainersRequest(filter=cri.ContainerFilter(id=container))
        here = (await client.call(client.runtime.ListContainers, request, f"looking for {container}")).containers
        gone = cri.RemoveContainerRequest(container_id=container)
        removed = f"removing {container}"
        try:
            await unless_gone(client.call(client.runtime.RemoveContainer, gone, removed, MAKE_S))
        except HostlerError as err:
            if "running task" not in err.message:
                raise
            await self._end_left(container)
            await unless_gone(client.call(client.runtime.RemoveContainer, gone, removed, MAKE_S))
        for found in here:
            shutil.rmtree(self._shm / found.metadata.name, ignore_errors=True)
        await self._sandboxes.remove_empty(here[0].pod_sandbox_id if here else container)

    async def list(self, labels: Mapping[str, str]) -> tuple[Found, ...]:
        """A sandbox with nothing in it, which a crash has left, is listed as one that has ended."""
        from hostler.agent.containers import cri_spec

        found = [
            Found(
                id=each.id,
                name=each.metadata.name,
                labels={key: value for key, value in each.labels.items() if key != cri_spec.NAME},
                state=cri_spec.state_of(each.state),
            )
            for each in await self._sandboxes.containers(labels)
        ]
        return (*found, *await self._sandboxes.empty(labels))

    async def _lost(self, container: str, err: HostlerError) -> bool:
        """Whether a start failed by what a killed daemon has left: `status` says so from here on."""
        from hostler.agent.containers.cri_spec import status_of

        if err.code != "container_failed":
            return False
        if "already exists" in err.message:
            await self._end_left(container)
        said, _ = await self._look(container)
        return status_of(said, 0, "").state is State.LOST

    async def _end_left(self, container: str) -> None:
        """A process that CRI has lost sight of, and that would live on without it."""
        from hostler.cri.v1 import tasks_pb2 as tasks

        tasked, what = self._client.tasks, f"ending what is left of {container}"
        kill = tasks.KillRequest(container_id=container, signal=signal.SIGKILL, all=True)
        for _ in range(_LEFT_TURNS):
            with contextlib.suppress(HostlerError):
                await self._client.native(tasked.Kill, kill, what)
            try:
                await self._client.native(tasked.Delete, tasks.DeleteTaskRequest(container_id=container), what)
            except HostlerError as err:
                if err.code == "container_missing":
                    return
                await asyncio.sleep(_UNSTARTED_S)
            else:
                return

    async def _look(self, container: str) -> "tuple[cri.ContainerStatus, _Info]":
        from hostler.cri.v1 import api_pb2 as cri

        request = cri.ContainerStatusRequest(container_id=container, verbose=True)
        said = await self._client.call(self._client.runtime.ContainerStatus, request, f"looking at {container}")
        return said.status, msgspec.json.decode(said.info.get("info", "{}"), type=_Info)

    async def _until_told(self, said: "cri.ContainerStatus") -> bool:
        """Until containerd says that it has ended, or nothing at all; its log is kept small meanwhile.

        Whether that took any time: CRI itself learns of the end a moment later.
        """
        begun = asyncio.get_running_loop().time()
        path, most = Path(said.log_path), int(said.annotations.get(LOG_BYTES, "0"))
        async with asyncio.TaskGroup() as group:
            told = group.create_task(self._ends(said.id))
            while not (await asyncio.wait((told,), timeout=_LOOK_S))[0]:
                if cri_logs.turn_away(path, most // 2):
                    await self._reopen(said.id)
        return asyncio.get_running_loop().time() - begun > _SETTLE_S

    async def _ends(self, container: str) -> None:
        """Any answer will do: the caller looks again, and a shim may hang up in the middle of the true one."""
        from hostler.cri.v1 import tasks_pb2 as tasks

        with contextlib.suppress(HostlerError):
            request = tasks.WaitRequest(container_id=container)
            await self._client.native(self._client.tasks.Wait, request, f"waiting for {container}")

    async def _reopen(self, container: str) -> None:
        """Two files of half the size each, as CRI leaves it to its caller. What fails is tried again."""
        from hostler.cri.v1 import api_pb2 as cri

        with contextlib.suppress(HostlerError):
            request, what = cri.ReopenContainerLogRequest(container_id=container), f"opening the log of {container}"
            await self._client.call(self._client.runtime.ReopenContainerLog, request, what)

    async def _refuse_old(self, spec: ContainerSpec) -> None:
        """An older one would leave such devices out without a word."""
        numbers = re.findall(r"\d+", (await self.available()).partition(" ")[2])[:2]
        if tuple(map(int, numbers)) < _CDI_SINCE:
            raise error("container_failed", f"{spec.name} needs devices by CDI, which containerd knows from 1.7 on")

    def _shm_of(self, name: str) -> Path:
        """On the node's own /dev/shm: its pages count as memory of the container, whose limit bounds them.

        Everybody may write there, so the directory above is looked at: nobody else may have made it.
        """
        self._shm.mkdir(mode=0o700, parents=True, exist_ok=True)
        said = self._shm.lstat()
        if not stat.S_ISDIR(said.st_mode) or said.st_uid != os.geteuid() or said.st_mode & 0o022:
            raise error("container_failed", f"{self._shm} is not the agent's own directory, so {name} was not made")
        path = self._shm / name
        path.mkdir(mode=0o700, exist_ok=True)
        path.chmod(0o1777)
        return path
