"""How long a task and its steps may take: the smallest of what was said, 0 meaning nothing was."""

from hostler.base.clock import Clock, Deadline
from hostler.wire.task import StepSpec, TaskSpec

GRACE_SECONDS = 10.0  # between a step's own deadline and the moment the runner gives it up
FOR_EVER = 365 * 24 * 3600


def smallest(*seconds: int) -> int:
    said = [value for value in seconds if value > 0]
    return min(said) if said else FOR_EVER


def task_deadline(spec: TaskSpec, definition_seconds: int, clock: Clock) -> Deadline:
    """From now on; a restart of the agent begins it anew."""
    return Deadline.after(smallest(spec.timeout_seconds, spec.policy.timeout_seconds, definition_seconds), clock)


def step_deadline(step: StepSpec, task: Deadline, clock: Clock) -> Deadline:
    return Deadline.after(min(smallest(step.timeout_seconds), task.remaining()), clock)
