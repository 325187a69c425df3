"""What a profile must keep before anybody signs it. Each finding says where, which rule, and what to do."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.approval import needs_approval
from hostler.catalog.argv import all_placeholders, placeholders
from hostler.catalog.auto_executed import PLACES, auto_executed, check_written, files_of
from hostler.catalog.binding import marked, reference
from hostler.catalog.capabilities import never_met
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition, StepTemplate
from hostler.catalog.effects import findings as effects_of
from hostler.catalog.inputs import check_schema, named_like_a_secret
from hostler.catalog.kinds import ABSTRACT, KINDS
from hostler.catalog.lint_cluster import findings_of_cluster
from hostler.catalog.lint_credentials import credential_of_step
from hostler.catalog.lint_hints import HINTS, nearest
from hostler.catalog.lint_kinds import findings_of_step
from hostler.catalog.lint_secrets import secrets_of_command, secrets_of_step
from hostler.catalog.lint_tags import tags
from hostler.catalog.load import Profiles, Source
from hostler.catalog.loader_variables import changes_what_runs
from hostler.catalog.params.cluster import stand_in
from hostler.catalog.resolver import ResolverConfig, advice, check_config
from hostler.catalog.shell_text import shell_of

# Programs that run other programs or text: a profile around one of them would be a shell (EX-06).
INTERPRETERS = frozenset(
    """
    sh bash dash zsh ksh fish busybox csh tcsh python python2 python3 perl ruby node nodejs php lua
    tclsh awk gawk mawk sed env xargs sudo su doas nsenter unshare chroot setpriv runuser nohup
    timeout nice ionice stdbuf strace ssh scp find make docker podman ctr nerdctl systemd-run script
    expect watch parallel at batch tee dd
    """.split()  # noqa: SIM905 - a list of words reads better
)


_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*", re.ASCII)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`hint` says what to write instead; there is always one."""

    file: str
    line: int
    rule: str
    message: str
    hint: str


def lint(profiles: Profiles) -> list[Finding]:
    """Every rule over every document; an empty list means that they may be signed."""
    commands = {profile.id: profile for profile, _ in profiles.commands}
    findings = [f for profile, source in profiles.commands for f in _command(profile, source)]
    for definition, source in profiles.definitions:
        findings += _definition(definition, source)
        if needs_approval(definition, commands) and not definition.destructive:
            message = "a step destroys or runs as root, so the definition must say 'destructive: true'"
            findings.append(_found(source, "/destructive", "destructive", message))
        for index, step in enumerate(definition.steps):
            findings += _step(definition, index, step, source, commands)
    for config, source in profiles.resolvers:
        findings += _resolver(config, source, commands, profiles)
    for source in [source for _, source in (*profiles.definitions, *profiles.commands)]:
        findings += [_found(source, at, "digest", message) for at, message in tags(source.value)]
    findings += _duplicates(profiles)
    return findings


def _found(source: Source, pointer: str, rule: str, message: str, hint: str = "") -> Finding:
    return Finding(file=source.file, line=source.line(pointer), rule=rule, message=message, hint=hint or HINTS[rule])


def _duplicates(profiles: Profiles) -> Iterator[Finding]:
    seen: set[str] = set()
    named = [(d.ref, s) for d, s in profiles.definitions] + [(f"command {c.id}", s) for c, s in profiles.commands]
    for name, source in named:
        if name in seen:
            yield _found(source, "", "unique", f"{name} is defined twice")
        seen.add(name)


def _inputs(definition: Definition, source: Source) -> Iterator[Finding]:
    reason = check_schema(definition.inputs)
    if reason:
        yield _found(source, "/inputs", "inputs-schema", reason)
    for name in definition.inputs.get("properties", {}):
        if named_like_a_secret(name):
            message = f"whatever is given as {name!r} is refused as a secret, so nobody could submit it (OP-19)"
            yield _found(source, f"/inputs/properties/{name}", "secrets", message, "give the input another name")


def _definition(definition: Definition, source: Source) -> Iterator[Finding]:
    yield from _inputs(definition, source)
    if not definition.capabilities:
        hint = "say at least which platform it needs, such as 'os.kernel: linux'"
        yield _found(source, "/capabilities", "capabilities", "no capability requirement is named (OP-05)", hint)
    for key, message, hint in never_met(definition.capabilities):
        yield _found(source, f"/capabilities/{key}", "capabilities", message, hint)
    if not definition.steps:
        yield _found(source, "/steps", "steps", "a definition needs at least one step")
    for index, path in enumerate(definition.auto_executed_paths):
        if not path.startswith("/") or not auto_executed(path) or path in PLACES or not _plain(path):
            message = f"{path!r} is not one file in a place where files run by themselves"
            yield _found(source, f"/auto_executed_paths/{index}", "auto-executed", message)
    ids = [step.id for step in definition.steps]
    for index, step_id in enumerate(ids):
        if like := _like_a_kind(step_id):
            yield _found(source, f"/steps/{index}/id", "kind-name", f"{like}, which no step may have for an id (T10)")
        if step_id in ids[:index]:
            yield _found(source, f"/steps/{index}/id", "step-id", f"step id {step_id!r} stands twice")


