"""containerd by the Container Runtime Interface (RN-02): a sandbox for each attempt, and its phases in it."""

import asyncio
import contextlib
import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hostler.agent.containers import cri_logs, groups
from hostler.agent.containers.cri_kept import Kept
from hostler.agent.containers.following import Following
from hostler.agent.containers.pulls import by_digest
from hostler.agent.containers.runtime import (
    Executed,
    Found,
    Line,
    PullAuth,
    Size,
    State,
    Stats,
    Status,
    Terminal,
)
from hostler.agent.containers.spec import ContainerSpec
from hostler.base.clock import SystemClock
from hostler.base.errors import HostlerError, error
from hostler.wire.race import together

if TYPE_CHECKING:
    from hostler.agent.containers.cri_client import Client
    from hostler.agent.containers.cri_making import Made, Making
    from hostler.agent.containers.cri_sandboxes import Sandboxes
    from hostler.cri.v1 import api_pb2 as cri

SOCKET = Path("/run/containerd/containerd.sock")
SHM = Path("/dev/shm/hostler")  # noqa: S108 - ours alone; each attempt has a directory of its own in it
_LOOK_S = 1.0  # how often a running container's log is looked at
_AWAY_S, _UNSTARTED_S, _HEARING_S = 0.2, 0.05, 0.01
_SETTLE_S, _SETTLE_LOOKS = 0.002, 90  # from the end of a process to its end in CRI
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
        self._kept = Kept(socket, run_dir / "keeper")
        self._held: dict[str, int] = {}  # containers whose pipes a keeper holds, and which one
        self._fresh: dict[str, Made] = {}  # made by this very process, and not asked to start since
        self._made: tuple[Client, Sandboxes, Making] | None = None
        self._following = Following()

    @property
    def _client(self) -> "Client":
        return self._parts[0]

    @property
    def _sandboxes(self) -> "Sandboxes":
        return self._parts[1]

    @property
    def _making(self) -> "Making":
        return self._parts[2]

    @property
    def _parts(self) -> "tuple[Client, Sandboxes, Making]":
        if self._made is None:
            from hostler.agent.containers.cri_client import Client  # gRPC loads with the first container
            from hostler.agent.containers.cri_making import Making
            from hostler.agent.containers.cri_sandboxes import Sandboxes

            client = Client(self._socket)
            sandboxes = Sandboxes(client, self._logs, self._shm)
            self._made = client, sandboxes, Making(client, sandboxes, self._logs, self._shm)
        return self._made

    def pids(self) -> frozenset[int]:
        """Children of this process that outlive it."""
        return self._kept.pids()

    async def close(self) -> None:
        self._following.close()
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
        return await self._client.has_image(reference)

    async def create(self, spec: ContainerSpec) -> str:
        from hostler.agent.containers.cri_left import past

        if spec.devices.cdi:
            await self._refuse_old(spec)
        made, _ = await together(past(lambda: self._making.made(spec)), self._kept.begin())
        if made.fresh:
            self._fresh[made.id] = made
        return str(made.id)

    async def start(self, container: str) -> None:
        """By the keeper, so that it comes to its end whatever becomes of this process."""
        fresh = self._fresh.pop(container, None) or await self._startable(container)
        if fresh is None:
            return
        try:
            await self._kept.start(container, fresh.log)
        except HostlerError as err:
            if not await self._is_left(container, err):
                raise
            return
        self._held[container] = self._kept.keeper()
        if fresh.pids and not groups.unified():
            await self._limit_pids(container, fresh.pids)

    async def _startable(self, container: str) -> "Made | None":
        """None for one that was started before. Raises `container_lost` for one that had begun, and was ended."""
        from hostler.agent.containers import cri_spec
        from hostler.agent.containers.cri_making import Made
        from hostler.cri.v1 import api_pb2 as cri

        said, _ = await self._look(container, verbose=False)
        if said.state != cri.CONTAINER_CREATED:
            return None
        if self._kept.noted(container).begun:
            raise error(
                "container_lost", f"containerd was killed when {said.metadata.name} had just begun, and ended it"
            )
        return Made(container, said.log_path, int(said.annotations.get(cri_spec.PIDS, "0")))

    async def _limit_pids(self, container: str, most: int) -> None:
        """One that has ended meanwhile needs no limit."""
        from hostler.cri.v1 import tasks_pb2 as tasks

        request, what = tasks.GetRequest(container_id=container), f"limiting the processes of {container}"
        try:
            said = await self._client.native(self._client.tasks.Get, request, what)
        except HostlerError as err:
            if err.code != "container_missing":
                raise
        else:
            groups.limit_pids(said.process.pid, most)

    async def status(self, container: str) -> Status:
        from hostler.cri.v1 import api_pb2 as cri

        said, info = await self._look(container)
        if said.state == cri.CONTAINER_UNKNOWN:  # its keeper finds out whether anything of it is left
            await self._hold(container, said.log_path)
        return self._status(said, info.pid, await self._sandboxes.address(info.sandboxID))

    async def wait(self, container: str) -> Status:
        return await self._following.waited(container, lambda: self._wait(container))

    async def _wait(self, container: str) -> Status:
        """CRI learns of an end a moment after containerd tells it: once its log is whole."""
        looks = 0
        while True:
            try:
                said, _ = await self._look(container, verbose=False)
                status = self._status(said, 0)
                if status.ended:
                    await self._all_said(container, Path(said.log_path))
                    return status
                if status.state is State.UNKNOWN or (status.state is State.RUNNING and container not in self._held):
                    await self._hold(container, said.log_path)
                pause = _AWAY_S if status.state is State.UNKNOWN else _UNSTARTED_S
                if status.state is State.RUNNING:
                    if not 0 < looks < _SETTLE_LOOKS and await self._until_told(said):
                        looks = 0
                    pause = _SETTLE_S if looks < _SETTLE_LOOKS else _UNSTARTED_S
                    looks += 1
            except HostlerError as err:
                if err.code != "runtime_unavailable":
                    raise
                pause = _AWAY_S
            await asyncio.sleep(pause)

    async def _hold(self, container: str, log: str) -> None:
        await self._kept.hold(container, log)
        self._held[container] = self._kept.keeper()

    async def _all_said(self, container: str, log: Path) -> None:
        """Until all that an ended container said stands in its log, and its writer has let go of it."""
        await self._kept.settled(container)
        if not self._kept.writes(container):
            await cri_logs.written(log)

    async def logs(self, container: str, cursor: str = "", *, follow: bool = False) -> AsyncIterator[Line]:
        said, _ = await self._look(container, verbose=False)
        path = Path(said.log_path)

        async def ended() -> bool:
            try:
                over = (await self.status(container)).ended
                if over:
                    await self._all_said(container, path)
                return over
            except HostlerError as err:
                if err.code == "runtime_unavailable":
                    return False
                if err.code == "container_missing":
                    return True
                raise

        with contextlib.ExitStack() as stack:
            follower = stack.enter_context(self._following.follower(container, path)) if follow else None
            async for line in cri_logs.lines(cri_logs.LogReader(path, cursor), ended, follower):
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

    async def attach(self, container: str, command: tuple[str, ...], *, tty: Size | None) -> Terminal:
        from hostler.agent.containers.containerd_terminal import attach

        said, info = await self._look(container)
        if not info.pid:
            raise error("container_failed", f"{said.metadata.name} does not run, so nothing can run in it")
        return await attach(self._client, self._run, container, info.runtimeSpec.process, command, tty=tty)

    async def stop(self, container: str, grace_s: float) -> None:
        from hostler.agent.containers.cri_sandboxes import unless_gone
        from hostler.cri.v1 import api_pb2 as cri

        if self._kept.noted(container).ended_at_ms:
            return  # where CRI has not heard of it, the call would wait for ever
        request = cri.StopContainerRequest(container_id=container, timeout=math.ceil(grace_s))
        await unless_gone(
            self._client.call(self._client.runtime.StopContainer, request, f"stopping {container}", grace_s + 60.0)
        )

    async def remove(self, container: str) -> None:
        """Raises `container_failed` for one whose end containerd has missed: only its next start lets go of it."""
        from hostler.agent.containers import cri_left

        here, unheard = await self._heard(container)
        await cri_left.remove(self._client, container, unheard=unheard)
        await self._kept.settled(container)
        self._kept.forget(container)
        self._held.pop(container, None)
        self._fresh.pop(container, None)
        await self._sandboxes.remove_empty(here[0].pod_sandbox_id if here else container)

    async def _heard(self, container: str) -> "tuple[Sequence[cri.Container], bool]":
        """What CRI has of it; and whether it takes for running what has ended, once it has had the time to hear."""
        from hostler.agent.containers import cri_spec
        from hostler.cri.v1 import api_pb2 as cri

        request = cri.ListContainersRequest(filter=cri.ContainerFilter(id=container))
        what = f"looking for {container}"
        while True:
            here = (await self._client.call(self._client.runtime.ListContainers, request, what)).containers
            noted = self._kept.noted(container)
            runs = noted.ended_at_ms > 0 and any(each.state == cri.CONTAINER_RUNNING for each in here)
            if not runs or cri_spec.is_past_hearing(noted, SystemClock().now_ms()):
                return here, runs
            await asyncio.sleep(_HEARING_S)

    async def list(self, labels: Mapping[str, str]) -> tuple[Found, ...]:
        """A sandbox with nothing in it, which a crash has left, is listed as one that has ended."""
        from hostler.agent.containers import cri_spec

        standing, empty = await self._sandboxes.all(labels)
        now_ms = SystemClock().now_ms()
        found = [
            Found(
                id=each.id,
                name=each.metadata.name,
                labels={key: value for key, value in each.labels.items() if key != cri_spec.NAME},
                state=cri_spec.listed_state(each, self._kept.noted(each.id), now_ms),
            )
            for each in standing
        ]
        return (*found, *empty)

    def _status(self, said: "cri.ContainerStatus", pid: int, address: str = "") -> Status:
        from hostler.agent.containers import cri_spec

        noted = self._kept.noted(said.id)
        if cri_spec.may_be_unbegun(said, noted) and cri_logs.ends_with(Path(said.log_path), cri_spec.UNBEGUN):
            noted = msgspec.structs.replace(noted, unbegun=True)
        return cri_spec.status_of(said, pid, address, noted, SystemClock().now_ms())

    async def _is_left(self, container: str, err: HostlerError) -> bool:
        """Whether a start failed by what a killed daemon has left: `status` says so from here on."""
        from hostler.agent.containers.cri_left import end_left

        if err.code != "container_failed":
            return False
        if "already exists" in err.message:
            await end_left(self._client, container)
        said, _ = await self._look(container)
        return self._status(said, 0).state in (State.LOST, State.UNSTARTED)

    async def _look(self, container: str, *, verbose: bool = True) -> "tuple[cri.ContainerStatus, _Info]":
        """The second only if verbose, which costs containerd much more."""
        from hostler.cri.v1 import api_pb2 as cri

        request = cri.ContainerStatusRequest(container_id=container, verbose=verbose)
        said = await self._client.call(self._client.runtime.ContainerStatus, request, f"looking at {container}")
        return said.status, msgspec.json.decode(said.info.get("info", "{}"), type=_Info)

    async def _until_told(self, said: "cri.ContainerStatus") -> bool:
        """Until containerd says that it has ended, or nothing at all; its log is kept small meanwhile.

        Whether that took any time: CRI itself learns of the end a moment later.
        """
        from hostler.agent.containers import cri_spec

        begun = asyncio.get_running_loop().time()
        path, most = Path(said.log_path), int(said.annotations.get(cri_spec.LOG_BYTES, "0"))
        async with asyncio.TaskGroup() as group:
            told = group.create_task(self._ends(said.id))
            while not (await asyncio.wait((told,), timeout=_LOOK_S))[0]:
                if self._kept.keeper() not in (-1, self._held.get(said.id) or None):
                    await self._hold(said.id, said.log_path)  # pipes of one that was killed wait for the next
                if cri_logs.turn_away(path, most // 2) and not self._kept.writes(said.id):
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
