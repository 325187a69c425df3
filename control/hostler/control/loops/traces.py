"""Makes spans of what nodes did, from their reports: stream → task → step, under the operation's trace (OB-02).

Nodes export nothing and need no way to a collector: what they report has the times. A task's spans are made when it
has ended; they carry ids, kinds and codes, never inputs or outputs.
"""

import asyncio
from collections.abc import Sequence

from hostler.base.logs import get_logger
from hostler.control.engine import Engine
from hostler.control.kernel.rows import EventRow
from hostler.control.store.records import OperationView, StepView, TaskView
from hostler.control.telemetry import Telemetry

_log = get_logger("hostler.control.loops.traces")
_MAX_WAITING = 10_000


class Traces:
    """Give `take` to `Engine.watch` and run `run`."""

    def __init__(self, engine: Engine, telemetry: Telemetry) -> None:
        self._engine, self._telemetry = engine, telemetry
        self._ended: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue(_MAX_WAITING)

    def take(self, events: Sequence[EventRow]) -> None:
        """Never waits: what does not fit is left out of the traces and counted in the log."""
        for event in events:
            if event.type == "task.finished":
                try:
                    self._ended.put_nowait((event.project_id, event.operation_id, event.task_id))
                except asyncio.QueueFull:
                    _log.warning("traces.left_out", operation_id=event.operation_id)

    async def run(self) -> None:
        while True:
            await self._make(*await self._ended.get())

    async def drain(self) -> None:
        """The spans of what has ended by now."""
        while not self._ended.empty():
            await self._make(*self._ended.get_nowait())

    async def _make(self, project_id: str, operation_id: str, task_id: str) -> None:
        operation = await self._engine.reader.operation(project_id, operation_id)
        task = next((task for task in operation.tasks if task.task_id == task_id), None) if operation else None
        if operation is not None and task is not None and operation.traceparent:
            self._spans(operation, task)

    def _spans(self, operation: OperationView, task: TaskView) -> None:
        about = {
            "operation_id": operation.operation_id,
            "operation_type": operation.operation_type,
            "correlation_id": operation.correlation_id,
            "org_id": operation.org_id,
            "project_id": operation.project_id,
            "task_id": task.task_id,
            "node_id": task.node_id,
            "attempt_number": task.attempt_number,
        }
        steps = [step for step in task.steps if step.attempt_number == task.attempt_number]
        began_ms = min((step.started_at_ms for step in steps if step.started_at_ms), default=task.finished_at_ms)
        ended = about | {"status": task.status, "error_code": task.error_code}
        stream = self._telemetry.past("stream", operation.traceparent, operation.created_at_ms, began_ms, about)
        parent = self._telemetry.past("task", stream, began_ms, task.finished_at_ms, ended)
        for step in steps:
            self._step(parent, about, step)

    def _step(self, parent: str, about: dict[str, object], step: StepView) -> None:
        said = {
            "step_id": step.step_id,
            "step_kind": step.step_kind,
            "status": step.status,
            "error_code": step.error_code,
            "resolved_profile": step.resolved_profile,
        }
        self._telemetry.past(f"step {step.step_kind}", parent, step.started_at_ms, step.finished_at_ms, about | said)
