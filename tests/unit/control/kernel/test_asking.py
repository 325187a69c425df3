"""What an engine outside is asked about, and what its answer counts for (AZ-11, OD-35)."""

from typing import Any

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.control.kernel import permitted
from hostler.control.kernel.allocation_commands import ProbeNode
from hostler.control.kernel.asking import WhatToAsk, is_asked_about
from hostler.control.kernel.commands import Actor, PutPolicy, SubmitOperation, TargetSelector
from hostler.control.kernel.rows import OperationRow
from support.allocations import Lending, create
from support.memory_view import Bench

USER = Actor(kind="user", name="ann", role="project_admin", org_id="acme", project_id="train")
ADMIN = Actor(kind="user", name="root", role="platform_admin")


def submit(node_id: str, key: str = "k", **more: Any) -> SubmitOperation:
    return SubmitOperation(
        **{
            "actor": USER, "org_id": "acme", "project_id": "train", "operation_type": "demo.write", "version": "v1",
            "inputs": {}, "target_selector": TargetSelector(nodes=(node_id,)), "idempotency_key": key,
            "correlation_id": "cor",
        } | more
    )  # fmt: skip


def answered(bench: Any, command: Any, *, allowed: bool, reason: str = "") -> Any:
    question = bench.run(WhatToAsk(command))
    answer = permitted.Answer(question_digest=question.digest(), allowed=allowed, reason=reason)
    return msgspec.structs.replace(command, answer=answer)


def closed() -> PutPolicy:
    from hostler.catalog.policy import PolicyOverlay

    overlay = PolicyOverlay(enabled=False)
    return PutPolicy(
        actor=ADMIN, scope="global", scope_id="", org_id="", operation_type="*", overlay=overlay, expected_revision=None
    )


def test_AZ_11_an_answer_refuses_what_the_policy_allows() -> None:
    bench = Bench(asks_outside=True)
    node = bench.node()
    refused = answered(bench, submit(node.node_id), allowed=False, reason="not on fridays")
    refusal = bench.refusal(refused)
    assert (refusal.code, refusal.message) == ("policy_denied", "not on fridays")
    assert bench.run(answered(bench, submit(node.node_id), allowed=True)).created


def test_AZ_11_an_answer_cannot_allow_what_the_policy_refuses() -> None:
    bench = Bench(asks_outside=True)
    node = bench.node()
    bench.run(closed())
    refusal = bench.refusal(answered(bench, submit(node.node_id), allowed=True, reason="I said yes"))
    assert (refusal.code, "policy does not allow" in refusal.message) == ("policy_denied", True)


def test_AZ_11_who_was_not_asked_has_not_agreed() -> None:
    bench = Bench(asks_outside=True)
    assert "was not asked" in bench.refusal(submit(bench.node().node_id)).message
    lending = Lending()
    lending.bench.settings = msgspec.structs.replace(lending.bench.settings, asks_outside=True)
    assert "was not asked" in lending.bench.refusal(create()).message


@pytest.mark.parametrize(
    "other",
    [
        {"version": "v2"},
        {"inputs": {"a": 1}},
        {"actor": ADMIN},
        {"mode": "plan"},
        {"target_selector": TargetSelector()},
    ],
    ids=lambda other: next(iter(other)),
)
def test_AZ_11_an_answer_is_to_one_question_alone(other: dict[str, Any]) -> None:
    bench = Bench(asks_outside=True)
    command = submit(bench.node().node_id)
    answer = answered(bench, command, allowed=True).answer
    question = bench.run(WhatToAsk(command))
    changed = msgspec.structs.replace(question, **_as_question(other))
    assert answer.decide(question) == permitted.ALLOWED
    assert answer.decide(changed).error_code == "policy_changed"


def _as_question(other: dict[str, Any]) -> dict[str, Any]:
    if "actor" in other:
        return {"actor": other["actor"].name, "role": other["actor"].role}
    if "target_selector" in other:
        return {"targets": msgspec.to_builtins(other["target_selector"])}
    return other


def test_AZ_11_a_policy_that_is_written_while_the_engine_thinks_is_another_question() -> None:
    bench = Bench(asks_outside=True)
    command = answered(bench, submit(bench.node().node_id), allowed=True)
    tight = msgspec.structs.replace(closed(), overlay=msgspec.structs.replace(closed().overlay, enabled=True))
    bench.run(msgspec.structs.replace(tight, overlay=msgspec.structs.replace(tight.overlay, timeout_seconds=9)))
    assert bench.refusal(command).code == "policy_changed"


def test_OD_35_an_allocation_is_asked_about_and_the_house_s_own_links_are_not() -> None:
    lending = Lending(nodes=1)
    bench = lending.bench
    bench.settings = msgspec.structs.replace(bench.settings, asks_outside=True)
    question = bench.run(WhatToAsk(create(node_count=1, labels={})))
    assert (question.asks_for, question.actor, question.targets) == (
        "allocation", "ann", {"node_count": 1, "labels": {}, "nodes": []},
    )  # fmt: skip
    assert question.operation_type == "allocation.runtime.provision"
    refused = answered(bench, create(), allowed=False, reason="on trial")
    assert bench.refusal(refused).message == "on trial"
    made = bench.run(answered(bench, create(), allowed=True))
    assert made.state == "provisioning", "the chain's operation was placed without a question"
    (operation,) = lending.operations(made.allocation_id)
    assert operation.trigger_source == "allocation_provision"
    assert bench.run(ProbeNode(actor=ADMIN, node_id=lending.nodes[0].node_id, correlation_id="c"))


def test_OD_35_what_was_answered_before_raises_no_question() -> None:
    bench = Bench(asks_outside=True)
    node = bench.node()
    first = bench.run(answered(bench, submit(node.node_id), allowed=True))
    assert bench.run(WhatToAsk(submit(node.node_id))) is None
    again = bench.run(submit(node.node_id))
    assert (again.operation_id, again.created) == (first.operation_id, False)


def test_OD_35_to_ask_what_to_ask_changes_nothing_and_is_no_line_in_the_audit() -> None:
    bench = Bench(asks_outside=True)
    node = bench.node()
    events = len(bench.events)
    bench.run(WhatToAsk(submit(node.node_id)))
    with pytest.raises(HostlerError, match="registered"):
        bench.run(WhatToAsk(submit(node.node_id, version="v9")))
    assert len(bench.events) == events
    assert not bench.view.rows[OperationRow]


def test_OD_35_only_tenants_requests_without_an_answer_are_asked_about() -> None:
    command = submit("nod_1")
    answer = permitted.Answer(question_digest="", allowed=True)
    assert is_asked_about(command)
    assert is_asked_about(create())
    assert not is_asked_about(msgspec.structs.replace(command, answer=answer))
    assert not is_asked_about(msgspec.structs.replace(command, trigger_source="allocation_release"))
    assert not is_asked_about(closed())
