"""Kind name to module. Modules load on first use: an idle agent carries none of them."""

from importlib import import_module

from hostler.agent.steps.contract import StepKind
from hostler.base.errors import error

MODULES: dict[str, str] = {
    "artifact.pull_blob": "hostler.agent.steps.artifact_pull_blob",
    "artifact.pull_oci": "hostler.agent.steps.artifact_pull_oci",
    "artifact.verify": "hostler.agent.steps.artifact_verify",
    "credential.mint": "hostler.agent.steps.credential_mint",
    "file.render": "hostler.agent.steps.file_render",
    "command.exec_allowlisted": "hostler.agent.steps.command_exec_allowlisted",
    "resolver.config.apply": "hostler.agent.steps.resolver_config_apply",
    "health.check": "hostler.agent.steps.health_check",
    "network.fabric.verify": "hostler.agent.steps.network_fabric_verify",
    "gpu.driver.validate": "hostler.agent.steps.gpu_driver_validate",
    "gpu.runtime.check": "hostler.agent.steps.gpu_runtime_check",
    "gpu.fabric.verify": "hostler.agent.steps.gpu_fabric_verify",
    "gpu.container_runtime.check": "hostler.agent.steps.gpu_container_runtime_check",
    "container.run": "hostler.agent.steps.container_run",
    "container.stop": "hostler.agent.steps.container_stop",
    "cluster.join": "hostler.agent.steps.cluster_join",
    "cluster.verify": "hostler.agent.steps.cluster_verify",
    "package.install": "hostler.agent.steps.package_install",
    "python.env.create": "hostler.agent.steps.python_env_create",
    "service.control": "hostler.agent.steps.service_control",
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
    "task.exec": "hostler.agent.steps.task_exec",
    "task.forward": "hostler.agent.steps.task_forward",
    "task.profile": "hostler.agent.steps.task_profile",
    "task.probe": "hostler.agent.steps.task_probe",
    "agent.upgrade.stage": "hostler.agent.steps.agent_upgrade_stage",
    "agent.upgrade.activate": "hostler.agent.steps.agent_upgrade_activate",
    "agent.upgrade.rollback": "hostler.agent.steps.agent_upgrade_rollback",
}


def step_kind(name: str) -> StepKind:
    """Raises `unknown_step_kind`: an unknown kind is refused, never skipped (SK-18)."""
    if name not in MODULES:
        raise error("unknown_step_kind", f"this agent has no step kind {name!r}")
    kind: StepKind = import_module(MODULES[name]).KIND
    return kind
