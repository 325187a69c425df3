"""One attempt at a task of a job, on this node: taken up where it is found, else made, and seen to its end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import msgspec

from hostler.agent.containers import spec
from hostler.agent.containers.device_book import Given
from hostler.agent.containers.ports import ports_in
from hostler.agent.containers.runtime import ContainerRuntime, Found, State, Status
from hostler.agent.containers.workload import TaskFacts, Workloads
from hostler.agent.steps.container_image import authorise, is_held, obtain
from hostler.agent.steps.container_notes import Noted, Notes
from hostler.agent.steps.container_rules import PROCESS, binds_of, check_container
from hostler.agent.steps.container_spec_of import Decided, spec_of
from hostler.agent.steps.container_watch import AWAY_S, Watched, failure_of, owned
from hostler.agent.steps.contract import StepContext
from hostler.base.errors import HostlerError, error
from hostler.catalog.params.container import ContainerRun

T = TypeVar("T")
STARTS = 4  # of a container that the runtime cannot start, before another node is better
LOOK_S = 5.0  # for a runtime that is not the one the task is meant for


class ContainerTask:
    def __init__(self, context: StepContext, workloads: Workloads) -> None:
        self._context, self._workloads = context, workloads
        self._params: ContainerRun = context.params
        self._notes = Notes(context)
        self._runtime: ContainerRuntime = workloads.runtime(self._notes.now.runtime or self._params.runtime)
        self._begun = bool(self._notes.now.runtime)  # from then on there may be something to stop
        self._given: tuple[Given, ...] = ()
        self._ports: dict[str, int] = {}
        self.failed: Noted | None = None  # how it ended, where that was by itself and not well

    async def run(self) -> Noted:
        """What is to be said of it, once it ended well and everything it said was told; raises for any other end.

        Whatever fails stops what is there. Only a cancellation from outside leaves it: the agent stops, and the next
        one takes the container up (TE-20).
        """
        try:
            return await self._run()
        except Exception:
            if self._begun:
                await self._stop_all()
            raise

    async def _run(self) -> Noted:
        if self._begun:
            self._workloads.begun(self._context.attempt_uid, self._runtime)
        async with owned(self._is_held()) as is_held:  # asked beside the look for what stands, mostly for nothing
            standing = await self._standing()
            self._begun = self._begun or bool(standing)
            if not standing:
                self._check_fresh()
            await self._watched().patiently(lambda: self._workloads.look(self._runtime), AWAY_S)
            held = not standing and await is_held
        image = self._params.image if held else await self._image(standing)
        self._take(standing)
        self._workloads.scratch(self._context.attempt_uid)  # first: by it all that follows is found and cleared away
        self._workloads.begun(self._context.attempt_uid, self._runtime)
        bundle = await self._or_stopped(self._bundle())
        async with self._workloads.tasks.serve(self._facts()) as directory:
            decided = self._decided(image, str(directory), bundle)
            if not held:
                await self._note(image)
            self._begun = True
            self._warn_of(decided, standing)
            async with self._asking(held) as allowed:
                if self._params.setup and spec.MAIN_PHASE not in standing:
                    await self._phase(decided, spec.SETUP_PHASE, standing, allowed)
                container, status = await self._phase(decided, spec.MAIN_PHASE, standing, allowed)
        return self._with_end(container, status)

    def _with_end(self, container: str, status: Status) -> Noted:
        return msgspec.structs.replace(self._notes.now, main=container, status=msgspec.to_builtins(status))

    def _check_fresh(self) -> None:
        """Nothing of it is here: is it wanted, and allowed?"""
        if self._context.cancelled.is_set():
            raise error("canceled", f"task {self._context.task_id} was cancelled before it was started")
        check_container(self._params, self._workloads.settings, self._runtime.name)
        binds_of(self._context, self._workloads.kept_paths)

    async def _is_held(self) -> bool:
        """Whether the registry can be asked while the container is made: nothing of it runs before the answer."""
        if self._runtime.name == PROCESS or self._notes.now.image:
            return False
        return await self._watched().patiently(lambda: is_held(self._context, self._runtime), AWAY_S)

    async def _image(self, standing: dict[str, Found]) -> str:
        """Asked for anew unless the main container has been started, or an earlier process has been given it."""
        if self._runtime.name == PROCESS:
            return PROCESS
        main = standing.get(spec.MAIN_PHASE)
        if self._notes.now.image or (main is not None and main.state is not State.CREATED):
            return self._notes.now.image or self._params.image
        asked = self._watched().patiently(
            lambda: obtain(self._context, self._runtime, self._workloads, self._notes), AWAY_S
        )
        return await self._or_stopped(asked)

    @contextlib.asynccontextmanager
    async def _asking(self, held: bool) -> AsyncIterator["asyncio.Future[None] | None"]:
        """The registry's word for an image that is here (A7), and the note of it; None: both were there before."""
        if not held:
            yield None
            return
        async with owned(self._allow()) as allowed:
            yield allowed

    async def _allow(self) -> None:
        await authorise(self._context)
        await self._note(self._params.image)

    async def _note(self, image: str) -> None:
        """On disk before anything is started; what was only made by then, the next agent finds by its labels."""
        await self._notes.keep(runtime=self._runtime.name, image=image, ports=self._ports, pull={})

    async def _phase(
        self, decided: Decided, phase: str, standing: dict[str, Found], allowed: "asyncio.Future[None] | None"
    ) -> tuple[str, Status]:
        """Begun at most once: one that is there is taken up, however far it has come.

        Only one of which nothing has run, by the runtime's own word, makes way for another.
        """
        watched = self._watched()
        found = standing.get(phase)
        if found is not None:
            self._context.log("agent", f"container {found.name} was found here and is taken up")
        container = found.id if found else ""
        for left in reversed(range(STARTS)):
            fresh = not container
            container = container or await watched.patiently(lambda: self._create(decided, phase), AWAY_S)
            started = await self._start(container, allowed, fresh=fresh)
            status = await watched.to_the_end(container, phase, started)
            if status.state is not State.UNSTARTED or not left:
                break
            self._context.log("agent", f"the container of {phase} was not started and is made anew: {status.reason}")
            container = await self._removed(container)
        failure = failure_of(status, phase)
        if failure is not None:
            self.failed = self._with_end(container, status)
            raise failure
        return container, status

    async def _start(self, container: str, allowed: "asyncio.Future[None] | None", *, fresh: bool) -> float | None:
        """→ when, on the monotonic clock; None for one that had been started before."""
        watched = self._watched()
        if not fresh and await watched.state(container) is not State.CREATED:
            return None  # a start leaves one that runs as it is
        if allowed is not None:
            await self._or_stopped(outcome_of(allowed))
        if self._context.cancelled.is_set():
            raise error("canceled", f"task {self._context.task_id} was cancelled before it was started")
        await watched.patiently(lambda: self._runtime.start(container), AWAY_S)
        return self._context.host.clock.monotonic()

    async def _removed(self, container: str) -> str:
        """No container, from then on."""
        await self._watched().patiently(lambda: self._runtime.remove(container), AWAY_S)
        return ""

    async def _create(self, decided: Decided, phase: str) -> str:
        return await self._runtime.create(spec_of(decided, phase))

    async def _or_stopped(self, doing: Coroutine[Any, Any, T]) -> T:
        """What has no eye on the step's own end is given up at it."""
        async with owned(doing) as done, owned(self._context.cancelled.wait()) as cancelled:
            either: set[asyncio.Future[Any]] = {done, cancelled}
            left_s = self._context.deadline.remaining()
            await asyncio.wait(either, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if done.done():
                return done.result()
            code = "canceled" if cancelled.done() else "timeout"
            raise error(code, f"task {self._context.task_id} was ended before it was started")

    # -- what is here already -----------------------------------------------------------------

    async def _standing(self) -> dict[str, Found]:
        """Containers of this attempt by phase, in whichever runtime they are.

        The runtime it is meant for, or was begun in, has to answer before anything is concluded.
        """
        patience_s = float("inf") if self._begun else AWAY_S
        found = await self._watched().patiently(lambda: self._listed(self._runtime), patience_s)
        if found or self._notes.now.runtime:
            return found
        for other in self._workloads.runtimes():
            if other.name != self._runtime.name:
                with contextlib.suppress(HostlerError, TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        found = await self._listed(other)
                if found:
                    self._runtime = other
                    return found
        return {}

    async def _listed(self, runtime: ContainerRuntime) -> dict[str, Found]:
        wanted = {spec.ATTEMPT: self._context.attempt_uid, spec.NODE: self._workloads.node_id}
        found = {one.labels.get(spec.PHASE, ""): one for one in await runtime.list(wanted)}
        for one in found.values():
            self._check_own(one)
        return found

    def _check_own(self, found: Found) -> None:
        """An attempt's id alone gives nobody a container: all that the signed task says must stand on it (TE-20)."""
        context = self._context
        said = {
            spec.TASK: context.task_id,
            spec.OPERATION: context.operation_id,
            spec.ORG: context.org_id,
            spec.PROJECT: context.project_id,
        }
        if any(found.labels.get(name) != value for name, value in said.items()):
            raise error("container_denied", f"container {found.name} says it is another task's", hint="look at it")

    def _take(self, standing: dict[str, Found]) -> None:
        """Ports and devices: those that stand on a container, else free ones."""
        uid, device = self._context.attempt_uid, self._params.resources.device
        labels = next((found.labels for found in standing.values()), None)
        if labels is not None:
            self._ports = ports_in(labels.get(spec.PORTS, ""))
            self._workloads.ports.hold(uid, self._ports)
            self._given = self._workloads.devices.hold(uid, labels.get(spec.DEVICES, ""))
            return
        if self._params.ports:
            self._ports = self._workloads.ports.take(uid, self._params.ports)
        if device is not None:
            self._given = self._workloads.devices.take(uid, device.kind, device.count)

    # -- what it is made of -------------------------------------------------------------------

    async def _bundle(self) -> str:
        if not self._params.bundle:
            return ""
        return str(await self._workloads.bundles.fetch(self._facts(), self._params.bundle))

    def _facts(self) -> TaskFacts:
        context, params = self._context, self._params
        return TaskFacts(
            job_id=context.operation_id,
            job=params.job,
            parent=params.parent,
            namespace=params.namespace,
            task_id=context.task_id,
            attempt_uid=context.attempt_uid,
            attempt_number=context.attempt_number,
            task_index=context.replica_index,
            num_tasks=params.replicas,
            org_id=context.org_id,
            project_id=context.project_id,
            node_id=self._workloads.node_id,
            node_address=self._workloads.node_address,
            ports=self._ports,
        )

    def _decided(self, image: str, directory: str, bundle: str) -> Decided:
        return Decided(
            params=self._params,
            facts=self._facts(),
            runtime=self._runtime.name,
            envelope_digest=self._context.envelope_digest,
            step_id=self._context.step_id,
            image="" if self._runtime.name == PROCESS else image,
            given=self._given,
            mounts=binds_of(self._context, self._workloads.kept_paths),
            socket_directory=directory,
            scratch=str(self._workloads.scratch(self._context.attempt_uid)),
            bundle=bundle,
            aliases=self._workloads.settings.env_aliases,
        )

    def _warn_of(self, decided: Decided, standing: dict[str, Found]) -> None:
        dropped = decided.environment()[1] if not standing else ()
        if dropped:
            self._context.log("agent", f"warning: {', '.join(dropped)} is set by this node and was not taken (TE-02)")

    def _watched(self) -> Watched:
        return Watched(self._context, self._workloads, self._runtime, self._notes, self._given)

    async def _stop_all(self) -> None:
        """After any failure: the step may say that it ended only once nothing of it runs."""
        watched = self._watched()
        for found in (await watched.patiently(lambda: self._listed(self._runtime))).values():
            await watched.stop(found.id)


async def outcome_of(future: "asyncio.Future[T]") -> T:
    """A bare `await` that is cancelled would cancel what it waits for."""
    return await asyncio.shield(future)
