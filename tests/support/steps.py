"""A step's view and context as the runner would make them, with what happened kept for the test."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hostler.agent.containers.runtime import Line
from hostler.agent.host.host import Host
from hostler.agent.journal.rows import PastStep
from hostler.agent.secrets.table import SecretTable, StepSecrets
from hostler.agent.steps.contract import StepContext
from hostler.base.clock import Deadline
from hostler.base.digest import canonical_json
from hostler.wire.task import Policy

UNLIMITED = Policy()


@dataclass
class Told:
    """What a step told the runner."""

    progress: list[tuple[int, int, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    saved: list[dict[str, Any]] = field(default_factory=list)
    streams: list[tuple[str, str]] = field(default_factory=list)
    shipped: list[tuple[str, Line]] = field(default_factory=list)  # of a workload: phase, line

    def say(self, stream: str, line: str) -> None:
        self.lines.append(line)
        self.streams.append((stream, line))

    @property
    def checkpoint(self) -> dict[str, Any]:
        """As a restarted agent reads it from the journal."""
        last: dict[str, Any] = json.loads(json.dumps(self.saved[-1])) if self.saved else {}
        return last


def context_of(
    params: Any,
    host: Host,
    told: Told,
    *,
    policy: Policy = UNLIMITED,
    allowed_sources: tuple[str, ...] | None = None,
    checkpoint: dict[str, Any] | None = None,
    deadline_s: float = 30.0,
    cancelled: asyncio.Event | None = None,
    secrets: SecretTable | None = None,
    mint: Any = None,
    allocation_id: str = "",
    past: tuple[PastStep, ...] = (),
    relay: Any = None,
    workloads: Any = None,
    org_id: str = "acme",
    project_id: str = "train",
    **more: Any,
) -> StepContext:
    async def save(saved: dict[str, Any]) -> None:
        told.saved.append(saved)

    async def ship(lines: Sequence[Line], phase: str) -> None:
        told.shipped += [(phase, line) for line in lines]

    def cursor(phase: str) -> str:
        return next((line.cursor for of, line in reversed(told.shipped) if of == phase), "")

    async def report_again(task_id: str) -> None:
        told.lines.append(f"told again: {task_id}")

    return StepContext(
        relay=relay,  # type: ignore[arg-type]
        workloads=workloads,
        org_id=org_id,
        project_id=project_id,
        log_batch=ship,
        log_cursor=cursor,
        confined=lambda said: None,
        host=host,
        params=params,
        task_id="tsk_1",
        step_id="step",
        step_index=0,
        attempt_number=1,
        policy=policy,
        allowed_sources=allowed_sources,
        checkpoint=checkpoint or {},
        deadline=Deadline.after(deadline_s, host.clock),
        secrets=StepSecrets(secrets or SecretTable(Deadline.after(deadline_s, host.clock), host.clock), "step"),
        cancelled=cancelled or asyncio.Event(),
        progress=lambda done, total, unit: told.progress.append((done, total, unit)),
        log=lambda stream, line: told.say(stream, line),
        save_checkpoint=save,
        mint=mint,
        allocation_id=allocation_id,
        past=lambda: past,
        certify=canonical_json,
        **{"report_again": report_again, **more},
    )
