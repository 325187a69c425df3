"""May this operation run? One question, one interface; the answer built in is the effective policy (AZ-08, AZ-11).

An engine outside the house is asked by the edge about the same plain data, and its answer travels in the command:
`Answer` gives it again here, to that very question. It can only refuse more: what the built-in one refuses is refused.
"""

from typing import Any, Protocol

import msgspec

from hostler.base.digest import digest_of
from hostler.base.errors import HostlerError, error
from hostler.catalog.binding import bind
from hostler.catalog.definition import Definition
from hostler.catalog.policy import allows_source
from hostler.catalog.sources import FETCHING, SOURCES, source_url
from hostler.wire.task import Policy


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a policy may look at, as plain data.

    Attributes:
        target_kinds: how the targets were chosen: `node`, `group`, `allocation`.
        sources: `step.parameter` → URL that it is going to fetch from, as far as that is known before it runs.
        definition_sources: what the definition itself allows; None for no restriction.
        asks_for: `operation` or `allocation`; of an allocation, `operation_type` is that of its provision profile.
        targets: the selector as it was given; of an allocation, `node_count`, `labels` and `nodes`.
    """

    asks_for: str = "operation"
    actor: str = ""
    role: str = ""
    mode: str = "apply"
    inputs: dict[str, Any] = {}
    targets: dict[str, Any] = {}
    operation_type: str
    version: str
    org_id: str
    project_id: str
    trigger_source: str
    target_kinds: tuple[str, ...]
    sources: dict[str, str]
    definition_sources: tuple[str, ...] | None
    policy: Policy

    def digest(self) -> str:
        return digest_of(msgspec.to_builtins(self))


class Verdict(msgspec.Struct, frozen=True):
    """`error_code` is "" where it is allowed."""

    error_code: str = ""
    reason: str = ""


ALLOWED = Verdict()


class Decider(Protocol):
    """The seam for a policy engine (AZ-11, OD-35). Pure: the same question has the same answer."""

    def decide(self, question: Question) -> Verdict: ...


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine outside said to one question, and to no other."""

    question_digest: str
    allowed: bool
    reason: str = ""

    def decide(self, question: Question) -> Verdict:
        if question.digest() != self.question_digest:
            return Verdict("policy_changed", "what the policy engine was asked has changed meanwhile")
        return ALLOWED if self.allowed else Verdict("policy_denied", self.reason)


class Unasked:
    """An engine that ought to have been asked and was not has not agreed."""

    def decide(self, question: Question) -> Verdict:
        return Verdict("policy_denied", f"the policy engine was not asked about {question.operation_type}")


class BuiltIn:
    """The effective policy, and nothing else."""

    def decide(self, question: Question) -> Verdict:
        policy, ref = question.policy, f"{question.operation_type}@{question.version}"
        if not policy.enabled:
            return Verdict("policy_denied", f"the policy does not allow {ref}")
        if policy.allowed_target_kinds is not None:
            for kind in question.target_kinds:
                if kind not in policy.allowed_target_kinds:
                    return Verdict("policy_denied", f"the policy does not allow {ref} on targets of kind {kind!r}")
        for place, url in question.sources.items():
            if not allows_source(policy, question.definition_sources, url):
                return Verdict("source_denied", f"step {place.partition('.')[0]} may not fetch from the source given")
        return ALLOWED


BUILT_IN = BuiltIn()


def check(question: Question, *also: Decider) -> None:
    """Raises `policy_denied` or `source_denied`. Nodes check all of it again (OP-04)."""
    refusal = refused(question, BUILT_IN, *also)
    if refusal is not None:
        raise refusal


def refused(question: Question, *deciders: Decider) -> HostlerError | None:
    """The first refusal; who comes later is not heard on what was refused before."""
    for decider in deciders:
        verdict = decider.decide(question)
        if verdict.error_code:
            return error(verdict.error_code, verdict.reason)
    return None


def sources_of(definition: Definition, inputs: dict[str, Any]) -> dict[str, str]:
    """Where its steps are going to fetch from, by step id; what only a step's output will tell is left out."""
    found = {}
    for step in definition.steps:
        for name in SOURCES if step.kind in FETCHING else ():
            value = step.params.get(name)
            if value and "${steps." not in str(value):
                found[f"{step.id}.{name}"] = source_url(name, bind(value, inputs, {}))
    return found
