"""One container from start to end: its output told, its end waited for, and what may end it sooner.

Sooner: a cancel, the step's deadline, the task's own time limit, a hard fence. Nothing else: not that the control plane
is silent, nor that the agent stops, nor that the runtime's daemon restarts under the container.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from hostler.agent.containers import devices
from hostler.agent.containers.device_book import Given
from hostler.agent.containers.logs import ship
from hostler.agent.containers.runtime import ContainerRuntime, State, Status
from hostler.agent.containers.spec import MAIN_PHASE
from hostler.agent.containers.workload import Workloads
from hostler.agent.steps.container_notes import Notes
from hostler.agent.steps.contract import StepContext
from hostler.base.errors import HostlerError, error
from hostler.catalog.params.container import ContainerRun

T = TypeVar("T")
STOP_GRACE_S, SHORT_GRACE_S = 10.0, 3.0  # the short one where the runner will not wait for long
DRAIN_S = 600.0  # for what a container that has ended still has to say, as fast as the link takes it
AWAY_S = 60.0  # how long a call that makes something waits for the runtime's daemon
_PAUSE_S, _TICK_S = 0.5, 1.0
_USUAL = ("", "Error", "Completed")  # reasons that say no more than the exit code does
_HEARD_S = 5.0  # how often a fenced task notes when the control plane was heard


class Stopped(Exception):
    """Why a container has to end now; `err` is what the step ends with."""

    def __init__(self, err: HostlerError, grace_s: float = STOP_GRACE_S) -> None:
        super().__init__(err.message)
        self.err, self.grace_s = err, grace_s


class Watched:
    """What one attempt's containers are watched with."""

    def __init__(
        self,
        context: StepContext,
        workloads: Workloads,
        runtime: ContainerRuntime,
        notes: Notes,
        given: tuple[Given, ...],
    ) -> None:
        self._context, self._workloads, self._runtime = context, workloads, runtime
        self._notes, self._given = notes, given
        self._params: ContainerRun = context.params

    async def to_the_end(self, container: str, phase: str, started: float | None = None) -> Status:
        """How it ended, once all it said was told. Raises what stopped it, once it is stopped.

        Args:
            started: in monotonic seconds, where that is known.
        """
        stopped: Stopped | None = None
        async with owned(self._output(container, phase)) as output, owned(self._runtime_wait(container)) as end:
            try:
                async with owned(self._stops(container, phase, started)) as stops:
                    either: set[asyncio.Future[Any]] = {end, stops}
                    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                    if not end.done():
                        stops.result()
            except Stopped as why:
                stopped = why
                await self.stop(container, why.grace_s)
            if stopped is None:
                status = await end
            await self._drained(output)
        if stopped is not None:
            raise stopped.err
        return status

    async def state(self, container: str) -> State:
        """As soon as the runtime can tell."""
        while True:
            status = await self.patiently(lambda: self._runtime.status(container))
            if status.state is not State.UNKNOWN:
                return status.state
            await asyncio.sleep(_PAUSE_S)

    async def stop(self, container: str, grace_s: float = STOP_GRACE_S) -> None:
        """With its whole tree. Waits for a runtime's daemon that is away: nothing is told as ended that may run on."""
        await self.patiently(lambda: self._runtime.stop(container, grace_s))

    async def patiently(self, call: Callable[[], Awaitable[T]], within_s: float = float("inf")) -> T:
        """Again for as long as the runtime does not answer; raises its `runtime_unavailable` after that."""
        clock = self._context.host.clock
        end = clock.monotonic() + within_s
        while True:
            try:
                return await call()
            except HostlerError as err:
                if err.code != "runtime_unavailable" or clock.monotonic() >= end:
                    raise
            await asyncio.sleep(_PAUSE_S)

    async def _runtime_wait(self, container: str) -> Status:
        while True:
            status = await self.patiently(lambda: self._runtime.wait(container))
            if status.ended:
                return status
            await asyncio.sleep(_PAUSE_S)  # unknown is no end

    async def _output(self, container: str, phase: str) -> None:
        try:
            await ship(self._runtime, container, phase, self._context)
        except HostlerError as err:
            self._context.log("agent", f"the output of {container} cannot be read: {err.message}")

    async def _drained(self, output: "asyncio.Future[None]") -> None:
        done, _ = await asyncio.wait({output}, timeout=DRAIN_S)
        if not done:
            self._context.log("agent", "some of the output could not be read")

    async def _stops(self, container: str, phase: str, begun: float | None) -> None:
        """Ends only by raising `Stopped`."""
        clock, started = self._context.host.clock, begun or 0.0
        limit = self._params.timeout_seconds if phase == MAIN_PHASE else 0
        if limit and begun is None:
            started = await self._started(container)
        lost: set[str] = set()
        next_heard, pid = 0.0, 0
        while True:
            if self._context.cancelled.is_set():
                raise Stopped(error("canceled", f"task {self._context.task_id} was cancelled"))
            if self._context.deadline.passed():
                raise Stopped(error("timeout", "the task ran for as long as its step may"), SHORT_GRACE_S)
            if limit and clock.monotonic() >= started + limit:
                raise Stopped(error("timeout", f"the task ran for {limit} s, which is all it was given"))
            if self._params.fence == "hard":
                self._check_fence()
                if clock.monotonic() >= next_heard:
                    next_heard = clock.monotonic() + _HEARD_S
                    with contextlib.suppress(HostlerError):  # a sick disk ends no task (K4)
                        await self._notes.keep(heard=self._heard())
            if self._given:
                pid = pid or await self._pid(container)
                await self._look_for_devices(lost, container, pid)
            left_s = [self._context.deadline.remaining(), *([started + limit - clock.monotonic()] if limit else ())]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(_TICK_S, *left_s))):
                    await self._context.cancelled.wait()

    async def _started(self, container: str) -> float:
        """In monotonic seconds; a clock that was set meanwhile cannot make it later than now."""
        clock = self._context.host.clock
        status = await self.patiently(lambda: self._runtime.status(container))
        ago_s = (clock.now_ms() - status.started_at_ms) / 1000 if status.started_at_ms else 0.0
        return clock.monotonic() - max(0.0, ago_s)

    def _heard(self) -> float:
        """When the control plane was heard last: by this process, or by the one before it in the same boot."""
        now = self._context.host.clock.monotonic()
        before = self._notes.now.heard
        here = now - self._workloads.silent_seconds()
        return max(here, before) if before <= now else here

    def _check_fence(self) -> None:
        silent = self._context.host.clock.monotonic() - self._heard()
        if silent >= self._params.fence_seconds:
            message = f"the control plane was silent for {self._params.fence_seconds} s, and the task has a hard fence"
            raise Stopped(error("fence_expired", message))

    async def _pid(self, container: str) -> int:
        return (await self.patiently(lambda: self._runtime.status(container))).pid

    async def _look_for_devices(self, lost: set[str], container: str, pid: int) -> None:
        """K8: a device may go while a container has it; whoever reads the log, and the node's state, is told.

        Args:
            pid: the container's first process, through which its own view is seen; 0 where there is none.
        """
        host = self._context.host
        nodes = sorted({path for one in self._given for path in one.own} - lost)
        found = {node: "it is gone from the node" for node in nodes if not host.path(node).exists()}
        if pid:
            found |= devices.lost(pid, nodes, host.path("/"))
        if found and pid and await self._pid(container) != pid:
            return  # it has ended meanwhile, and the number may be another process's already
        for node, why in found.items():
            lost.add(node)
            self._context.log("agent", f"device_lost: {node}: {why}, while the task has it")
            self._workloads.device_lost(self._context.attempt_uid, node)


