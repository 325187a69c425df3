"""Submitting: OP-01..OP-19 as far as the kernel decides them. A refusal leaves no row but its audit line."""

import pytest

from hostler.control.kernel.commands import RevokeNode, SetDefinitionState, TargetSelector
from hostler.control.kernel.rows import AttemptRow, OperationRow, TaskRow
from hostler.wire.task import Policy
from support.builders import definition
from support.control import ADMIN, submit
from support.memory_view import Bench


def refused(bench: Bench, *targets, **changes):
    """The refusal, after making sure that nothing was stored for it (OP-02)."""
    before = len(bench.events)
    decision = bench.decide(submit(*targets, **changes))
    assert decision.refusal is not None
    assert not decision.inserts
    assert not decision.updates
    assert not decision.orders
    assert bench.view.rows[OperationRow] == {}
    assert bench.view.rows[TaskRow] == {}
    (line,) = bench.events[before:]
    assert (line.action, line.result, line.error_code) == ("operation.submit", "refused", decision.refusal.code)
    return decision.refusal


def test_OP_02_bad_input_is_refused_with_its_pointer_before_anything_is_stored() -> None:
    bench = Bench()
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"size": {"type": "integer", "minimum": 1}},
    }
    bench.define(definition(inputs=schema))
    refusal = refused(bench, bench.node(), inputs={"size": 0})
    assert (refusal.code, refusal.pointer) == ("input_schema", "/size")


def test_OP_02_defaults_of_the_schema_are_filled_in_before_the_inputs_are_frozen() -> None:
    bench = Bench()
    properties = {"mode": {"type": "string", "default": "fast"}}
    bench.define(definition(inputs={"type": "object", "additionalProperties": False, "properties": properties}))
    made = bench.run(submit(bench.node()))
    assert bench.operation(made.operation_id).inputs == '{"mode":"fast"}'


def test_OP_06_a_definition_for_an_absent_backend_is_refused() -> None:
    bench = Bench()
    bench.define(definition(backend_type="k8s_adapter"))
    refusal = refused(bench, bench.node())
    assert (refusal.code, refusal.http_status) == ("backend_not_implemented", 503)


def test_OP_09_a_foreign_node_is_not_owned_and_leaves_no_rows() -> None:
    bench = Bench()
    own, foreign = bench.node(), bench.node(org="rival", project="other")
    for name in (foreign.node_id, foreign.name):
        refusal = refused(bench, target_selector=TargetSelector(nodes=(own.node_id, name)))
        assert (refusal.code, refusal.http_status) == ("target_not_owned", 403)


def test_OP_09_labels_match_only_nodes_of_the_requests_own_project() -> None:
    bench = Bench()
    labels = '{"pool":"gpu","zone":"a"}'
    own = bench.node(labels=labels)
    bench.node(labels=labels, org="rival", project="train")
    bench.node(labels=labels, project="other")
    bench.node(labels='{"pool":"cpu","zone":"a"}')
    bench.node(labels=labels, state="revoked")
    made = bench.run(submit(target_selector=TargetSelector(labels={"pool": "gpu", "zone": "a"})))
    assert [task.node_id for task in bench.tasks(made.operation_id)] == [own.node_id]


@pytest.mark.parametrize(
    ("selector", "code"),
    [
        (TargetSelector(nodes=("nod_nowhere",)), "unknown_target"),
        (TargetSelector(labels={"pool": "none"}), "empty_target"),
        (TargetSelector(), "empty_target"),
        (TargetSelector(nodes=("gpu-1",), replicas=0), "invalid_request"),
        (TargetSelector(nodes=("gpu-1",), replicas=10_001), "too_large"),
    ],
)
def test_OP_09_a_selector_that_selects_nothing_usable_is_refused(selector, code) -> None:
    bench = Bench()
    bench.node()
    assert refused(bench, target_selector=selector).code == code


def test_OP_09_a_revoked_node_is_no_target() -> None:
    bench = Bench()
    assert refused(bench, bench.node(state="revoked")).code == "revoked"


