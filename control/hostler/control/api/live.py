"""Progress of running steps as `operation.progress` events: what a node last said, in the fields of EV-02."""

import msgspec

from hostler.control.kernel.events import PROGRESS
from hostler.control.store.records import EventView, OperationView, StepView, TaskView
from hostler.wire.report import StepProgress


class LiveProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a step is now. Not kept: it has no id. `step_percent` is absent while the total is unknown."""

    correlation_id: str
    operation_id: str
    operation_type: str
    org_id: str
    project_id: str
    resource_name: str
    error_code: str = ""
    current_step_index: int
    total_steps: int
    current_step_name: str
    step_status: str = "running"
    step_started_at: int
    step_percent: int | msgspec.UnsetType = msgspec.UNSET
    task_id: str
    node_id: str
    step_id: str
    done_units: int
    total_units: int
    unit: str
    note: str
    at_ms: int


class LiveSteps:
    """Which steps of one operation run, and since when, for a follower that reads its events in order."""

    def __init__(self, operation: OperationView) -> None:
        self._operation = operation
        self._nodes = {task.task_id: task.node_id for task in operation.tasks}
        self._started: dict[tuple[str, str], int] = {}
        self._ended: set[tuple[str, str]] = set()
        for task in operation.tasks:
            for step in task.steps:
                self._remember(task, step)

    def _remember(self, task: TaskView, step: StepView) -> None:
        if step.attempt_number == task.attempt_number:
            self._note((task.task_id, step.step_id), step.status, step.started_at_ms)

    def note(self, event: EventView) -> None:
        """Takes every event of the operation; only its steps' starts and ends count."""
        if event.type == PROGRESS:
            body = event.body
            self._note((event.task_id, body["current_step_name"]), body["step_status"], body["step_started_at"])

    def _note(self, step: tuple[str, str], status: str, started_at_ms: int) -> None:
        if status == "running":
            self._started[step] = started_at_ms
            self._ended.discard(step)
        else:
            self._ended.add(step)

    def shown(self, progress: StepProgress) -> LiveProgress | None:
        """None for a step that has ended meanwhile."""
        step, operation = (progress.task_id, progress.step_id), self._operation
        if step in self._ended:
            return None
        node_id = self._nodes[progress.task_id]
        done, total = progress.done_units, progress.total_units
        return LiveProgress(
            correlation_id=operation.correlation_id,
            operation_id=operation.operation_id,
            operation_type=operation.operation_type,
            org_id=operation.org_id,
            project_id=operation.project_id,
            resource_name=f"nodes/{node_id}",
            current_step_index=progress.step_index,
            total_steps=operation.total_steps,
            current_step_name=progress.step_id,
            step_started_at=self._started.get(step, progress.at_ms),
            step_percent=min(100, max(0, 100 * done // total)) if total > 0 else msgspec.UNSET,
            task_id=progress.task_id,
            node_id=node_id,
            step_id=progress.step_id,
            done_units=done,
            total_units=total,
            unit=progress.unit,
            note=progress.note,
            at_ms=progress.at_ms,
        )
