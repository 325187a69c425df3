"""What the agent says of itself: to the control plane, to admission, and in `status.json`."""

import os
import secrets
from typing import TYPE_CHECKING, Any

import msgspec

from hostler.agent import capabilities
from hostler.agent.admission.view import AdmissionView
from hostler.base.logs import get_logger
from hostler.base.version import __commit__, __version__
from hostler.wire.node import Heartbeat, Hello
from hostler.wire.versions import ENVELOPES, OLDEST, PROTOCOL

if TYPE_CHECKING:
    from hostler.agent.daemon import Daemon

_log = get_logger("hostler.agent.standing")
DEGRADED = "degraded"  # something hangs in the kernel, where SIGKILL does not reach it (K5)
TRIAL_UNPROVEN = (
    "trial_unproven"  # a version that nobody could prove, because the control plane is away or turns us away
)
CLOCK_SKEW, MOST_SKEW_MS = "clock_skew", 60_000  # a task is signed to be valid a minute early


class Standing:
    """Reads the agent's parts, and changes none of them."""

    def __init__(self, agent: "Daemon") -> None:
        self._agent = agent
        self._instance_id = secrets.token_hex(16)
        self._told = agent.capabilities

    def hold(self) -> str:
        forgotten = "controller_rollback" if self._agent.journal.held else ""
        return forgotten or self._agent.session.hold or self._agent.trusted.refused

    def _resolver_said(self) -> str:
        active = None if self._agent.resolver.drift else self._agent.resolver.active
        return f"{active.config} of catalog {active.version}" if active else ""

    def drift(self) -> str:
        """What is not as it should be, and no task can mend."""
        if self._agent.renewal.drift:
            return self._agent.renewal.drift
        if self._agent.resolver.drift:
            return self._agent.resolver.drift
        if self._agent.report.unproven:
            return TRIAL_UNPROVEN
        if abs(self._agent.session.clock_skew_ms) > MOST_SKEW_MS:
            return CLOCK_SKEW
        return DEGRADED if self._agent.host.hung or self._agent.workloads.lost_devices else ""

    def view(self) -> AdmissionView:
        return AdmissionView(
            node_id=self._agent.me.node_id,
            thumbprint=self._agent.me.thumbprint,
            binding=self._agent.journal.binding,
            trust=self._agent.trusted.store,
            catalog=self._agent.trusted.catalog,
            authority=self._agent.config.authority,
            capabilities=self._agent.capabilities,
            high_sequence=self._agent.journal.high_sequence,
            control_epoch=self._agent.journal.control_epoch,
            held=self._agent.journal.held,
            known=self._agent.journal.known,
            storage=self._agent.journal.storage,
        )

    def hello(self) -> Hello:
        self._told = self._agent.capabilities
        return Hello(
            agent_version=__version__,
            boot_id=capabilities.boot_id(),
            keyset_version=self._agent.trusted.store.keyset.version,
            catalog_version=self._agent.trusted.catalog_version,
            high_sequence=self._agent.journal.high_sequence,
            control_epoch=self._agent.journal.control_epoch,
            parallel_tasks=self._agent.config.parallel_tasks,
            capabilities=self._agent.capabilities,
            labels=self._agent.config.labels,
            storage=self._agent.journal.storage,
            hold=self.hold(),
            drift=self.drift(),
            instance_id=self._instance_id,
            agent_commit=__commit__,
            agent_report=self._agent.report.told(),
            protocol=PROTOCOL,
            protocol_oldest=OLDEST,
            envelope_types=ENVELOPES,
            scheduling=self._agent.journal.scheduling,
        )

    def heartbeat(self) -> Heartbeat:
        """With the capabilities only when they are other than the link has heard of."""
        news = {} if self._agent.capabilities == self._told else self._agent.capabilities
        self._told = self._agent.capabilities
        return Heartbeat(
            capabilities=news,
            running_tasks=self._agent.pipeline.running,
            free_slots=max(0, self._agent.config.parallel_tasks - self._agent.pipeline.in_slots),
            outbox_rows=self._agent.journal.outbox_rows,
            storage=self._agent.journal.storage,
            hold=self.hold(),
            keyset_version=self._agent.trusted.store.keyset.version,
            catalog_version=self._agent.trusted.catalog_version,
            drift=self.drift(),
            sample=self._agent.samples.next(),
            agent_report=self._agent.report.next(),
        )

    def status(self) -> dict[str, Any]:
        return {
            "node_id": self._agent.me.node_id,
            "version": __version__,
            "commit": __commit__,
            "pid": os.getpid(),
            "session_uid": self._agent.outside.uid,
            "at_ms": self._agent.clock.now_ms(),
            "session": self._agent.session.state,
            "hold": self.hold(),
            "drift": self.drift(),
            "agent_state": self._agent.report.state,
            "scheduling": self._agent.journal.scheduling or "schedulable",
            "allocation": msgspec.to_builtins(self._agent.journal.binding),
            "storage": self._agent.journal.storage,
            "running_tasks": self._agent.pipeline.running,
            "hung": self._agent.host.hung,
            "lost_devices": sorted({node for nodes in self._agent.workloads.lost_devices.values() for node in nodes}),
            "outbox_rows": self._agent.journal.outbox_rows,
            "relays": self._agent.outside.open_relays,
            "log_waiting_bytes": self._agent.runner.log_waiting_bytes,
            "catalog_version": self._agent.trusted.catalog_version,
            "resolver": self._resolver_said(),
            "keyset_version": self._agent.trusted.store.keyset.version,
            "certificate_expires_ms": self._agent.renewal.current.facts.not_after_ms,
        }

    def write_status(self) -> None:
        path = self._agent.config.state / "status.json"
        scratch = path.with_suffix(".new")
        try:
            scratch.write_bytes(msgspec.json.encode(self.status()))
            scratch.replace(path)
        except OSError as err:
            _log.warning("status.not_written", error=err)