@contextlib.asynccontextmanager
async def owned(doing: Coroutine[Any, Any, T]) -> AsyncIterator["asyncio.Future[T]"]:
    """What it comes to; however the block is left, it has ended then."""
    outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    async def settle() -> None:
        try:
            outcome.set_result(await doing)
        except Exception as err:  # noqa: BLE001 - whoever waits for the outcome gets it
            outcome.set_exception(err)
            outcome.exception()  # nobody may be waiting any more

    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(settle())
            try:
                yield outcome
            finally:
                task.cancel()
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    finally:
        doing.close()  # one that was cancelled before it began


def failure_of(status: Status, phase: str) -> HostlerError | None:
    """What an end means; None for success."""
    if status.state is State.EXITED and status.exit_code == 0:
        return None
    if status.state is State.LOST:
        why = status.reason or "it gave no reason"
        return error("container_lost", f"the runtime lost the container of {phase}: {why}")
    if status.state is State.UNSTARTED:
        return error("container_unstarted", f"the runtime could not start the container of {phase}: {status.reason}")
    sentence = _sentence(status)
    if phase != MAIN_PHASE:
        return error("setup_failed", f"the setup command {sentence}")
    code = {State.OOM: "out_of_memory", State.KILLED: "container_killed"}.get(status.state, "container_exit")
    return error(code, f"the command {sentence}")


def _sentence(status: Status) -> str:
    if status.state is State.OOM:
        return "was ended by the kernel, because it needed more memory than it was given"
    if status.state is State.KILLED:
        return f"was ended by signal {status.signal}"
    said = f": {status.reason}" if status.reason not in _USUAL else ""
    return f"ended with exit code {status.exit_code}{said}"
