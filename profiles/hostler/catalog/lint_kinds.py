"""What single step kinds must keep before anybody signs them: packages, units, environments, command checks."""

from collections.abc import Iterator, Mapping
from typing import Any

from hostler.base.errors import HostlerError
from hostler.catalog.allowed import PACKAGES, check_allowed
from hostler.catalog.argv import placeholders
from hostler.catalog.binding import marked
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition, StepTemplate
from hostler.catalog.used_profiles import HEALTH, profiles_of

Found = tuple[str, str, str, str]  # pointer below the parameters, rule, message, hint
# What decides whose code runs is signed with the definition, never an input.
LITERAL = {PACKAGES: ("repositories", "removes"), "python.env.create": ("python", "indexes")}


def findings_of_step(
    definition: Definition, step: StepTemplate, commands: Mapping[str, CommandProfile]
) -> Iterator[Found]:
    """Every finding about one step of a known kind."""
    for name in LITERAL.get(step.kind, ()):
        for pointer, _ in marked(step.params.get(name)):
            yield f"/{name}{pointer}", "literal", f"{name} must stand in the definition itself", ""
    try:
        check_allowed(step.kind, _without_bindings(step.params), definition)
    except HostlerError as err:
        yield "", "allowed", err.message, err.hint
    if step.kind == HEALTH:
        yield from _command_checks(step, commands)


def _without_bindings(params: Mapping[str, Any]) -> dict[str, Any]:
    """What is bound is looked at once it is known."""
    plain = {name: value for name, value in params.items() if not any(True for _ in marked(value))}
    packages = params.get("packages")
    if isinstance(packages, list | tuple):
        plain["packages"] = [package for package in packages if not any(True for _ in marked(package))]
    return plain


def _command_checks(step: StepTemplate, commands: Mapping[str, CommandProfile]) -> Iterator[Found]:
    checks = step.params.get("checks")
    if len(profiles_of(step)) > 1:
        hint = "put them into steps of their own"
        yield "/checks", "command-profile", "the checks of one step may name one command profile", hint
    for index, check in enumerate(checks if isinstance(checks, list | tuple) else ()):
        if isinstance(check, dict) and check.get("type") == "command":
            for message in _command_check(check, commands):
                yield f"/checks/{index}", "command-profile", message, ""


def _command_check(check: Mapping[str, Any], commands: Mapping[str, CommandProfile]) -> Iterator[str]:
    name = check.get("profile")
    profile = commands.get(name) if isinstance(name, str) else None
    if profile is None:
        yield f"there is no command profile {name!r}"
        return
    if profile.secret_files or profile.secret_env:
        yield f"{name} takes secrets, which a check is not given"
    args = check.get("args", {})
    given, wanted = set(args if isinstance(args, dict) else ()), set(placeholders(profile))
    for missing in sorted(wanted - given):
        yield f"argument {missing!r} of {name} is not given"
    for extra in sorted(given - wanted):
        yield f"{name} takes no argument {extra!r}"
    if check.get("stdout_contains") and not profile.capture_stdout:
        yield f"{name} does not capture the standard output that the check looks at"
