"""A step kind for tests of the runner: it does what it is told, and remembers that it did."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hostler.agent.steps import table
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.catalog import kinds

NAME = "test.fake"


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    word: Any = ""
    path: str = ""
    url: str = ""


class FakeKind:
    """Attributes:
    applied, probed: the words of the steps this was done for, in order.
    on_apply: what apply does besides; may raise.
    truth: what probe answers.
    """

    name = NAME

    def __init__(self) -> None:
        self.planned: list[Any] = []
        self.applied: list[Any] = []
        self.probed: list[Any] = []
        self.views: list[StepView] = []
        self.on_apply: Callable[[StepContext], Any] | None = None
        self.truth = Probe(truth=Truth.NOT_DONE)
        self.plan_detail = ""

    async def plan(self, view: StepView) -> Plan:
        self.planned.append(view.params.word)
        return Plan((Change(action="say", target=str(view.params.word), detail=self.plan_detail),))

    async def apply(self, context: StepContext) -> Outcome:
        self.applied.append(context.params.word)
        self.views.append(context)
        if self.on_apply is not None:
            answer = self.on_apply(context)
            if hasattr(answer, "__await__"):
                answer = await answer
            if isinstance(answer, Outcome):
                return answer
        return Outcome(outputs={"word": context.params.word})

    async def probe(self, view: StepView) -> Probe:
        self.probed.append(view.params.word)
        return self.truth


def install(monkeypatch: pytest.MonkeyPatch) -> FakeKind:
    """Adds the kind to both closed tables for the length of a test."""
    kind = FakeKind()
    monkeypatch.setitem(kinds.KINDS, NAME, kinds.Kind(Params, "for tests", ("word",)))
    monkeypatch.setitem(table.MODULES, NAME, "support.fake_kind_module")
    monkeypatch.setattr(table, "import_module", lambda name: SimpleNamespace(KIND=kind))
    return kind
