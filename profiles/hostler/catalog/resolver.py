"""Resolver configurations: which command profile an abstract step kind stands for on which hardware (004 §4.7).

A configuration is authored as YAML, signed with the catalog and digested as canonical JSON. Rules are tried in
their order; the first one that matches the node and names the kind wins (RS-02). Everything here is pure.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec

from hostler.base.digest import canonical_json, sha256_hex
from hostler.base.errors import error
from hostler.base.strict import convert
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition
from hostler.catalog.kinds import ABSTRACT

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Match = Annotated[dict[Name, Name], msgspec.Meta(max_length=16)]
Overrides = Annotated[dict[Name, Name], msgspec.Meta(max_length=64)]

# Programs that end well whatever the hardware is like: no verification by one of them says anything.
ALWAYS_FINE = frozenset({"true", "echo", "printf", "sleep", "yes", "hostname", "uname", "date", "id", "whoami", "pwd"})
_ROOT = frozenset({"root", "0"})
_MOST_CASES = 1024


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    match: capability keys and the exact values they must have; `{}` matches every node.
    overrides: command profile by abstract step kind.
    """

    match: Match
    overrides: Overrides


class ResolverConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The document, in the form of seed 004 §4.7 (RS-04)."""

    hardware_profiles: Annotated[tuple[Rule, ...], msgspec.Meta(min_length=1, max_length=256)]

    def canonical(self) -> bytes:
        return canonical_json(msgspec.to_builtins(self))

    def digest(self) -> str:
        return sha256_hex(self.canonical())


class Resolution(NamedTuple):
    """What a kind resolves to. `rule_id` is the same for the same configuration and rule, everywhere (T10)."""

    rule_id: str
    profile_id: str
    match: Mapping[str, str]


class Considered(NamedTuple):
    """One rule, and why it was taken or not; `profile_id` is "" for a rule that says nothing about the kind."""

    rule_id: str
    profile_id: str
    taken: bool
    why: str


class Problem(NamedTuple):
    """What is wrong with a configuration, and where in it (JSON pointer)."""

    pointer: str
    message: str
    hint: str = ""


def resolver_config_from(value: Any, what: str = "resolver configuration") -> ResolverConfig:
    """Its form alone; see `check_config`. Raises `invalid_definition` with the path of the offending value."""
    return convert(value, ResolverConfig, code="invalid_definition", what=what)


def rule_id(config: ResolverConfig, index: int) -> str:
    """`NUMBER:KEY=VALUE,...` with the number counted from 1, `NUMBER:*` for a rule that matches everything."""
    match = config.hardware_profiles[index].match
    return f"{index + 1}:{','.join(f'{key}={match[key]}' for key in sorted(match)) or '*'}"


def resolve(config: ResolverConfig, kind: str, capabilities: Mapping[str, str]) -> Resolution:
    """Raises `no_resolver` for a kind that no rule resolves on such a node: never a success (RS-05, T10)."""
    for index, rule in enumerate(config.hardware_profiles):
        if kind in rule.overrides and not unmet(rule.match, capabilities):
            return Resolution(rule_id(config, index), rule.overrides[kind], rule.match)
    raise error("no_resolver", f"no rule of the resolver configuration resolves {kind} on this node")


def unmet(match: Mapping[str, str], capabilities: Mapping[str, str]) -> str:
    """The first key, by name, that is not as the rule wants it; "" when all are."""
    return next((key for key in sorted(match) if capabilities.get(key) != match[key]), "")


def consider(config: ResolverConfig, kind: str, capabilities: Mapping[str, str]) -> list[Considered]:
    """Every rule in order, with the reason that decided about it (RS-09)."""
    taken = False
    told = []
    for index, rule in enumerate(config.hardware_profiles):
        key, profile = unmet(rule.match, capabilities), rule.overrides.get(kind, "")
        wins = not (taken or key or not profile)
        if key:
            why = f"{key} is {capabilities.get(key, 'unknown')}, not {rule.match[key]}"
        elif not profile:
            why = f"matches, and says nothing about {kind}"
        else:
            why = "the first that matches" if wins else "matches, and an earlier one won"
        told.append(Considered(rule_id(config, index), profile, wins, why))
        taken = taken or wins
    return told


def check_config(
    config: ResolverConfig, commands: Mapping[str, CommandProfile], definitions: Iterable[Definition]
) -> Iterator[Problem]:
    """All that must hold before anybody signs or uses it."""
    last = len(config.hardware_profiles) - 1
    for index, rule in enumerate(config.hardware_profiles):
        at = f"/hardware_profiles/{index}"
        if index == last and rule.match:
            hint = "end with '- match: {}', for nodes that no other rule knows"
            yield Problem(f"{at}/match", "the last rule must be the fallback, which matches everything (RS-03)", hint)
        if index < last and not rule.match:
            yield Problem(f"{at}/match", "the fallback must be the last rule; nothing after it could match (RS-03)")
        for kind, name in rule.overrides.items():
            yield from _override(f"{at}/overrides/{kind}", kind, name, commands, fallback=not rule.match)
    yield from _unresolved(config, definitions)


def advice(config: ResolverConfig, commands: Mapping[str, CommandProfile]) -> Iterator[Problem]:
    """What an author would not want, though it could be used."""
    for index, rule in enumerate(config.hardware_profiles):
        at = f"/hardware_profiles/{index}"
        for kind, name in rule.overrides.items():
            for before, earlier in enumerate(config.hardware_profiles[:index]):
                if kind in earlier.overrides and earlier.match.items() <= rule.match.items():
                    message = f"never used for {kind}: rule {rule_id(config, before)} matches all it could match"
                    yield Problem(f"{at}/overrides/{kind}", message, "put the narrower rule first")
                    break
            if rule.match and name in commands and always_fine(commands[name]):
                message = f"{name} succeeds whatever the hardware is, so it verifies nothing"
                yield Problem(f"{at}/overrides/{kind}", message)


def _override(
    at: str, kind: str, name: str, commands: Mapping[str, CommandProfile], *, fallback: bool
) -> Iterator[Problem]:
    profile = commands.get(name)
    if kind not in ABSTRACT:
        yield Problem(at, f"{kind} is no abstract step kind", f"those are {', '.join(sorted(ABSTRACT))}")
    elif profile is None:
        yield Problem(at, f"there is no command profile {name!r} (RS-05)")
    elif profile.run_as in _ROOT:
        hint = "name the command profile in a definition, whose approval covers it"
        yield Problem(at, f"{name} runs as root, which nobody approves where a rule picks it", hint)
    elif fallback and always_fine(profile):
        hint = "name a command that fails where the hardware is not known, or leave the kind out"
        yield Problem(at, f"{name} succeeds whatever the hardware is, so it verifies nothing (RS-03)", hint)


def always_fine(profile: CommandProfile) -> bool:
    """Whether its end says nothing: a program that cannot fail, or more than one exit code counted as success."""
    return profile.command.rpartition("/")[2] in ALWAYS_FINE or len({*profile.expected_exit_codes}) != 1


def _unresolved(config: ResolverConfig, definitions: Iterable[Definition]) -> Iterator[Problem]:
    """Kinds that a definition uses and that some node it may run on could not resolve (RS-05)."""
    asked = {key for rule in config.hardware_profiles for key in rule.match}
    for definition in definitions:
        required = {key: value for key, value in definition.capabilities.items() if key in asked}
        for kind in sorted({step.kind for step in definition.steps} & ABSTRACT):
            case = next((c for c in _cases(required) if not _resolves(config, kind, c)), None)
            if case is not None:
                where = ", ".join(f"{key}={value}" for key, value in case.items()) or "a node of any hardware"
                hint = "let the fallback name it, or let the definition require the hardware it is for"
                yield Problem("", f"{kind} of {definition.ref} has no resolution on {where} (RS-05)", hint)


def _resolves(config: ResolverConfig, kind: str, known: Mapping[str, str]) -> bool:
    return any(kind in rule.overrides and not unmet(rule.match, known) for rule in config.hardware_profiles)


def _cases(required: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Every combination of values that the requirement admits; what it does not name may be anything."""
    keys = sorted(required)
    values = [value if isinstance(value, list | tuple) else (value,) for value in map(required.get, keys)]
    for combination in itertools.islice(itertools.product(*values), _MOST_CASES):
        yield {key: _text(value) for key, value in zip(keys, combination, strict=True)}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
