"""What a rehearsal keeps inside its scratch root, and what would reach the machine itself (EX-09)."""

from collections.abc import Mapping
from typing import Any

from hostler.base.errors import error
from hostler.catalog.binding import reference
from hostler.catalog.definition import Definition, StepTemplate
from hostler.catalog.kinds import KINDS
from hostler.catalog.used_profiles import profiles_of

# Kinds that write through `Host.files` alone, below the root, or nothing at all.
CONFINED = frozenset(
    {
        "artifact.pull_blob",
        "artifact.pull_oci",
        "artifact.verify",
        "file.render",
        "health.check",
        "network.fabric.verify",
        "resolver.config.apply",
        "task.probe",
    }
)
_IMAGE_PLACES = frozenset({"layout", "files", "unpacked"})  # others are the image store of the machine
_REASONS = {
    "container.run": "runs a container in the machine's own runtime",
    "container.stop": "stops containers of the machine's own runtime",
    "credential.mint": "asks a control plane for a credential, and a rehearsal has none",
    "package.install": "installs packages with the machine's own package manager",
    "python.env.create": "runs the machine's own Python or conda to build the environment",
    "task.exec": "runs a program inside a container of this machine",
    "task.forward": "connects to a container of this machine",
    "task.profile": "looks at a container of this machine",
    "agent.upgrade.stage": "installs a version of this machine's agent",
    "agent.upgrade.activate": "switches this machine's agent to another version",
    "agent.upgrade.rollback": "switches this machine's agent to another version",
    "service.control": "starts and stops units of the machine's own systemd",
}


def beyond_root(step: StepTemplate, inputs: Mapping[str, Any]) -> str:
    """Why the step cannot be kept inside a scratch root; "" where it can."""
    kind = KINDS.get(step.kind)
    if kind is not None and kind.destructive:
        return _REASONS.get(step.kind, "changes the machine, and what it changes cannot be kept apart")
    if profiles_of(step) or step.kind == "command.exec_allowlisted":
        return "runs a command, and commands run on the real machine, with its real files"
    if kind is not None and kind.abstract:
        return "resolves to a command, and commands run on the real machine, with its real files"
    if step.kind == "artifact.pull_oci" and _bound(step.params.get("place", "layout"), inputs) not in _IMAGE_PLACES:
        return "puts an image into the machine's own image store"
    if step.kind not in CONFINED:
        return _REASONS.get(step.kind, "is not known to stay inside a root")
    return ""


def check_scope(definition: Definition, inputs: Mapping[str, Any]) -> None:
    """Raises `beyond_scratch_root` for the first step that reaches the machine itself."""
    for step in definition.steps:
        if reason := beyond_root(step, inputs):
            raise error("beyond_scratch_root", f"step {step.id} ({step.kind}) {reason}")
    if definition.destructive:
        raise error("beyond_scratch_root", f"{definition.ref} says of itself that it destroys")


def _bound(value: Any, inputs: Mapping[str, Any]) -> Any:
    """What an input says; None for an output that is not there yet."""
    found = reference(value)
    if found is None:
        return value
    return None if found[0] else inputs.get(found[1])
