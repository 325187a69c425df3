"""Composition root of `hostler-agent run`: builds the parts, one TaskGroup, every loop named here.

| loop | reads | emits |
| --- | --- | --- |
| `Outside.run` | frames of the network process | messages and answers, each to whoever waits for it |
| `Session.run` | the control plane's messages, the journal's outbox | envelopes and updates into the inbox |
| `Pipeline.run` | inbox, open tasks of the journal | running tasks, refusals, acceptances |
| `Renewal.run` | the clock | a new certificate, a new link |
| `NodeWorkloads.run` | containers by their labels, the journal | removals of what no open task owns |
| `CapabilityWatch.run` | the kernel's word of new and gone entries | a heartbeat when the node changed |
| `SelfReport.run` | the agent's own files, what version is wanted | a signed report, for the next heartbeat |
| `Samples.run` | a few files of /proc and /sys | the newest measurements, for the next heartbeat |
| `Observer.run` | requests on a Unix socket, where one is configured | `/metrics` and `/health` |
| `when_steady` | once, after a minute | that this slot's starts count no more; a look at the one it stands in for |
| `_housekeeping` | journal health, watchdog | `status.json`, a heartbeat when health changed |
"""

import asyncio
import functools
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hostler.agent import capabilities
from hostler.agent.bundles.cache import BundleCache
from hostler.agent.capability_watch import CapabilityWatch
from hostler.agent.config import AgentConfig
from hostler.agent.containers.choose import open_runtimes
from hostler.agent.host.host import Host
from hostler.agent.journal.journal import Journal
from hostler.agent.lifecycle import certificates, identity
from hostler.agent.lifecycle.alone import alone
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
from hostler.agent.self_report import SelfReport
from hostler.agent.session.inbox import Inbox
from hostler.agent.session.outgoing import Outgoing
from hostler.agent.session.session import Session
from hostler.agent.standing import Standing
from hostler.agent.steady import when_steady, when_stopped
from hostler.agent.taskapi.calls import TaskCalls
from hostler.agent.taskapi.server import TaskApi
from hostler.agent.upgrade.installed import Installed
from hostler.agent.upgrade.places import Places
from hostler.agent.workloads import NodeWorkloads
from hostler.base import systemd
from hostler.base.clock import SystemClock
from hostler.base.logs import get_logger
from hostler.base.version import __version__
from hostler.wire.node import KeysetUpdate

_log = get_logger("hostler.agent.daemon")
_HOUSEKEEPING_S = 15.0
_LAST_WORDS_S = 5.0


NO_FILE = Path("/nonexistent")


