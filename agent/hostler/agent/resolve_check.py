"""`hostler-agent resolve KIND`: what an abstract step kind is on this node, and why (RS-09). Runs nothing."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from hostler.agent import capabilities
from hostler.agent.config import AgentConfig
from hostler.agent.journal.journal import Journal
from hostler.agent.lifecycle.provision import resolver_folder
from hostler.agent.lifecycle.trust import Trusted
from hostler.agent.resolver.resolver import Active, Resolver
from hostler.base.clock import Clock
from hostler.base.errors import HostlerError, error
from hostler.catalog.kinds import ABSTRACT
from hostler.catalog.resolver import Considered


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    resolved_profile, hardware_match: as a receipt would name them; "" when nothing resolves the kind.
    rules: every rule in order, and why it was taken or not.
    """

    kind: str
    active: Active | None
    capabilities: dict[str, str]
    rules: tuple[Considered, ...] = ()
    resolved_profile: str = ""
    hardware_match: str = ""
    error_code: str = ""
    message: str = ""
    hint: str = ""


async def explain(config: AgentConfig, kind: str, more: Mapping[str, str], clock: Clock) -> Explained:
    """Reads the agent's state, whether it runs or not, and changes nothing of it.

    Args:
        more: capabilities that stand over what is found here, to ask for other hardware.

    Raises:
        HostlerError: `unknown_step_kind` for what is no abstract kind.
    """
    if kind not in ABSTRACT:
        raise error("unknown_step_kind", f"{kind} is no abstract step kind", hint=f"those are {_names(ABSTRACT)}")
    here = {**capabilities.detect(Path(config.files.root)), **more}
    journal = await Journal.open(config.state / "journal.db", clock)
    try:
        trusted = Trusted(config.state, journal, clock)
        await trusted.look()
        resolver = Resolver(resolver_folder(config.state), journal, lambda: trusted.catalog, lambda: here)
        return _explained(resolver, kind, here)
    finally:
        await journal.close()


def _explained(resolver: Resolver, kind: str, here: dict[str, str]) -> Explained:
    rules: tuple[Considered, ...] = ()
    active: Active | None = None
    try:
        active = resolver.active
        rules = tuple(resolver.explain(kind))
        resolved = resolver.resolve(kind)
    except HostlerError as err:
        return Explained(
            kind=kind, active=active, capabilities=here, rules=rules,
            error_code=err.code, message=err.message, hint=err.hint,
        )  # fmt: skip
    return Explained(
        kind=kind, active=active, capabilities=here, rules=rules,
        resolved_profile=resolved.command.id, hardware_match=resolved.rule_id,
    )  # fmt: skip


def lines(explained: Explained) -> list[str]:
    """For people."""
    active = explained.active
    told = [f"configuration {active.config} of catalog {active.version}, by {active.origin}"] if active else []
    told += [
        f"{'->' if rule.taken else '  '} {rule.rule_id:32} {rule.profile_id or '-':32} {rule.why}".rstrip()
        for rule in explained.rules
    ]
    if explained.error_code:
        return [*told, f"refused: {explained.message} [{explained.error_code}]", f"  {explained.hint}"]
    return [*told, f"{explained.kind} is {explained.resolved_profile} here, by rule {explained.hardware_match}"]


def _names(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
