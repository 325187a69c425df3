"""Bundles of an agent without a network: a source that says what a control plane says, or what it must not."""

import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostler.agent.bundles.cache import BundleCache
from hostler.agent.bundles.contract import BundleSettings, Piece
from hostler.agent.containers.workload import TaskFacts
from hostler.base.clock import Clock, SystemClock
from hostler.base.digest import sha256_hex
from hostler.base.errors import error

PIECE = 4096


@dataclass
class FakeSource:
    """Has bundles by digest. `cuts`: after how many pieces the next calls break off. `asked`: offsets of all calls."""

    bundles: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    asked: list[tuple[str, int]] = field(default_factory=list)
    refused: str = ""

    def add(self, data: bytes, sha256: str = "") -> str:
        """→ its digest, or the one that it claims."""
        sha256 = sha256 or sha256_hex(data)
        self.bundles[sha256] = data
        return sha256

    async def __call__(self, task_id: str, attempt_uid: str, sha256: str, offset: int) -> AsyncGenerator[Piece, None]:
        self.asked.append((attempt_uid, offset))
        if self.refused:
            raise error(self.refused, "no")
        data, cut = self.bundles[sha256], self.cuts.pop(0) if self.cuts else -1
        for number, start in enumerate(range(offset, len(data), PIECE)):
            if number == cut:
                raise error("controller_unreachable", "cut")
            yield self.piece(start, data)

    def piece(self, start: int, data: bytes) -> Piece:
        return Piece(start, len(data), data[start : start + PIECE])


def cache(folder: Path, source: Any, clock: Clock | None = None, **settings: Any) -> BundleCache:
    limits = BundleSettings(**({"reserve_bytes": 0} | settings))
    return BundleCache(folder, source, limits, clock or SystemClock())


def facts(attempt: str = "att_1", project: str = "train", org: str = "acme") -> TaskFacts:
    return TaskFacts(
        job_id="op_1", job="/ann/demo", parent="", namespace="/ann/demo", task_id="tsk_1", attempt_uid=attempt,
        attempt_number=1, task_index=0, num_tasks=1, org_id=org, project_id=project, node_id="nod_1",
        node_address="127.0.0.1",
    )  # fmt: skip


def left(folder: Path, *endings: str) -> list[str]:
    """Names of what lies there: trees, and what has one of the endings."""
    names = [os.path.relpath(path, folder) for path in folder.glob("*/*")]
    return sorted(name for name in names if "." not in name or name.endswith(endings))
