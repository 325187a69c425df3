"""What profiles must keep about secrets before anybody signs them (CR-03, CR-04)."""

import re
from collections.abc import Iterator

from hostler.catalog.argv import all_placeholders
from hostler.catalog.binding import reference
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition, StepTemplate

MOST_SECRETS = 8  # of one command; the agent's helper takes no more
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def secrets_of_command(profile: CommandProfile) -> Iterator[tuple[str, str]]:
    """(pointer, message) of every finding."""
    names = [*profile.secret_files, *profile.secret_env]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield "", f"the secret {name!r} is named twice"
    if len(names) > MOST_SECRETS:
        yield "", f"a command takes at most {MOST_SECRETS} secrets"
    for name in profile.secret_files:
        if name not in all_placeholders(profile):
            yield "/secret_files", f"no argument is the placeholder of the secret {name!r}"
        if name in profile.arg_schema:
            yield f"/arg_schema/{name}", f"{name!r} is a secret: what is passed is a descriptor, which has no schema"
    for name in profile.secret_env:
        if not _VARIABLE.fullmatch(name):
            yield "/secret_env", f"{name!r} is no name of a variable"
        if name in profile.env or name in profile.env_passthrough:
            yield "/secret_env", f"the variable {name} has another value already"


def secrets_of_step(
    definition: Definition, step: StepTemplate, profile: CommandProfile
) -> Iterator[tuple[str, str, str]]:
    """(pointer, message, hint) of every finding about what a step gives its command."""
    given = step.params.get("secrets", {})
    if not isinstance(given, dict):
        yield "/secrets", "the secrets must be given one by one", ""
        return
    wanted = {*profile.secret_files, *profile.secret_env}
    for name in sorted(wanted - set(given)):
        yield "", f"the secret {name!r} of {profile.id} is not given", ""
    for name in sorted(set(given) - wanted):
        yield f"/secrets/{name}", f"{profile.id} takes no secret {name!r}", ""
    for name, value in sorted(given.items()):
        found = reference(value)
        if found is None or not found[0]:
            hint = "a secret comes from a step: ${steps.ID.OUTPUT}; never write one into a profile or an input"
            yield f"/secrets/{name}", f"the secret {name!r} is no output of an earlier step", hint
        elif any(earlier.id == found[0] and earlier.reusable for earlier in definition.steps):
            hint = "a handle means nothing in the next attempt; say 'reusable: false' for that step"
            yield f"/secrets/{name}", f"step {found[0]!r} is reusable, and the secret it makes is not", hint
