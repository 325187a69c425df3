"""The runner's face: one call runs one task to its end, and never raises."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from hostler.agent.containers.session import RelayLink
from hostler.agent.containers.workload import Workloads
from hostler.agent.host.host import Host
from hostler.agent.journal.journal import Journal
from hostler.agent.journal.rows import StoredTask, TaskKey
from hostler.agent.journal.spool import LogLimits, LogSpool
from hostler.agent.resolver.resolver import Resolver
from hostler.agent.runner.patience import durably
from hostler.agent.runner.receipt import ReceiptMaker
from hostler.agent.runner.recover import recover
from hostler.agent.runner.step_run import NOT_OPEN
from hostler.agent.runner.task_run import TaskRun
from hostler.agent.runner.work import Parts, StepAuthority, Work, key_of, runs_containers
from hostler.agent.steps.contract import MintedSecret, MintOrder
from hostler.agent.upgrade.installed import Installed
from hostler.base.clock import Clock
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.catalog.manifest import Catalog
from hostler.pki.keys import FileSigner
from hostler.pki.trust import TrustStore
from hostler.wire.codec_node import decode_envelope
from hostler.wire.codec_task import decode_task
from hostler.wire.report import StepProgress, TaskReport, TaskStatus

_log = get_logger("hostler.agent.runner")


class Runner:
    """Runs tasks; any number at once, each in the caller's own task.

    Args:
        progress: gets what is worth showing and not worth keeping.
        trust: the trust store in force now; it may change while tasks wait.
        redact: sees every log line before it is stored.
        mint: asks for credentials; without it there are none.
        relay: opens relays by their id; without it there are none.
        workloads: runs containers; without it there are none.
        installed: where versions of the agent lie; without it there is none but this.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        host: Host,
        signer: FileSigner,
        node_id: str,
        trust_domain: str,
        clock: Clock,
        progress: Callable[[StepProgress], None],
        trust: Callable[[], TrustStore],
        authority: StepAuthority,
        resolver: Resolver,
        redact: Callable[[str], str] = str,
        mint: Callable[[MintOrder], Awaitable[MintedSecret]] | None = None,
        logs: LogLimits | None = None,
        relay: Callable[[str], AbstractAsyncContextManager[RelayLink]] | None = None,
        workloads: Workloads | None = None,
        installed: Installed | None = None,
    ) -> None:
        receipts = ReceiptMaker(signer, node_id, trust_domain)
        spool = LogSpool(journal, clock, logs or LogLimits())
        self._parts = Parts(
            journal,
            host,
            receipts,
            clock,
            progress,
            trust,
            authority,
            redact,
            resolver,
            mint or _no_mint,
            spool,
            relay or _no_relay,
            workloads,
            installed,
        )
        self._running: set[TaskKey] = set()
        journal.sign_refusals_with(receipts.refusal)

    @property
    def log_waiting_bytes(self) -> int:
        """What workloads wrote and the control plane has not taken yet."""
        return self._parts.spool.waiting_bytes

    async def run(self, admitted: Work, cancelled: asyncio.Event) -> None:
        """To the end, whatever it is. The intent is written after the acceptance in the journal's own
        order, so a caller may run a task while `Journal.accept` is still on its way to the disk."""
        task = TaskRun(self._parts, admitted, cancelled)
        await self._once(key_of(admitted.spec), lambda: self._guarded(task, task.run()))

    async def resume(self, stored: StoredTask, catalog: Catalog | None, cancelled: asyncio.Event) -> None:
        """After a restart. A cancel that came before it still holds."""
        if stored.cancel_requested:
            cancelled.set()
        try:
            work = recover(stored, catalog, self._parts.journal)
        except HostlerError as err:
            return await self._lost(stored, err)
        task = TaskRun(self._parts, work, cancelled)
        return await self._once(stored.key, lambda: self._guarded(task, task.resume(stored)))

    async def _once(self, key: TaskKey, run: Callable[[], Awaitable[None]]) -> None:
        """An attempt that runs here already is not run beside itself, whatever the caller does (RT-06)."""
        if key in self._running:
            _log.warning("task.runs_already", task_id=key.task_id, attempt_number=key.attempt_number)
            return
        self._running.add(key)
        try:
            await run()
        finally:
            self._running.discard(key)

    async def _guarded(self, task: TaskRun, running: Awaitable[None]) -> None:
        """The process edge of a task: a bug of ours ends the task, never the agent."""
        try:
            await self._to_the_end(task, running)
        finally:
            task.close()

    async def _to_the_end(self, task: TaskRun, running: Awaitable[None]) -> None:
        failure = await _failure_of(running)
        for _ in range(2):  # with the step's receipt; and if that is what is broken, without
            if failure is None or _not_open(failure):
                break
            _log.error("task.broken", **task.ids, error=failure)
            failure = await _failure_of(task.broken(failure))
        if failure is not None:
            _log.warning("task.dropped", **task.ids, error=failure)
        elif task.ended is not None:
            task.leave()
            _log.info("task.finished", **task.ids, status=task.ended.status, error_code=task.ended.error_code)

    async def _lost(self, stored: StoredTask, err: HostlerError) -> None:
        spec = decode_task(decode_envelope(stored.envelope).payload)
        report = TaskReport(
            task_id=spec.task_id,
            attempt_uid=spec.attempt_uid,
            status=TaskStatus.FAILED,
            error_code=err.code,
            error_message=err.message,
            error_hint=err.hint,
            at_ms=self._parts.clock.now_ms(),
            envelope_digest=stored.envelope_digest,
        )
        await durably(lambda: self._parts.journal.finish_task(stored.key, report))
        if self._parts.workloads is not None and runs_containers(spec):
            self._parts.workloads.ended(spec.attempt_uid)


async def _failure_of(running: Awaitable[None]) -> Exception | None:
    try:
        await running
    except Exception as err:  # noqa: BLE001  the process edge
        return err
    return None


async def _no_mint(order: MintOrder) -> MintedSecret:
    raise error("no_minter", f"step {order.step_id} asks for a credential, and nobody here can get one")


def _no_relay(relay_id: str) -> AbstractAsyncContextManager[RelayLink]:
    raise error("controller_unreachable", f"a step asks for relay {relay_id}, and nobody here can open one")


def _not_open(failure: Exception) -> bool:
    """It never was accepted, or has ended already: there is nothing to report."""
    return isinstance(failure, HostlerError) and failure.code == NOT_OPEN
