"""A blob, a server that has it, and a node that wants it."""

import asyncio
import hashlib
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hostler.agent.fetch.partial import PREFIX
from hostler.agent.host.fetch_settings import FetchSettings
from hostler.agent.host.host import Host
from hostler.agent.steps.artifact_pull_blob import KIND
from hostler.agent.steps.contract import Outcome, StepContext
from hostler.catalog.params.artifact import PullBlob
from hostler.wire.task import Policy
from support.blob_server import Blob, BlobServer
from support.steps import UNLIMITED, Told, context_of

DATA = random.Random(11).randbytes(1_234_567)
SHA = hashlib.sha256(DATA).hexdigest()
NAME = "/srv/models/model.bin"


@dataclass
class Puller:
    """One node's directory. Each `pull` is a step of its own unless `resume` says otherwise."""

    root: Path
    server: BlobServer
    told: Told = field(default_factory=Told)
    settings: FetchSettings = field(default_factory=FetchSettings)

    def __post_init__(self) -> None:
        self.server.blobs["/model.bin"] = Blob(DATA)
        self.settings = msgspec.structs.replace(
            self.settings,
            ca_file=str(self.server.certs.ca),
            backoff_base_seconds=0.005,
            rate_window_seconds=5.0,
            min_rate_bytes_per_s=1,
            disk_reserve_bytes=1,
        )

    def tune(self, **changes: Any) -> None:
        self.settings = msgspec.structs.replace(self.settings, **changes)

    def context(
        self,
        *,
        policy: Policy = UNLIMITED,
        allowed_sources: tuple[str, ...] | None = None,
        resume: bool = False,
        deadline_s: float = 30.0,
        cancelled: asyncio.Event | None = None,
        **params: Any,
    ) -> StepContext:
        wanted = {"url": self.server.url("/model.bin"), "sha256": SHA, "path": NAME, "retries": 3} | params
        return context_of(
            PullBlob(**wanted),
            Host(root=self.root, fetch=self.settings),
            self.told,
            policy=policy,
            allowed_sources=allowed_sources,
            checkpoint=self.told.checkpoint if resume else None,
            deadline_s=deadline_s,
            cancelled=cancelled,
        )

    async def pull(self, **given: Any) -> Outcome:
        return await KIND.apply(self.context(**given))

    @property
    def final(self) -> Path:
        return self.root / NAME.lstrip("/")

    @property
    def leftovers(self) -> list[Path]:
        return list(self.final.parent.glob(PREFIX + "*")) if self.final.parent.exists() else []

    @property
    def offsets(self) -> list[int]:
        """Where each request wanted to start."""
        return [asked.offset for asked in self.server.requests]