def test_OP_10_each_node_and_replica_becomes_one_task_with_its_first_attempt() -> None:
    """DM-16: one row for each attempt, each with an id of its own."""
    bench = Bench()
    nodes = [bench.node(), bench.node()]
    made = bench.run(submit(*nodes, replicas=3))
    tasks = bench.tasks(made.operation_id)
    assert sorted((task.node_id, task.replica_index) for task in tasks) == [
        (node.node_id, replica) for node in nodes for replica in range(3)
    ]
    attempts = bench.view.rows[AttemptRow]
    assert {task.attempt_uid for task in tasks} == set(attempts)
    assert bench.operation(made.operation_id).tasks_total == 6


def test_OP_10_a_node_named_twice_gets_one_task() -> None:
    bench = Bench()
    node = bench.node(labels='{"a":"b"}')
    selector = TargetSelector(nodes=(node.node_id, node.name), labels={"a": "b"})
    made = bench.run(submit(target_selector=selector))
    assert len(bench.tasks(made.operation_id)) == 1


def test_OP_18_deprecated_still_runs_and_says_so_and_retired_refuses() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(SetDefinitionState(actor=ADMIN, ref="demo.write@v1", state="deprecated"))
    made = bench.run(submit(node))
    assert made.deprecated
    assert any('"definition_state":"deprecated"' in event.body for event in bench.events)
    bench.run(SetDefinitionState(actor=ADMIN, ref="demo.write@v1", state="retired"))
    assert bench.refusal(submit(node)).code == "definition_retired"
    assert bench.operation(made.operation_id).status == "queued", "what runs goes on"
    back = SetDefinitionState(actor=ADMIN, ref="demo.write@v1", state="active")
    assert bench.refusal(back).code == "definition_retired"


def test_OP_19_inputs_that_look_secret_are_refused_whatever_the_schema_says() -> None:
    bench = Bench()
    refusal = refused(bench, bench.node(), inputs={"api_token": "abc"})
    assert (refusal.code, refusal.http_status) == ("secret_in_payload", 422)
    assert "abc" not in "".join(event.body for event in bench.events)


def test_unknown_definitions_are_named() -> None:
    bench = Bench()
    refusal = refused(bench, bench.node(), version="v9")
    assert refusal.code == "unknown_definition"
    assert "demo.write@v9" in refusal.message


def test_RT_01_the_same_key_and_body_give_the_same_operation() -> None:
    bench = Bench()
    node = bench.node()
    first = bench.run(submit(node, idempotency_key="k"))
    again = bench.decide(submit(node, idempotency_key="k", correlation_id="another", traceparent="00-1"))
    assert again.result.operation_id == first.operation_id
    assert not again.result.created
    assert not again.inserts


def test_RT_01_the_same_key_with_another_body_is_a_conflict() -> None:
    bench = Bench()
    node, other = bench.node(), bench.node()
    bench.run(submit(node, idempotency_key="k"))
    refusal = bench.refusal(submit(other, idempotency_key="k"))
    assert (refusal.code, refusal.http_status) == ("idempotency_mismatch", 409)


def test_RT_01_keys_of_different_tenants_do_not_meet() -> None:
    bench = Bench()
    mine, theirs = bench.node(), bench.node(org="rival")
    one = bench.run(submit(mine, idempotency_key="k"))
    two = bench.run(submit(theirs, idempotency_key="k", org_id="rival"))
    assert one.operation_id != two.operation_id


def test_RT_01_a_key_still_answers_after_its_definition_was_retired() -> None:
    bench = Bench()
    node = bench.node()
    first = bench.run(submit(node, idempotency_key="k"))
    bench.run(SetDefinitionState(actor=ADMIN, ref="demo.write@v1", state="retired"))
    assert bench.run(submit(node, idempotency_key="k")).operation_id == first.operation_id


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_RT_01_a_key_has_a_length(key) -> None:
    bench = Bench()
    assert refused(bench, bench.node(), idempotency_key=key).code == "invalid_request"