def _step(
    definition: Definition,
    index: int,
    step: StepTemplate,
    source: Source,
    commands: Mapping[str, CommandProfile],
) -> Iterator[Finding]:
    at = f"/steps/{index}"
    if step.kind not in KINDS:
        hint = "use command.exec_allowlisted with a command profile" if step.kind.startswith("command.") else ""
        hint = hint or nearest(step.kind, KINDS, "the kinds are")
        yield _found(source, f"{at}/kind", "step-kind", f"there is no step kind {step.kind!r} (OP-11, SK-18)", hint)
        return
    yield from _bindings(definition, index, step, source)
    yield from _params(step, source, at)
    if step.kind == "command.exec_allowlisted":
        yield from _exec(definition, step, source, at, commands)
    for name, media_type in step.artifacts.items():
        if name not in KINDS[step.kind].outputs:
            hint = nearest(name, KINDS[step.kind].outputs, "its outputs are")
            yield _found(source, f"{at}/artifacts/{name}", "artifacts", f"{step.kind} has no output {name!r}", hint)
        if not _MEDIA_TYPE.fullmatch(media_type):
            yield _found(source, f"{at}/artifacts/{name}", "artifacts", f"{media_type!r} is no media type")
    for pointer, rule, message, hint in findings_of_step(definition, step, commands):
        yield _found(source, f"{at}/params{pointer}", rule, message, hint)
    for pointer, message, hint in credential_of_step(definition, index, step):
        yield _found(source, f"{at}{pointer}", "credentials", message, hint)
    if step.kind.startswith("cluster."):
        for pointer, rule, message, hint in findings_of_cluster(step, commands):
            yield _found(source, f"{at}/params{pointer}", rule, message, hint)
    yield from _written(definition, step, source, at)


def _written(definition: Definition, step: StepTemplate, source: Source, at: str) -> Iterator[Finding]:
    for path in (step.params.get("path"), *files_of(step.params)):
        try:
            check_written(step.kind, path, definition.auto_executed_paths)
        except HostlerError as err:
            at_path = "path" if path is step.params.get("path") else "files"
            yield _found(source, f"{at}/params/{at_path}", "auto-executed", err.message)


def _bindings(definition: Definition, index: int, step: StepTemplate, source: Source) -> Iterator[Finding]:
    inputs = definition.inputs.get("properties", {})
    earlier = {s.id: KINDS[s.kind].outputs for s in definition.steps[:index] if s.kind in KINDS}
    for pointer, text in marked(step.params):
        where, found = f"/steps/{index}/params{pointer}", reference(text)
        if step.kind == "file.render" and pointer == "/template":
            continue
        if found is None:
            hint = "a binding is a whole value: exactly ${inputs.NAME} or ${steps.ID.OUTPUT}"
            yield _found(source, where, "binding", f"{text!r} mixes text and a binding", hint)
        elif found[0] and found[1] not in earlier.get(found[0], ()):
            hint = nearest(found[1], earlier[found[0]], "its outputs are") if found[0] in earlier else ""
            yield _found(source, where, "binding", f"no earlier step {found[0]!r} has an output {found[1]!r}", hint)
        elif not found[0] and found[1] not in inputs:
            hint = nearest(found[1], inputs, "the inputs are")
            yield _found(source, where, "binding", f"there is no input {found[1]!r}", hint)


def _params(step: StepTemplate, source: Source, at: str) -> Iterator[Finding]:
    """Checks the parameters' types; a bound value may be anything until it is bound."""
    bound = {name for name, value in step.params.items() if any(True for _ in marked(value))}
    plain = {name: value for name, value in step.params.items() if name not in bound}
    known = {field.encode_name: field for field in msgspec.structs.fields(KINDS[step.kind].params)}
    for name in bound - set(known):
        hint = nearest(name, known, "its parameters are")
        yield _found(source, f"{at}/params/{name}", "params", f"{step.kind} has no parameter {name!r}", hint)
    missing = [n for n, f in known.items() if f.required and n not in step.params]
    for name in missing:
        hint = f"add {name!r} below params; see docs/steps/{step.kind}.md"
        yield _found(source, f"{at}/params", "params", f"{step.kind} needs the parameter {name!r}", hint)
    if missing:
        return
    fillers = {name: _any_valid(known[name].type) for name in bound if name in known and known[name].required}
    if step.kind.startswith("cluster."):
        fillers |= {name: value for name, value in stand_in(step.params).items() if name in bound}
    try:
        convert(plain | fillers, KINDS[step.kind].params, code="invalid_definition", what=f"step {step.id}")
    except HostlerError as err:
        hint = f"see docs/steps/{step.kind}.md for its parameters and an example"
        yield _found(source, f"{at}/params{err.pointer}", "params", err.message, hint)


