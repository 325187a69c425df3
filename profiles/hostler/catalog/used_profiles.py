"""Which command profiles a step runs: it names them outright, never through a binding (EX-05, SK-12)."""

from typing import Any

from hostler.catalog.definition import StepTemplate

EXEC, HEALTH = "command.exec_allowlisted", "health.check"
CLUSTER = ("cluster.join", "cluster.verify")  # a backend may have to be asked by a command
RUNS_PROFILES = (EXEC, HEALTH, *CLUSTER)


def profiles_of(step: StepTemplate) -> tuple[str, ...]:
    """Each once, in the order they are named. A signed task carries at most one for each step."""
    if step.kind == EXEC:
        return _names([step.params.get("profile")])
    if step.kind in CLUSTER:
        return _names([step.params.get("profile") or None])
    if step.kind != HEALTH:
        return ()
    checks = step.params.get("checks")
    commands = [check for check in checks if _is_command(check)] if isinstance(checks, list | tuple) else []
    return _names([check.get("profile") for check in commands])


def profile_of(step: StepTemplate) -> str:
    """The one that goes into the signed step; "" for none."""
    return next(iter(profiles_of(step)), "")


def _is_command(check: Any) -> bool:
    return isinstance(check, dict) and check.get("type") == "command"


def _names(values: list[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if isinstance(value, str)))
