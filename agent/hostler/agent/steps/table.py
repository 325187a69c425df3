"""Kind name to module. Modules load on first use: an idle agent carries none of them."""

from importlib import import_module

from hostler.agent.steps.contract import StepKind
from hostler.base.errors import error

MODULES: dict[str, str] = {
    "artifact.pull_blob": "hostler.agent.steps.artifact_pull_blob",
    "artifact.verify": "hostler.agent.steps.artifact_verify",
    "file.render": "hostler.agent.steps.file_render",
    "command.exec_allowlisted": "hostler.agent.steps.command_exec_allowlisted",
    "health.check": "hostler.agent.steps.health_check",
    "baseline.take": "hostler.agent.steps.baseline_take",
    "identity.grant": "hostler.agent.steps.identity_grant",
    "storage.grant": "hostler.agent.steps.storage_grant",
    "access.fence": "hostler.agent.steps.access_fence",
    "workload.stop": "hostler.agent.steps.workload_stop",
    "storage.release": "hostler.agent.steps.storage_release",
    "identity.revoke": "hostler.agent.steps.identity_revoke",
    "device.sanitize": "hostler.agent.steps.device_sanitize",
    "residue.check": "hostler.agent.steps.residue_check",
    "handover.certify": "hostler.agent.steps.handover_certify",
}


def step_kind(name: str) -> StepKind:
    """Raises `unknown_step_kind`: an unknown kind is refused, never skipped (SK-18)."""
    if name not in MODULES:
        raise error("unknown_step_kind", f"this agent has no step kind {name!r}")
    kind: StepKind = import_module(MODULES[name]).KIND
    return kind