class Daemon:
    """One agent. `run` returns when it was asked to stop."""

    def __init__(self, config: AgentConfig, journal: Journal, socket: Path | None = None, file: Path = NO_FILE) -> None:
        self.config = config
        self.config_file = file
        self.clock = SystemClock()
        self.journal = journal
        self.me = identity.load(config.state)
        self.trusted = Trusted(config.state, journal, self.clock)
        self.detect = functools.partial(capabilities.detect, containers=config.containers)
        self.capabilities = self.detect(Path(config.files.root))
        self.installed = self._installed()
        self.standing = Standing(self)
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

    def _installed(self) -> Installed:
        places = Places()
        return Installed(
            places, places.running(), lambda: self.trusted.store, lambda: self.renewal.current.facts.serial
        )

    def _spared(self) -> frozenset[int]:
        own = frozenset((self.door.pid,)) if isinstance(self.door, Child) else frozenset[int]()
        return own | self.workloads.pids()

    def _build(self) -> None:
        inbox, rng = Inbox(), random.Random()
        self.outgoing = Outgoing(self.journal, self.standing.heartbeat)
        self.journal.on_outbox(self.outgoing.rows_added)
        containers, state = self.config.containers, self.config.state / "containers"
        state = Path(containers.state_dir) if containers.state_dir else state
        self.workloads = NodeWorkloads(
            settings=containers,
            state=state,
            kept=(str(self.config.state),),
            root=Path(self.config.files.root),
            node_id=self.me.node_id,
            runtimes=open_runtimes(containers, state, self.me.node_id),
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
            installed=self.installed,
        )
        self.report = SelfReport(self, self.config_file, rng)
        self.pipeline = Pipeline(
            inbox=inbox,
            journal=self.journal,
            runner=self.runner,
            trusted=self.trusted,
            view=self.standing.view,
            clock=self.clock,
            parallel=self.config.parallel_tasks,
            containers=containers.max_containers,
            accepted=self.outgoing.accepted,
            changed=self._changed,
            unknown=self.workloads.ended,
            wanted=self.report.wanted,
        )
        self.renewal = Renewal(self.config.state, self.me, self._renew, self.clock, rng, self._renewed, self._recover)
        self.watch = CapabilityWatch(
            Path(self.config.files.root), self.detect, self.capabilities, self._capabilities_changed
        )
        self.samples = Samples(Path(self.config.files.root), self.clock, rng, self.config.telemetry_seconds)
        self.session = Session(
            outside=self.outside,
            target=self._target,
            hello=self.standing.hello,
            journal=self.journal,
            inbox=inbox,
            outgoing=self.outgoing,
            transport=self.config.control.transport,
            rng=rng,
            renew_within=self.renewal.renew_within,
            clock=self.clock,
            changed=self.standing.write_status,
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
                    self.report.run,
                    self._housekeeping,
                    functools.partial(when_steady, self),
                )
            ]
            if self.config.observe_socket:
                observer = Observer(Path(self.config.observe_socket), self.standing.status)
                running.append(group.create_task(observer.run()))
            if self.installed.running and self.installed.places.trial.exists():
                running.append(group.create_task(self._on_trial()))
            await stop.wait()
            systemd.notify("STOPPING=1")
            when_stopped(self)
            await self._finish_running()
            await self._say_the_last()
            for task in running:
                task.cancel()
        self.door.stop()
        await self.workloads.close()
        await self.host.close()
        _log.info("agent.stopped", node_id=self.me.node_id)

    async def _on_trial(self) -> None:
        from hostler.agent.trial_side import TrialSide  # an idle agent carries nothing of it

        await TrialSide(self, self.installed.places, self.installed.running).run()
        self.report.refresh()

    async def _finish_running(self) -> None:
        """Gives what runs a moment to end; what does not is found by the journal at the next start.

        Containers are not waited for: they run on, and the next agent takes them up (TE-20).
        """
        self.pipeline.halt()
        end = asyncio.get_running_loop().time() + self.config.stop_grace_seconds
        while self.pipeline.at_work and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # at the end of life a glance now and then will do

    async def _say_the_last(self) -> None:
        """Gives what was reported so far a moment to arrive; without a link it waits for the next agent."""
        _, last = self.journal.outbox_weight()
        end = asyncio.get_running_loop().time() + _LAST_WORDS_S
        while self.session.state == "connected" and self.journal.acknowledged < last:
            if asyncio.get_running_loop().time() >= end:
                return
            await asyncio.sleep(0.02)

    async def _housekeeping(self) -> None:
        interval = systemd.watchdog_interval_s() or _HOUSEKEEPING_S
        before = self.journal.storage, self.standing.drift()
        while True:
            self.standing.write_status()
            systemd.notify("WATCHDOG=1")
            await asyncio.sleep(min(interval, _HOUSEKEEPING_S))
            if self.journal.storage != "ok":
                await self.journal.check()
            if (self.journal.storage, self.standing.drift()) != before:
                before = self.journal.storage, self.standing.drift()
                self.report.refresh()
                self.outgoing.beat_now()

    def _changed(self) -> None:
        """Said at once, here and there."""
        self.standing.write_status()
        self.outgoing.beat_now()

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


async def run(config: AgentConfig, socket: Path | None = None, file: Path = NO_FILE) -> None:
    """Opens the journal and runs the agent until it is told to stop.

    Args:
        socket: where the network process dials in; None to start one as a child.
        file: what `config` was read from; a change of it shows in the node's report.

    Raises:
        HostlerError: `already_running`, `storage_unhealthy`, `invalid_config`, and what else keeps it from starting.
    """
    faults.arm(config.testing.fault_points, enabled=config.testing.enabled)
    config.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    async with alone(config.state):
        journal = await Journal.open(config.state / "journal.db", SystemClock())
        try:
            await Daemon(config, journal, socket, file).run()
        finally:
            await journal.close()