def test_DM_04_a_trigger_source_outside_the_enum_is_refused() -> None:
    bench = Bench()
    assert refused(bench, bench.node(), trigger_source="cron").code == "invalid_request"


def test_AZ_07_the_policy_bites_where_it_can_be_told_at_submit() -> None:
    cases = {
        "policy_denied": (Policy(enabled=False), Policy(allowed_target_kinds=())),
        "source_denied": (Policy(allowed_artifact_sources=("https://good.example/",)),),
    }
    for code, policies in cases.items():
        for policy in policies:
            bench = Bench(policy)
            bench.define(_pulling())
            assert refused(bench, bench.node(), inputs={"url": "https://evil.example/m"}).code == code


def test_OP_04_an_artifact_outside_the_definitions_prefixes_is_refused() -> None:
    bench = Bench()
    bench.define(_pulling(artifacts={"allowed_sources": ("https://good.example/models",)}))
    node = bench.node()
    for url in ("https://evil.example/m", "https://good.example.evil/models/m", "https://good.example/modelsx"):
        assert refused(bench, node, inputs={"url": url}).code == "source_denied"
    bench.run(submit(node, inputs={"url": "https://good.example/models/m"}))


def _pulling(**more):
    from hostler.catalog.definition import ArtifactConstraints, StepTemplate

    if "artifacts" in more:
        more["artifacts"] = ArtifactConstraints(**more["artifacts"])
    params = {"url": "${inputs.url}", "sha256": "0" * 64, "path": "/srv/m"}
    schema = {"type": "object", "additionalProperties": False, "properties": {"url": {"type": "string"}}}
    return definition(StepTemplate(id="pull", kind="artifact.pull_blob", params=params), inputs=schema, **more)


def test_plans_approved_for_other_nodes_than_the_targets_are_refused() -> None:
    bench = Bench()
    one, two = bench.node(), bench.node()
    assert refused(bench, one, two, approved_plans={one.node_id: "d"}).code == "invalid_request"
    made = bench.run(submit(one, approved_plans={one.node_id: "d"}))
    assert bench.tasks(made.operation_id)[0].approved_plan_digest == "d"


def test_EV_01_one_requested_event_with_the_ids_of_OB_01() -> None:
    bench = Bench()
    node = bench.node()
    made = bench.run(submit(node, idempotency_key="k"))
    bench.run(submit(node, idempotency_key="k"))
    (event,) = [event for event in bench.events if event.type == "operation.requested"]
    assert event.operation_id == made.operation_id
    assert (event.org_id, event.project_id, event.correlation_id) == ("acme", "train", "cor_1")
    assert (event.actor, event.action, event.scope, event.result) == (
        "ann",
        "operation.submit",
        "acme/train",
        "accepted",
    )


def test_OP_09_a_node_that_left_the_project_before_dispatch_gets_nothing() -> None:
    import msgspec

    bench = Bench()
    node = bench.node(connected=False)
    made = bench.run(submit(node))
    assert bench.orders == []
    bench.view.put(msgspec.structs.replace(node, project_id="elsewhere"))
    bench.run(_hello(node.node_id))
    (task,) = bench.tasks(made.operation_id)
    assert (task.state, task.error_code) == ("failed", "target_not_owned")
    assert bench.orders == []


def _hello(node_id, **more):
    from hostler.control.kernel.commands import NodeHello
    from hostler.wire.node import Hello

    return NodeHello(node_id=node_id, session_id="s2", hello=Hello(agent_version="1", **more))


def test_max_concurrency_holds_tasks_back_until_a_slot_frees() -> None:
    bench = Bench(Policy(max_concurrency=2))
    nodes = [bench.node() for _ in range(5)]
    made = bench.run(submit(*nodes))
    assert len(bench.orders) == 2
    bench.run(RevokeNode(actor=ADMIN, node_id=nodes[0].node_id))
    assert bench.operation(made.operation_id).tasks_in_flight <= 2