_FILLERS: tuple[Any, ...] = (
    "https://a",
    "/a",
    "a" * 64,
    1,
    True,
    {},
    [],
    "a",
    [{"type": "tcp", "host": "a", "port": 1}],
    [{"name": "aa"}],
    [{"name": "a"}],
    "a.service",
    "/a/a",
    ["a"],
    "1.2.3",
)


def _any_valid(type_: Any) -> Any:
    """Some value of the type, to stand in for a binding."""
    for value in _FILLERS:
        try:
            msgspec.convert(value, type_)
        except msgspec.ValidationError:
            continue
        return value
    return None


def _exec(
    definition: Definition, step: StepTemplate, source: Source, at: str, commands: Mapping[str, CommandProfile]
) -> Iterator[Finding]:
    name = step.params.get("profile")
    if not isinstance(name, str) or reference(name):
        yield _found(source, f"{at}/params/profile", "command-profile", "the command profile must be named outright")
    elif name not in commands:
        hint = nearest(name, commands, "the command profiles are")
        yield _found(source, f"{at}/params/profile", "command-profile", f"there is no command profile {name!r}", hint)
    else:
        given, wanted = set(step.params.get("args", {})), set(placeholders(commands[name]))
        for missing in sorted(wanted - given):
            yield _found(source, f"{at}/params", "command-args", f"argument {missing!r} of {name} is not given")
        for extra in sorted(given - wanted):
            yield _found(source, f"{at}/params/args/{extra}", "command-args", f"{name} takes no argument {extra!r}")
        for pointer, message, hint in secrets_of_step(definition, step, commands[name]):
            yield _found(source, f"{at}/params{pointer}", "secrets", message, hint)


def _command(profile: CommandProfile, source: Source) -> Iterator[Finding]:
    if like := _like_a_kind(profile.id):
        yield _found(source, "/id", "kind-name", f"{like}, which no command profile may have for an id (T10)")
    yield from _program(profile, source)
    if "timeout_seconds" not in source.value:
        yield _found(source, "", "timeout", "a command profile must say its timeout_seconds (EX-03)")
    if profile.timeout_seconds <= 0 or profile.retries < 0:
        yield _found(source, "", "limits", "timeout_seconds must be above 0 and retries not below")
    filled_in = dict.fromkeys((*profile.env_passthrough, *profile.secret_env))
    for name, value in (*filled_in.items(), *profile.env.items()):
        if changes_what_runs(name, value):
            yield _found(source, "/env_passthrough", "environment", f"{name} changes what a program runs (J4)")
    yield from _placeholders(profile, source)
    for pointer, message, hint in effects_of(profile.effects):
        yield _found(source, pointer, "effects", message, hint)
    for pointer, message in secrets_of_command(profile):
        yield _found(source, pointer, "secrets", message)


def _program(profile: CommandProfile, source: Source) -> Iterator[Finding]:
    program = profile.command.rpartition("/")[2]
    if not profile.command.startswith("/") or ".." in profile.command.split("/"):
        yield _found(source, "/command", "command-path", "the executable must be an absolute path (EX-03)")
    if program in INTERPRETERS or program.rstrip("0123456789.") in INTERPRETERS:
        message = f"{program} runs other programs or text, which no profile may (EX-06)"
        yield _found(source, "/command", "interpreter", message)
    elif shell := shell_of(profile):
        yield _found(source, "/args", "interpreter", f"an argument hands text to {shell}, which no profile may (EX-06)")


def _placeholders(profile: CommandProfile, source: Source) -> Iterator[Finding]:
    names = all_placeholders(profile)
    for name in placeholders(profile):
        if name not in profile.arg_schema:
            yield _found(source, "/args", "arg-schema", f"argument {name!r} has no schema (EX-03)")
    for index, arg in enumerate(profile.args):
        if "${" in arg and arg not in {f"${{{name}}}" for name in names}:
            message = "a placeholder is a whole argument: exactly ${name}"
            yield _found(source, f"/args/{index}", "placeholder", message)


def _resolver(
    config: ResolverConfig, source: Source, commands: Mapping[str, CommandProfile], profiles: Profiles
) -> Iterator[Finding]:
    definitions = [definition for definition, _ in profiles.definitions]
    for pointer, message, hint in (*check_config(config, commands, definitions), *advice(config, commands)):
        yield _found(source, pointer, "resolver", message, hint)


def _like_a_kind(name: str) -> str:
    """What is wrong with a name that reads as a step kind where something else is meant (T10)."""
    return f"{name!r} is the name of a step kind" if name in KINDS or name in ABSTRACT else ""


def _plain(path: str) -> bool:
    return path.isprintable() and not any(part in ("", ".", "..") or "*" in part for part in path.split("/")[1:])
