"""What goes up about a task and its steps."""

from typing import Any

from hostler.agent.runner.work import Work
from hostler.agent.steps.contract import Plan
from hostler.base.digest import canonical_json
from hostler.base.errors import HostlerError
from hostler.wire.report import StepReport, StepStatus, TaskReport, TaskStatus


def step_report(work: Work, index: int, status: StepStatus, **more: Any) -> StepReport:
    task = work.spec
    step = task.steps[index]
    return StepReport(
        task_id=task.task_id,
        attempt_uid=task.attempt_uid,
        step_id=step.step_id,
        step_index=index,
        step_kind=step.kind,
        status=status,
        **{"resolved_profile": step.command_profile, **more},
    )


def error_fields(err: HostlerError | None) -> dict[str, Any]:
    if err is None:
        return {}
    return {"error_code": err.code, "error_message": err.message, "error_hint": err.hint}


def task_report(work: Work, status: TaskStatus, at_ms: int, err: HostlerError | None = None, **more: Any) -> TaskReport:
    return TaskReport(
        task_id=work.spec.task_id,
        attempt_uid=work.spec.attempt_uid,
        status=status,
        at_ms=at_ms,
        envelope_digest=work.envelope_digest,
        **error_fields(err),
        **more,
    )


def plan_json(plan: Plan) -> bytes:
    return canonical_json(plan)
