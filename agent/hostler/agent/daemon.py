"""Composition root of `hostler-agent run`: builds the parts, one TaskGroup, every loop named here.

| loop | reads | emits |
| --- | --- | --- |
| `Outside.run` | frames of the network process | messages and answers, each to whoever waits for it |
| `Session.run` | the control plane's messages, the journal's outbox | envelopes and updates into the inbox |
| `Pipeline.run` | inbox, open tasks of the journal | running tasks, refusals, acceptances |
| `Renewal.run` | the clock | a new certificate, a new link |
| `NodeWorkloads.run` | containers by their labels, the journal | removals of what no open task owns |
| `CapabilityWatch.run` | the kernel's word of new and gone entries | a heartbeat when the node changed |
| `Samples.run` | a few files of /proc and /sys | the newest measurements, for the next heartbeat |
| `Observer.run` | requests on a Unix socket, where one is configured | `/metrics` and `/health` |
| `_housekeeping` | journal health, watchdog | `status.json`, a heartbeat when health changed |
"""

import asyncio
import functools
import os
import random
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from hostler.agent import capabilities
from hostler.agent.admission.view import AdmissionView
from hostler.agent.bundles.cache import BundleCache
from hostler.agent.capability_watch import CapabilityWatch
from hostler.agent.config import AgentConfig
from hostler.agent.containers.choose import open_runtimes
from hostler.agent.host.host import Host
from hostler.agent.journal.journal import Journal
from hostler.agent.lifecycle import certificates, identity
from hostler.agent.lifecycle.bundles import BundleSource
from hostler.agent.lifecycle.mints import Mints
from hostler.agent.lifecycle.provision import resolver_folder
from hostler.agent.lifecycle.renew import Renewal
from hostler.agent.lifecycle.trust import Trusted
from hostler.agent.observe import Observer
from hostler.agent.outside.frames import Tls
from hostler.agent.outside.outside import Outside, RemoteRelay
from hostler.agent.outside.spawn import Child, Listener
from hostler.agent.pipeline import Pipeline
from hostler.agent.resolver.resolver import Resolver
from hostler.agent.runner import faults
from hostler.agent.runner.runner import Runner
from hostler.agent.samples import Samples
from hostler.agent.session.inbox import Inbox
from hostler.agent.session.outgoing import Outgoing
from hostler.agent.session.session import Session
from hostler.agent.taskapi.calls import TaskCalls
from hostler.agent.taskapi.server import TaskApi
from hostler.agent.workloads import NodeWorkloads
from hostler.base import systemd
from hostler.base.clock import SystemClock
from hostler.base.logs import get_logger
from hostler.base.version import __version__
from hostler.wire.node import Heartbeat, Hello, KeysetUpdate
from hostler.wire.versions import ENVELOPES, OLDEST, PROTOCOL

_log = get_logger("hostler.agent.daemon")
_HOUSEKEEPING_S = 15.0
DEGRADED = "degraded"  # something hangs in the kernel, where SIGKILL does not reach it (K5)
CLOCK_SKEW, MOST_SKEW_MS = "clock_skew", 60_000  # a task is signed to be valid a minute early


