"""A node that pulls from a registry; each `pull` is a step of its own unless `resume` says otherwise."""

import asyncio
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from hostler.agent.host.fetch_settings import FetchSettings
from hostler.agent.host.host import Host
from hostler.agent.secrets.secret import Secret
from hostler.agent.secrets.table import SecretTable
from hostler.agent.steps.artifact_pull_oci import KIND
from hostler.agent.steps.contract import Outcome, StepContext
from hostler.base.clock import Deadline, SystemClock
from hostler.catalog.params.artifact import PullOci
from hostler.wire.task import Policy
from support.steps import UNLIMITED, Told, context_of


@dataclass
class OciPuller:
    root: Path
    ca: Path
    told: Told = field(default_factory=Told)
    settings: FetchSettings = field(default_factory=FetchSettings)
    spool: Path | None = None

    def __post_init__(self) -> None:
        self.settings = msgspec.structs.replace(
            self.settings,
            ca_file=str(self.ca),
            backoff_base_seconds=0.005,
            min_rate_bytes_per_s=1,
            disk_reserve_bytes=1,
        )

    def host(self) -> Host:
        return Host(root=self.root, fetch=self.settings, spool=self.spool or self.root / "spool")

    def context(
        self,
        reference: str,
        *,
        policy: Policy = UNLIMITED,
        allowed_sources: tuple[str, ...] | None = None,
        resume: bool = False,
        deadline_s: float = 60.0,
        cancelled: asyncio.Event | None = None,
        login: dict[str, str] | None = None,
        host: Host | None = None,
        **params: Any,
    ) -> StepContext:
        table = SecretTable(Deadline.after(deadline_s, SystemClock()), SystemClock())
        if login is not None:
            secret = Secret.take(bytearray(json.dumps(login).encode()))
            params["credential"] = table.put(secret, steps=frozenset({"step"}), lifetime_s=60)
        wanted = {"reference": reference, "path": "/srv/bundle", "retries": 3} | params
        return context_of(
            PullOci(**wanted),
            host or self.host(),
            self.told,
            policy=policy,
            allowed_sources=allowed_sources,
            checkpoint=self.told.checkpoint if resume else None,
            deadline_s=deadline_s,
            cancelled=cancelled,
            secrets=table,
        )

    async def pull(self, reference: str, **given: Any) -> Outcome:
        return await KIND.apply(self.context(reference, **given))

    async def probe(self, reference: str, **given: Any) -> Any:
        """As a restarted agent would, with what the journal holds."""
        return await KIND.probe(replace(self.context(reference, resume=True, **given)))

    @property
    def place(self) -> Path:
        return self.root / "srv" / "bundle"

    @property
    def leftovers(self) -> list[Path]:
        return list(self.place.parent.glob(".hostler-*")) if self.place.parent.exists() else []
