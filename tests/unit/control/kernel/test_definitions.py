"""Words about definitions, plan approval, and limits of a request (API-02, OP-01, OP-18, design §5)."""

from typing import Any

import msgspec
import pytest

from hostler.catalog.policy import PolicyOverlay
from hostler.control.kernel.commands import DescribeDefinition, SetDefinitionState
from hostler.control.kernel.rows import DefinitionRow
from hostler.wire.task import Policy, TaskMode
from support.builders import definition
from support.control import ADMIN, submit
from support.memory_view import Bench

REF = "demo.write@v1"
PLAN = "a" * 64


def describe(**words: Any) -> DescribeDefinition:
    return DescribeDefinition(actor=ADMIN, ref=REF, **words)


def row(bench: Bench) -> DefinitionRow:
    found = bench.view.get(DefinitionRow, REF)
    assert isinstance(found, DefinitionRow)
    return found


def test_API_02_words_change_and_the_signed_document_does_not() -> None:
    bench = Bench()
    before = row(bench)
    bench.run(describe(description="writes a file", default_channel="stable"))
    after = row(bench)
    assert (after.description, after.default_channel) == ("writes a file", "stable")
    assert (after.digest, after.document, after.state) == (before.digest, before.document, before.state)


def test_API_02_one_line_of_the_audit_says_what_was_and_what_is() -> None:
    bench = Bench()
    bench.run(describe(description="one"))
    bench.run(describe(description="two"))
    bench.run(describe(description="two"))  # nothing new, no line
    lines = [msgspec.json.decode(event.body) for event in bench.events if event.action == "definition.patch"]
    assert [(line["before"], line["after"]) for line in lines] == [
        ({"description": ""}, {"description": "one"}),
        ({"description": "one"}, {"description": "two"}),
    ]


def test_API_02_an_unknown_definition_is_not_found() -> None:
    command = DescribeDefinition(actor=ADMIN, ref="no.such@v1", description="x")
    assert Bench().refusal(command).code == "not_found"


def test_OP_18_a_submit_of_a_deprecated_version_says_what_to_use_instead() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(describe(deprecation_note="use v2"))
    assert bench.run(submit(node)).deprecation_note == ""
    bench.run(SetDefinitionState(actor=ADMIN, ref=REF, state="deprecated"))
    made = bench.run(submit(node, idempotency_key="k2"))
    assert (made.deprecated, made.deprecation_note) == (True, "use v2")


@pytest.mark.parametrize("by", ["definition", "request"])
def test_a_plan_that_must_be_approved_is_asked_for(by: str) -> None:
    bench = Bench()
    node = bench.node()
    if by == "definition":
        bench.define(definition(require_plan_approval=True))
    ask = {"require_plan_approval": by == "request"}
    refusal = bench.refusal(submit(node, **ask))
    assert (refusal.code, refusal.pointer) == ("plan_approval_required", "/approved_plans")
    bench.run(submit(node, mode=TaskMode.PLAN, idempotency_key="k2", **ask))
    bench.run(submit(node, approved_plans={node.node_id: PLAN}, idempotency_key="k3", **ask))


def test_a_request_can_tighten_its_own_limits_and_never_widen_them() -> None:
    bench = Bench(policy=Policy(timeout_seconds=100, max_concurrency=4))
    node = bench.node()
    tight = bench.run(submit(node, limits=PolicyOverlay(timeout_seconds=10)))
    wide = bench.run(submit(node, idempotency_key="k2", limits=PolicyOverlay(timeout_seconds=1000)))
    policies = [msgspec.json.decode(bench.operation(m.operation_id).policy, type=Policy) for m in (tight, wide)]
    assert [policy.timeout_seconds for policy in policies] == [10, 100]


def test_RT_01_limits_and_approval_are_part_of_what_a_key_stands_for() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(submit(node, idempotency_key="k", limits=PolicyOverlay(timeout_seconds=10)))
    assert bench.refusal(submit(node, idempotency_key="k")).code == "idempotency_mismatch"


def test_OP_01_digests_signed_before_the_flag_existed_stay_what_they_were() -> None:
    assert b"require_plan_approval" not in definition().canonical()
    assert definition(require_plan_approval=True).digest() != definition().digest()
