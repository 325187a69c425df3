"""What a definition must keep about joining a cluster before anybody signs it (SK-13, CR-06)."""

from collections.abc import Iterator, Mapping

from hostler.catalog.argv import placeholders
from hostler.catalog.binding import reference
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import StepTemplate

ARGUMENT = "node"


def findings_of_cluster(
    step: StepTemplate, commands: Mapping[str, CommandProfile]
) -> Iterator[tuple[str, str, str, str]]:
    """(pointer, rule, message, hint) of every finding."""
    name = step.params.get("profile", "")
    if reference(name) is not None or not isinstance(name, str):
        yield "/profile", "command-profile", "the command profile must be named outright", ""
    elif name and name not in commands:
        yield "/profile", "command-profile", f"there is no command profile {name!r}", ""
    elif name and set(placeholders(commands[name])) != {ARGUMENT}:
        hint = "the step fills in ${node} and nothing else"
        yield "/profile", "command-args", f"{name} is no question about a node", hint
    cluster = step.params.get("cluster")
    if isinstance(cluster, Mapping) and reference(cluster.get("backend")) is not None:
        yield "/cluster/backend", "params", "the backend must be named outright", ""
    elif isinstance(cluster, Mapping) and cluster.get("backend") == "slurm" and not name:
        hint = "name one that runs 'scontrol --oneliner show node'"
        yield "", "command-profile", "slurm is asked by a command profile, and none is named", hint
    credential = step.params.get("credential", "")
    found = reference(credential)
    if credential and (found is None or not found[0]):
        hint = "a credential comes from a step: ${steps.ID.handle}; never write one into a profile or an input"
        yield "/credential", "secrets", "the credential is no output of an earlier step", hint
    if reference(step.params.get("replace")) is not None:
        hint = "taking a node out of another cluster is decided by whoever signs the definition"
        yield "/replace", "params", "'replace' must be said outright", hint
