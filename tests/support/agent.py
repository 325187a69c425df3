"""The agent's core as the daemon builds it: a real journal on disk, real keys, a runner over both."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostler.agent.admission.admit import admit
from hostler.agent.admission.authority import LocalAuthority
from hostler.agent.admission.verdict import Admitted, AdmittedCancel, Refusal, Replayed
from hostler.agent.containers.workload import Workloads
from hostler.agent.host.host import Host
from hostler.agent.journal.journal import Journal
from hostler.agent.resolver.resolver import Resolver
from hostler.agent.runner.runner import Runner
from hostler.base.envelope import Envelope
from hostler.catalog.manifest import Catalog
from hostler.pki.chain import ChainReport, verify_chain
from hostler.pki.trust import TrustStore
from hostler.wire.codec_report import decode_body
from hostler.wire.report import Body, LogLine, StepProgress, StepReport, TaskReport
from hostler.wire.task import TaskSpec
from support import builders
from support.clocks import StillClock
from support.keys import DOMAIN, NOW, Keys

Verdict = Admitted | AdmittedCancel | Replayed | Refusal


@dataclass
class Core:
    """One node. `deliver` does what the pipeline does with one envelope."""

    keys: Keys
    journal: Journal
    runner: Runner
    catalog: Catalog
    clock: StillClock
    root: Path
    trust: TrustStore
    authority: LocalAuthority
    resolver: Resolver
    capabilities: dict[str, str]
    progress: list[StepProgress] = field(default_factory=list)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    view_changes: dict[str, Any] = field(default_factory=dict)

    def judge(self, sent: Envelope) -> Verdict:
        view = builders.view(self.keys, self.catalog, self.journal, trust=self.trust, authority=self.authority)
        changed = {name: getattr(view, name) for name in view.__struct_fields__} | self.view_changes
        return admit(sent, type(view)(**changed), self.clock.now_ms())

    async def deliver(self, sent: Envelope) -> Verdict:
        verdict = self.judge(sent)
        if isinstance(verdict, Admitted):
            await self.journal.accept(verdict)
            await self.runner.run(verdict, self.cancelled)
        elif isinstance(verdict, AdmittedCancel):
            if await self.journal.cancel(verdict):
                self.cancelled.set()
        elif isinstance(verdict, Replayed):
            await self.journal.replayed(verdict.task_id)
        else:
            await self.journal.refuse(verdict)
        return verdict

    async def run_task(self, **changes: Any) -> TaskSpec:
        spec = builders.task(self.keys, self.catalog, **changes)
        verdict = await self.deliver(builders.envelope(self.keys, spec))
        assert isinstance(verdict, Admitted), verdict
        return spec

    async def outbox(self) -> list[Body]:
        return [decode_body(data) for _, data in await self.journal.pending(0, 100_000)]

    async def task_reports(self) -> list[TaskReport]:
        return [body for body in await self.outbox() if isinstance(body, TaskReport)]

    async def step_reports(self) -> list[StepReport]:
        return [body for body in await self.outbox() if isinstance(body, StepReport)]

    async def log_lines(self) -> list[LogLine]:
        return [body for body in await self.outbox() if isinstance(body, LogLine)]

    def chain(self) -> ChainReport:
        return verify_chain(self.journal.receipts(), [self.keys.node.public], builders.NODE)

    def files(self) -> list[str]:
        """Whatever was written on the host."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file())


@asynccontextmanager
async def core(
    folder: Path,
    keys: Keys | None = None,
    *,
    catalog: Callable[[Keys], Catalog] = builders.catalog,
    authority: LocalAuthority = LocalAuthority(),  # noqa: B008 - frozen
    clock: StillClock | None = None,
    redact: Callable[[str], str] = str,
    capabilities: dict[str, str] | None = None,
    workloads: Callable[[Journal], Workloads] | None = None,
) -> AsyncIterator[Core]:
    """Opened twice over the same folder and keys, it is the same node after a restart."""
    keys, clock = keys or Keys(), clock or StillClock()
    root = folder / "root"
    root.mkdir(parents=True, exist_ok=True)
    journal = await Journal.open(folder / "journal.db", clock)
    made = catalog(keys)
    await journal.save_catalog(made.manifest_envelope, made.documents)
    trust = keys.trust()
    facts = capabilities if capabilities is not None else {}
    resolver = Resolver(folder / "resolver", journal, lambda: made, lambda: facts)
    progress: list[StepProgress] = []
    host = Host(root=root, clock=clock, spool=folder / "spool")
    runner = Runner(
        journal=journal,
        host=host,
        signer=keys.node,
        node_id=builders.NODE,
        trust_domain=DOMAIN,
        clock=clock,
        progress=progress.append,
        trust=lambda: trust,
        authority=authority,
        resolver=resolver,
        redact=redact,
        workloads=workloads(journal) if workloads else None,
    )
    try:
        yield Core(keys, journal, runner, made, clock, root, trust, authority, resolver, facts, progress)
    finally:
        await host.close()
        await journal.close()


def refused(verdict: Verdict) -> tuple[str, str]:
    """(error code, gate) of a refusal; fails for anything else."""
    assert isinstance(verdict, Refusal), verdict
    return verdict.error_code, verdict.gate


__all__ = ["NOW", "Core", "Verdict", "core", "refused"]
