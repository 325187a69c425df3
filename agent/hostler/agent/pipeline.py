"""inbox → admission → journal → runner: the only place that knows the order.

Loop `Pipeline.run` reads the inbox and ends never by itself. Every envelope gets exactly one answer: a task
that runs, a cancel that is passed on, a first result reported again, or a signed refusal.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from hostler.agent.admission.admit import admit
from hostler.agent.admission.verdict import Admitted, AdmittedCancel, Refusal, Replayed
from hostler.agent.admission.view import AdmissionView
from hostler.agent.journal.journal import Journal
from hostler.agent.journal.rows import StoredTask
from hostler.agent.lifecycle.trust import Trusted
from hostler.agent.runner.runner import Runner
from hostler.agent.session.inbox import Inbox
from hostler.base.clock import Clock
from hostler.base.envelope import Envelope
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger
from hostler.wire.node import CatalogUpdate, Tasks

_log = get_logger("hostler.agent.pipeline")


class Pipeline:
    """Starts at most `parallel` tasks at once, in the order they came."""

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
        accepted: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self._inbox = inbox
        self._journal = journal
        self._runner = runner
        self._trusted = trusted
        self._view = view
        self._clock = clock
        self._slots = asyncio.Semaphore(parallel)
        self._cancels: dict[str, asyncio.Event] = {}
        self._accepted = accepted
        self._changed = changed

    @property
    def running(self) -> int:
        """Tasks accepted and not ended, running or waiting for a slot."""
        return len(self._cancels)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for stored in await self._journal.open_tasks():
                self._start_stored(group, stored)
            while True:
                item = await self._inbox.get()
                if isinstance(item, Tasks):
                    for envelope in item.envelopes:
                        await self._take(group, envelope)
                elif isinstance(item, CatalogUpdate):
                    await self._trusted.take_catalog(item)
                    self._changed()
                else:
                    await self._trusted.take_keyset(item)
                    self._changed()

    async def _take(self, group: asyncio.TaskGroup, envelope: Envelope) -> None:
        verdict = admit(envelope, self._view(), self._clock.now_ms())
        if isinstance(verdict, Admitted):
            # registered at once, so that the next envelope of the same batch is judged by it
            accepting = self._journal.accept(verdict)
            group.create_task(self._run(verdict, accepting, self._new_cancel(verdict.spec.task_id)))
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
                both.create_task(self._in_slot(self._runner.run(admitted, cancelled)))
        finally:
            self._cancels.pop(task_id, None)

    async def _accept(self, task_id: str, accepting: Coroutine[Any, Any, None]) -> None:
        try:
            await accepting
        except HostlerError as err:
            _log.error("task.not_accepted", error=err, task_id=task_id)
            self._changed()
            return
        self._accepted(task_id)

    def _start_stored(self, group: asyncio.TaskGroup, stored: StoredTask) -> None:
        cancelled = self._new_cancel(stored.key.task_id)
        if stored.cancel_requested:
            cancelled.set()
        self._accepted(stored.key.task_id)
        group.create_task(self._resume(stored, cancelled))

    async def _resume(self, stored: StoredTask, cancelled: asyncio.Event) -> None:
        try:
            await self._in_slot(self._runner.resume(stored, self._trusted.catalog, cancelled))
        finally:
            self._cancels.pop(stored.key.task_id, None)

    async def _in_slot(self, work: Coroutine[Any, Any, None]) -> None:
        async with self._slots:
            await work

    async def _cancel(self, order: AdmittedCancel) -> None:
        try:
            is_open = await self._journal.cancel(order)
        except HostlerError as err:
            _log.error("cancel.not_stored", error=err, task_id=order.spec.task_id)
            return
        event = self._cancels.get(order.spec.task_id)
        if is_open and event is not None:
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

    def _new_cancel(self, task_id: str) -> asyncio.Event:
        event = asyncio.Event()
        self._cancels[task_id] = event
        return event
