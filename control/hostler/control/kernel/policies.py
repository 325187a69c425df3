"""The effective policy: global, then tenant, then project, each of which can only tighten (AZ-06, AZ-07, X24).

settings ─▶ global *  ─▶ global type ─▶ tenant * ─▶ tenant type ─▶ project * ─▶ project type
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from hostler.catalog.policy import PolicyOverlay, merge, policy_digest
from hostler.control.kernel.model import Draft
from hostler.control.kernel.policy_rows import ANY_TYPE, PolicyRow
from hostler.wire.task import Policy

# What the house itself asks for is bound by the global policy alone: a tenant cannot forbid its own eviction.
HOUSE_SOURCES = ("allocation_provision", "allocation_release", "agent_lifecycle", "system")
Rows = Mapping[tuple[str, str, str], PolicyRow]


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the chain. `name` says whose: `global`, `tenant acme`, `project train`."""

    scope: str
    scope_id: str
    operation_type: str
    overlay: PolicyOverlay

    @property
    def name(self) -> str:
        return f"{self.scope} {self.scope_id}".strip()


class Effective(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    policy: the merge.
    set_by: key → the level whose value it is; a key nobody set is absent.
    limits: the levels that limit concurrency, each over its own scope.
    """

    policy: Policy
    digest: str
    set_by: dict[str, str]
    limits: tuple[Level, ...]


def overlay_in(row: PolicyRow) -> PolicyOverlay:
    return msgspec.json.decode(row.overlay, type=PolicyOverlay)


def chain(rows: Rows, org_id: str, project_id: str, operation_type: str) -> Iterator[Level]:
    """The levels that speak about an operation, outermost first."""
    for scope, scope_id in (("global", ""), ("tenant", org_id), ("project", project_id)):
        if scope != "global" and not scope_id:
            continue
        for type_ in dict.fromkeys((ANY_TYPE, operation_type)):
            row = rows.get((scope, scope_id, type_))
            if row is not None:
                yield Level(scope=scope, scope_id=scope_id, operation_type=type_, overlay=overlay_in(row))


def effective(base: Policy, levels: Iterable[Level]) -> Effective:
    """`base` tightened by each level in turn; what would weaken it is ignored (S3)."""
    policy, set_by, limits = base, {}, []
    default = Policy()
    for name in base.__struct_fields__:
        if getattr(base, name) != getattr(default, name):
            set_by[name] = "settings"
    for level in levels:
        tighter = merge(policy, level.overlay)
        for name in policy.__struct_fields__:
            if getattr(tighter, name) != getattr(policy, name):
                set_by[name] = level.name
        if level.overlay.max_concurrency:
            limits.append(level)
        policy = tighter
    return Effective(policy=policy, digest=policy_digest(policy), set_by=set_by, limits=tuple(limits))


def tightened(now: Effective, limits: PolicyOverlay) -> Effective:
    """What a request asks for by itself: never more than it may have."""
    if limits == PolicyOverlay():
        return now
    policy = merge(now.policy, limits)
    return Effective(policy=policy, digest=policy_digest(policy), set_by=now.set_by, limits=now.limits)


def of_operation(
    draft: Draft, org_id: str, project_id: str, operation_type: str, trigger_source: str = "tenant_request"
) -> Effective:
    """What holds for an operation now."""
    rows = draft.policies()
    if not rows:  # the hot path
        policy = draft.settings.policy
        return Effective(policy=policy, digest=draft.settings.policy_digest, set_by={}, limits=())
    if trigger_source in HOUSE_SOURCES:
        org_id = project_id = ""
    return effective(draft.settings.policy, chain(rows, org_id, project_id, operation_type))
