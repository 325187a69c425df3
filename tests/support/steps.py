"""A step's view and context as the runner would make them, with what happened kept for the test."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

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
    **more: Any,
) -> StepContext:
    async def save(saved: dict[str, Any]) -> None:
        told.saved.append(saved)

    async def report_again(task_id: str) -> None:
        told.lines.append(f"told again: {task_id}")

    return StepContext(
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
        log=lambda stream, line: told.lines.append(line),
        save_checkpoint=save,
        mint=mint,
        allocation_id=allocation_id,
        past=lambda: past,
        certify=canonical_json,
        **{"report_again": report_again, **more},
    )