class Daemon:
    """One agent. `run` returns when it was asked to stop."""

    def __init__(self, config: AgentConfig, journal: Journal, socket: Path | None = None) -> None:
        self.config = config
        self.clock = SystemClock()
        self._instance_id = secrets.token_hex(16)
        self.journal = journal
        self.me = identity.load(config.state)
        self.trusted = Trusted(config.state, journal, self.clock)
        self.detect = functools.partial(capabilities.detect, containers=config.containers)
        self.capabilities = self.detect(Path(config.files.root))
        self._told = self.capabilities
        self.host = Host(
            root=Path(config.files.root),
            clock=self.clock,
            write_prefixes=config.files.write_prefixes,
            deny_prefixes=(*config.files.deny_prefixes, str(config.state)),
            spool=config.state / "spool",
            allocations=config.state / "allocations",
            parallel=config.parallel_tasks,
            fetch=config.fetch,
            adopt_orphans=True,
            spared=self._spared,
        )
        self.resolver = Resolver(
            resolver_folder(config.state), journal, lambda: self.trusted.catalog, lambda: self.capabilities
        )
        self.door: Child | Listener = (
            Listener(socket, config.session_user)
            if socket
            else Child(config.session_user, config.log_format, config.log_level)
        )
        self.outside = Outside(self.door.connect)
        self.bundles = BundleCache(
            config.state / "bundles", BundleSource(self.outside.pull, self._target), config.bundles, self.clock
        )
        self._build()

    def _spared(self) -> frozenset[int]:
        own = frozenset((self.door.pid,)) if isinstance(self.door, Child) else frozenset[int]()
        return own | self.workloads.pids()

    def _build(self) -> None:
        inbox, rng = Inbox(), random.Random()
        self.outgoing = Outgoing(self.journal, self._heartbeat)
        self.journal.on_outbox(self.outgoing.rows_added)
        containers, state = self.config.containers, self.config.state / "containers"
        state = Path(containers.state_dir) if containers.state_dir else state
        self.workloads = NodeWorkloads(
            settings=containers,
            state=state,
            kept=(str(self.config.state),),
            root=Path(self.config.files.root),
            node_id=self.me.node_id,
            runtimes=open_runtimes(containers, state),
            tasks=TaskApi(state / "tasks", TaskCalls(self.outside.ask, self._target), self.clock),
            bundles=self.bundles,
            journal=self.journal,
            clock=self.clock,
            silent=lambda: self.session.silent_seconds,
            heard_for=lambda: self.session.heard_for_seconds,
        )
        self.runner = Runner(
            journal=self.journal,
            host=self.host,
            signer=self.me.signer,
            node_id=self.me.node_id,
            trust_domain=self.me.facts.trust_domain,
            clock=self.clock,
            progress=self.outgoing.progress,
            trust=lambda: self.trusted.store,
            authority=self.config.authority,
            resolver=self.resolver,
            logs=self.config.logs,
            relay=self._relay,
            mint=Mints(self.outside.ask, self._target, lambda: self.me, lambda: self.trusted.store, self.clock),
            workloads=self.workloads,
        )
        self.pipeline = Pipeline(
            inbox=inbox,
            journal=self.journal,
            runner=self.runner,
            trusted=self.trusted,
            view=self._view,
            clock=self.clock,
            parallel=self.config.parallel_tasks,
            containers=containers.max_containers,
            accepted=self.outgoing.accepted,
            changed=self._changed,
            unknown=self.workloads.ended,
        )
        self.renewal = Renewal(self.config.state, self.me, self._renew, self.clock, rng, self._renewed, self._recover)
        self.watch = CapabilityWatch(
            Path(self.config.files.root), self.detect, self.capabilities, self._capabilities_changed
        )
        self.samples = Samples(Path(self.config.files.root), self.clock, rng, self.config.telemetry_seconds)
        self.session = Session(
            outside=self.outside,
            target=self._target,
            hello=self._hello,
            journal=self.journal,
            inbox=inbox,
            outgoing=self.outgoing,
            transport=self.config.control.transport,
            rng=rng,
            renew_within=self.renewal.renew_within,
            clock=self.clock,
        )

    async def run(self) -> None:
        await self.trusted.load()
        await self.workloads.recover()
        await self.bundles.tidy()
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        _log.info("agent.started", node_id=self.me.node_id, version=__version__)
        systemd.notify("READY=1")
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(loop_())
                for loop_ in (
                    self.outside.run,
                    self.session.run,
                    self.pipeline.run,
                    self.renewal.run,
                    self.watch.run,
                    self.workloads.run,
                    self.samples.run,
                    self._housekeeping,
                )
            ]
            if self.config.observe_socket:
                observer = Observer(Path(self.config.observe_socket), self._status)
                running.append(group.create_task(observer.run()))
            await stop.wait()
            systemd.notify("STOPPING=1")
            await self._finish_running()
            for task in running:
                task.cancel()
        self.door.stop()
        await self.workloads.close()
        await self.host.close()
        _log.info("agent.stopped", node_id=self.me.node_id)

    async def _finish_running(self) -> None:
        """Gives what runs a moment to end; what does not is found by the journal at the next start.

        Containers are not waited for: they run on, and the next agent takes them up (TE-20).
        """
        end = asyncio.get_running_loop().time() + self.config.stop_grace_seconds
        while self.pipeline.in_slots and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # at the end of life a glance now and then will do

    async def _housekeeping(self) -> None:
        interval = systemd.watchdog_interval_s() or _HOUSEKEEPING_S
        before = self.journal.storage, self._drift()
        while True:
            self._write_status()
            systemd.notify("WATCHDOG=1")
            await asyncio.sleep(min(interval, _HOUSEKEEPING_S))
            if self.journal.storage != "ok":
                await self.journal.check()
            if (self.journal.storage, self._drift()) != before:
                before = self.journal.storage, self._drift()
                self.outgoing.beat_now()

    def _changed(self) -> None:
        """Said at once, here and there."""
        self._write_status()
        self.outgoing.beat_now()

    def _status(self) -> dict[str, Any]:
        return {
            "node_id": self.me.node_id,
            "version": __version__,
            "pid": os.getpid(),
            "session_uid": self.outside.uid,
            "at_ms": self.clock.now_ms(),
            "session": self.session.state,
            "hold": self._hold(),
            "drift": self._drift(),
            "scheduling": self.journal.scheduling or "schedulable",
            "allocation": msgspec.to_builtins(self.journal.binding),
            "storage": self.journal.storage,
            "running_tasks": self.pipeline.running,
            "hung": self.host.hung,
            "lost_devices": sorted({node for nodes in self.workloads.lost_devices.values() for node in nodes}),
            "outbox_rows": self.journal.outbox_rows,
            "relays": self.outside.open_relays,
            "log_waiting_bytes": self.runner.log_waiting_bytes,
            "catalog_version": self.trusted.catalog_version,
            "resolver": self._resolver_said(),
            "keyset_version": self.trusted.store.keyset.version,
            "certificate_expires_ms": self.renewal.current.facts.not_after_ms,
        }

    def _write_status(self) -> None:
        path = self.config.state / "status.json"
        scratch = path.with_suffix(".new")
        try:
            scratch.write_bytes(msgspec.json.encode(self._status()))
            scratch.replace(path)
        except OSError as err:
            _log.warning("status.not_written", error=err)

    def _target(self) -> tuple[Tls, str]:
        """Where to, and as whom, now."""
        return certificates.tls_of(self.renewal.current, self.trusted.store), self.config.control.address

    @asynccontextmanager
    async def _relay(self, relay_id: str) -> AsyncIterator[RemoteRelay]:
        tls, address = self._target()
        async with self.outside.relay(tls, address, relay_id) as relay:
            yield relay

    def _renewed(self, fresh: identity.Identity) -> None:
        self.me = fresh
        self.session.redial()

    async def _renew(self, old: identity.Identity) -> bytes:
        return await certificates.renew(self.outside.ask, old, self.trusted.store, self.config.control.address)

    async def _recover(self, old: identity.Identity) -> bytes:
        """With the keysets missed meanwhile, so that a rolled CA is known before the next dial."""
        store, address = self.trusted.store, self.config.control.enroll_address
        recovered = await certificates.recover(self.outside.ask, old, store, address)
        for keyset in recovered.keysets:
            await self.trusted.take_keyset(KeysetUpdate(keyset))
        return recovered.chain_pem

    def _capabilities_changed(self, found: dict[str, str]) -> None:
        """Admission and resolver judge by the new picture from here on; the control plane hears of it at once."""
        self.capabilities = found
        self.outgoing.beat_now()

    def _hold(self) -> str:
        forgotten = "controller_rollback" if self.journal.held else ""
        return forgotten or self.session.hold or self.trusted.refused

    def _resolver_said(self) -> str:
        active = None if self.resolver.drift else self.resolver.active
        return f"{active.config} of catalog {active.version}" if active else ""

    def _drift(self) -> str:
        """What is not as it should be, and no task can mend."""
        if self.renewal.drift:
            return self.renewal.drift
        if self.resolver.drift:
            return self.resolver.drift
        if abs(self.session.clock_skew_ms) > MOST_SKEW_MS:
            return CLOCK_SKEW
        return DEGRADED if self.host.hung or self.workloads.lost_devices else ""

    def _view(self) -> AdmissionView:
        return AdmissionView(
            node_id=self.me.node_id,
            thumbprint=self.me.thumbprint,
            binding=self.journal.binding,
            trust=self.trusted.store,
            catalog=self.trusted.catalog,
            authority=self.config.authority,
            capabilities=self.capabilities,
            high_sequence=self.journal.high_sequence,
            control_epoch=self.journal.control_epoch,
            held=self.journal.held,
            known=self.journal.known,
            storage=self.journal.storage,
        )

    def _hello(self) -> Hello:
        self._told = self.capabilities
        return Hello(
            agent_version=__version__,
            boot_id=capabilities.boot_id(),
            keyset_version=self.trusted.store.keyset.version,
            catalog_version=self.trusted.catalog_version,
            high_sequence=self.journal.high_sequence,
            control_epoch=self.journal.control_epoch,
            parallel_tasks=self.config.parallel_tasks,
            capabilities=self.capabilities,
            labels=self.config.labels,
            storage=self.journal.storage,
            hold=self._hold(),
            drift=self._drift(),
            instance_id=self._instance_id,
            protocol=PROTOCOL,
            protocol_oldest=OLDEST,
            envelope_types=ENVELOPES,
            scheduling=self.journal.scheduling,
        )

    def _heartbeat(self) -> Heartbeat:
        """With the capabilities only when they are other than the link has heard of."""
        news = {} if self.capabilities == self._told else self.capabilities
        self._told = self.capabilities
        return Heartbeat(
            capabilities=news,
            running_tasks=self.pipeline.running,
            free_slots=max(0, self.config.parallel_tasks - self.pipeline.in_slots),
            outbox_rows=self.journal.outbox_rows,
            storage=self.journal.storage,
            hold=self._hold(),
            keyset_version=self.trusted.store.keyset.version,
            catalog_version=self.trusted.catalog_version,
            drift=self._drift(),
            sample=self.samples.next(),
        )


async def run(config: AgentConfig, socket: Path | None = None) -> None:
    """Opens the journal and runs the agent until it is told to stop.

    Args:
        socket: where the network process dials in; None to start one as a child.

    Raises:
        HostlerError: `storage_unhealthy`, `invalid_config`, and what else keeps it from starting.
    """
    faults.arm(config.testing.fault_points, enabled=config.testing.enabled)
    config.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    journal = await Journal.open(config.state / "journal.db", SystemClock())
    try:
        await Daemon(config, journal, socket).run()
    finally:
        await journal.close()
