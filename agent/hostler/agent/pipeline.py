"""inbox → admission → journal → runner: the only place that knows the order.

Loop `Pipeline.run` reads the inbox and ends never by itself. Every envelope gets exactly one answer: a task
that runs, a cancel that is passed on, a first result reported again, or a signed refusal.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from hostler.agent.admission.admit import admit
from hostler.agent.admission.verdict import Admitted, AdmittedCancel, Refusal, Replayed
from hostler.agent.admission.view import AdmissionView
from hostler.agent.journal.journal import Journal
from hostler.agent.journal.rows import StoredTask
from hostler.agent.lifecycle.trust import Trusted
from hostler.agent.runner.runner import Runner
from hostler.agent.runner.work import outlives_agent, runs_beside, runs_containers
from hostler.agent.session.inbox import Inbox
from hostler.base.clock import Clock
from hostler.base.envelope import Envelope
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger
from hostler.wire.codec_node import decode_envelope
from hostler.wire.codec_task import decode_task
from hostler.wire.node import CatalogUpdate, Tasks, WorkerPolicy
from hostler.wire.task import TaskSpec

_log = get_logger("hostler.agent.pipeline")
SCHEDULABLE, DRAINING = "schedulable", "draining"
_WORD = 64
LIGHT = frozenset({"task.probe"})  # kinds that read what is known, and so take no slot of what runs
LIGHT_TYPES = frozenset({"node.agent.verify"})  # a version on trial must finish one, however full the house is


class Pipeline:
    """Starts at most `parallel` tasks at once, in the order they came.

    A task that runs a container takes no such slot: it runs for as long as its workload does, is bounded by what the
    node has, and by `containers` at once.
    """

    def __init__(
        self,
        *,
        inbox: Inbox,
        journal: Journal,
        runner: Runner,
        trusted: Trusted,
        view: Callable[[], AdmissionView],
        clock: Clock,
        parallel: int,
        containers: int = 64,
        accepted: Callable[[str], None],
        changed: Callable[[], None],
        unknown: Callable[[str], None] = lambda _: None,
        wanted: Callable[[str, int], None] = lambda *_: None,
    ) -> None:
        self._inbox = inbox
        self._journal = journal
        self._runner = runner
        self._trusted = trusted
        self._view = view
        self._clock = clock
        self._slots = asyncio.Semaphore(parallel)
        self._container_slots = asyncio.Semaphore(containers)
        self._long: set[str] = set()  # tasks that run containers
        self._outliving: set[str] = set()  # those, and tasks that restart the agent
        self._light = asyncio.Semaphore(parallel)
        self._cancels: dict[str, asyncio.Event] = {}
        self._accepted = accepted
        self._changed = changed
        self._unknown = unknown  # attempts that are to end, and that the journal does not hold
        self._wanted = wanted  # a version of the agent, and how often it is to look at itself
        self._begun: set[str] = set()
        self._halted = False
        self._open = asyncio.Event()  # cleared while the node is drained
        if journal.scheduling != DRAINING:
            self._open.set()

    @property
    def running(self) -> int:
        """Tasks accepted and not ended, running or waiting for a slot."""
        return len(self._cancels)

    @property
    def in_slots(self) -> int:
        """Those among them that take a slot, or will."""
        return len(self._cancels) - len(self._long)

    @property
    def at_work(self) -> int:
        """Those that have begun, less what outlives a stopping agent: containers and its own upgrade (TE-20)."""
        return len(self._begun - self._outliving)

    def halt(self) -> None:
        """What has not begun does not begin any more: the next start takes it up."""
        self._halted = True

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for stored in await self._journal.open_tasks():
                self._start_stored(group, stored)
            while True:
                item = await self._inbox.get()
                if isinstance(item, Tasks):
                    for envelope in item.envelopes:
                        self._take(group, envelope)
                        await asyncio.sleep(0)  # what was taken begins while the rest is judged
                elif isinstance(item, CatalogUpdate):
                    await self._trusted.take_catalog(item)
                    self._changed()
                elif isinstance(item, WorkerPolicy):
                    self._wanted(item.desired_agent_version, item.report_seconds)
                    await self._schedule(item.scheduling)
                else:
                    await self._trusted.take_keyset(item)
                    self._changed()

    async def _schedule(self, scheduling: str) -> None:
        """Drained: what runs goes on, and what a tenant asked for waits, also over restarts (EF-07)."""
        if scheduling == DRAINING:
            self._open.clear()
        else:
            self._open.set()
        try:
            await self._journal.schedule("" if scheduling == SCHEDULABLE else scheduling[:_WORD])
        except HostlerError as err:
            _log.error("policy.not_stored", error=err)
        self._changed()

    async def _in_slot(
        self, spec: TaskSpec, cancelled: asyncio.Event, work: Callable[[], Coroutine[Any, Any, None]], *, fresh: bool
    ) -> None:
        """Does the work when there is a slot, and for a tenant's task (`fresh`) when the node is not drained."""
        if runs_beside(spec):
            await self._begin(spec, work)
            return
        held = fresh and not spec.trigger_source
        slots = self._slots_of(spec)
        while True:
            if held and not (self._open.is_set() or cancelled.is_set()):
                await self._open_or(cancelled)
            async with slots:
                if not held or self._open.is_set() or cancelled.is_set():  # it may have been drained meanwhile
                    await self._begin(spec, work)
                    return

    async def _begin(self, spec: TaskSpec, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._halted:
            await asyncio.Event().wait()  # for the end of this agent
        self._begun.add(spec.task_id)
        try:
            await work()
        finally:
            self._begun.discard(spec.task_id)

    def _slots_of(self, spec: TaskSpec) -> asyncio.Semaphore:
        if spec.task_id in self._long:
            return self._container_slots
        return self._light if is_light(spec) else self._slots

    async def _open_or(self, cancelled: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(event.wait()) for event in (self._open, cancelled)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()

    def _take(self, group: asyncio.TaskGroup, envelope: Envelope) -> None:
        verdict = admit(envelope, self._view(), self._clock.now_ms())
        if isinstance(verdict, Admitted):
            # registered at once, so that the next envelope of the same batch is judged by it
            accepting = self._journal.accept(verdict)
            group.create_task(self._run(verdict, accepting, self._new_cancel(verdict.spec)))
        elif isinstance(verdict, AdmittedCancel):
            group.create_task(self._cancel(verdict))
        else:
            group.create_task(self._answer(verdict))

    async def _run(self, admitted: Admitted, accepting: Coroutine[Any, Any, None], cancelled: asyncio.Event) -> None:
        """Journals and runs; the acceptance is told as soon as it is on disk."""
        task_id = admitted.spec.task_id
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._accept(task_id, accepting))
                run = functools.partial(self._runner.run, admitted, cancelled)
                both.create_task(self._in_slot(admitted.spec, cancelled, run, fresh=True))
        finally:
            self._forget(task_id)

    async def _accept(self, task_id: str, accepting: Coroutine[Any, Any, None]) -> None:
        try:
            await accepting
        except HostlerError as err:
            _log.error("task.not_accepted", error=err, task_id=task_id)
            self._changed()
            return
        self._accepted(task_id)

    def _start_stored(self, group: asyncio.TaskGroup, stored: StoredTask) -> None:
        spec = decode_task(decode_envelope(stored.envelope).payload)
        cancelled = self._new_cancel(spec)
        if stored.cancel_requested:
            cancelled.set()
        self._accepted(stored.key.task_id)
        group.create_task(self._resume(stored, spec, cancelled))

    async def _resume(self, stored: StoredTask, spec: TaskSpec, cancelled: asyncio.Event) -> None:
        try:
            run = functools.partial(self._runner.resume, stored, self._trusted.catalog, cancelled)
            await self._in_slot(spec, cancelled, run, fresh=not stored.steps)  # what had begun finishes
        finally:
            self._forget(spec.task_id)

    async def _cancel(self, order: AdmittedCancel) -> None:
        try:
            is_open = await self._journal.cancel(order)
        except HostlerError as err:
            _log.error("cancel.not_stored", error=err, task_id=order.spec.task_id)
            return
        event = self._cancels.get(order.spec.task_id)
        if not is_open:
            self._unknown(order.spec.attempt_uid)  # the journal may have been lost, and a container not (K3)
        elif event is not None:
            event.set()

    async def _answer(self, verdict: Replayed | Refusal) -> None:
        """Nothing happened on the node; the control plane is told why."""
        try:
            if isinstance(verdict, Replayed):
                self._accepted(verdict.task_id)
                await self._journal.replayed(verdict.task_id)
            else:
                _log.warning("task.refused", error_code=verdict.error_code, gate=verdict.gate, task_id=verdict.task_id)
                await self._journal.refuse(verdict)
        except HostlerError as err:
            _log.error("answer.not_stored", error=err)

    def _new_cancel(self, spec: TaskSpec) -> asyncio.Event:
        event = asyncio.Event()
        self._cancels[spec.task_id] = event
        if runs_containers(spec):
            self._long.add(spec.task_id)
        if outlives_agent(spec):
            self._outliving.add(spec.task_id)
        return event

    def _forget(self, task_id: str) -> None:
        self._cancels.pop(task_id, None)
        self._long.discard(task_id)
        self._outliving.discard(task_id)


def is_light(spec: TaskSpec) -> bool:
    """Whether it may go beside a full house: a status probe is asked for when something hangs (SK-23)."""
    return spec.operation_type in LIGHT_TYPES or all(step.kind in LIGHT for step in spec.steps)
