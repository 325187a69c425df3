"""Policy overlays (AZ-06, AZ-07, AZ-08, AZ-11, DM-03, S3, T9)."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.catalog.definition import StepTemplate
from hostler.catalog.policy import PolicyOverlay, merge, overlay_of, weakened
from hostler.control.kernel import commands, permitted
from hostler.control.kernel.commands import Actor, PutPolicy, RetryOperation, SubmitOperation, TargetSelector
from hostler.control.kernel.rows import OperationRow
from hostler.wire.task import Policy
from support.builders import definition
from support.memory_view import Bench

ADMIN = Actor(kind="user", name="root", role="platform_admin")
USER = Actor(kind="user", name="ann", role="project_admin", org_id="acme", project_id="train")
PULL_PARAMS = {"url": "${inputs.url}", "sha256": "a" * 64, "path": "/x"}
PULL = StepTemplate(id="pull", kind="artifact.pull_blob", params=PULL_PARAMS)
SIGNED = "require_signature_verification"
NO_SCOPES = [
    ("global", "acme", "*"),
    ("tenant", "", "*"),
    ("planet", "x", "*"),
    ("tenant", "A B", "*"),
    ("tenant", "acme", "a/b"),
]


def put(
    scope: str, scope_id: str = "", type_: str = "demo.write", revision: int | None = None, **said: Any
) -> PutPolicy:
    org = {"tenant": scope_id, "project": "acme"}.get(scope, "")
    return PutPolicy(
        actor=ADMIN,
        scope=scope,
        scope_id=scope_id,
        org_id=org,
        operation_type=type_,
        overlay=msgspec.convert(said, PolicyOverlay),
        expected_revision=revision,
    )


def submit(*nodes: str, key: str = "k", **more: Any) -> SubmitOperation:
    return SubmitOperation(
        **{
            "actor": USER,
            "org_id": "acme",
            "project_id": "train",
            "operation_type": "demo.write",
            "version": "v1",
            "inputs": {},
            "target_selector": TargetSelector(nodes=nodes),
            "idempotency_key": key,
            "correlation_id": "cor",
            **more,
        }
    )


def policy_of(bench: Bench, operation_id: str) -> Policy:
    return msgspec.json.decode(bench.operation(operation_id).policy, type=Policy)


@pytest.mark.parametrize(("scope", "scope_id"), [("global", ""), ("tenant", "acme"), ("project", "train")])
@pytest.mark.parametrize("type_", ["demo.write", "*"])
def test_AZ_07_each_scope_bites_for_its_type_and_for_every_type(scope: str, scope_id: str, type_: str) -> None:
    bench = Bench()
    node = bench.node()
    assert bench.run(put(scope, scope_id, type_, enabled=False)) == 1
    refusal = bench.refusal(submit(node.node_id))
    assert refusal.code == "policy_denied"
    assert not bench.view.rows[OperationRow]


@pytest.mark.parametrize(("scope", "scope_id"), [("tenant", "other"), ("project", "other")])
def test_AZ_10_a_foreign_scope_does_not_bite(scope: str, scope_id: str) -> None:
    bench = Bench()
    node = bench.node()
    bench.run(put(scope, scope_id, "*", enabled=False))
    bench.run(submit(node.node_id))


def test_AZ_06_the_effective_policy_is_the_merge_of_all_scopes() -> None:
    bench = Bench(policy=Policy(timeout_seconds=100))
    node = bench.node()
    bench.run(put("global", "", "*", max_artifact_size_bytes=1000))
    bench.run(put("tenant", "acme", "*", timeout_seconds=50, require_signature_verification=True))
    bench.run(put("project", "train", "demo.write", max_artifact_size_bytes=10, max_concurrency=3))
    made = bench.run(submit(node.node_id))
    assert policy_of(bench, made.operation_id) == Policy(
        timeout_seconds=50, require_signature_verification=True, max_artifact_size_bytes=10, max_concurrency=3
    )


@pytest.mark.parametrize(
    ("above", "below", "key"),
    [
        ({"enabled": False}, {"enabled": True}, "enabled"),
        ({"max_concurrency": 2}, {"max_concurrency": 3}, "max_concurrency"),
        ({"max_concurrency": 2}, {"max_concurrency": 0}, "max_concurrency"),
        ({"timeout_seconds": 2}, {"timeout_seconds": 3}, "timeout_seconds"),
        ({"max_artifact_size_bytes": 2}, {"max_artifact_size_bytes": 3}, "max_artifact_size_bytes"),
        ({SIGNED: True}, {SIGNED: False}, SIGNED),
        ({"allowed_target_kinds": ["node"]}, {"allowed_target_kinds": ["node", "group"]}, "allowed_target_kinds"),
        (
            {"allowed_artifact_sources": ["https://a.example/x"]},
            {"allowed_artifact_sources": ["https://a.example/"]},
            "allowed_artifact_sources",
        ),
    ],
)
@pytest.mark.parametrize(
    ("outer", "inner"), [(("global", ""), ("tenant", "acme")), (("tenant", "acme"), ("project", "train"))]
)
def test_S3_an_overlay_that_weakens_its_parent_is_refused_naming_the_key(
    above: Any, below: Any, key: str, outer: Any, inner: Any
) -> None:
    bench = Bench()
    bench.run(put(*outer, "*", **above))
    refusal = bench.refusal(put(*inner, **below))
    assert (refusal.code, refusal.pointer) == ("policy_weakens", f"/{key}")
    assert " ".join(outer).strip() in refusal.message


def test_S3_an_overlay_that_its_parent_overtook_is_ignored_where_it_is_wider() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(put("project", "train", timeout_seconds=60))
    bench.run(put("tenant", "acme", timeout_seconds=5))
    made = bench.run(submit(node.node_id))
    assert policy_of(bench, made.operation_id).timeout_seconds == 5


def test_AZ_06_a_type_s_own_overlay_cannot_widen_what_the_same_scope_says_of_every_type() -> None:
    bench = Bench()
    bench.run(put("tenant", "acme", "*", max_concurrency=1))
    assert bench.refusal(put("tenant", "acme", "demo.write", max_concurrency=2)).code == "policy_weakens"


def test_two_writers_do_not_overwrite_each_other() -> None:
    bench = Bench()
    assert bench.run(put("tenant", "acme", revision=0, timeout_seconds=9)) == 1
    assert bench.refusal(put("tenant", "acme", revision=0, timeout_seconds=8)).code == "policy_changed"
    assert bench.run(put("tenant", "acme", revision=1, timeout_seconds=8)) == 2


@pytest.mark.parametrize(
    "said",
    [
        {"max_concurrency": -1},
        {"allowed_artifact_sources": ["models.example.com"]},
        {"allowed_artifact_sources": ["https://a.example/../b"]},
        {"allowed_target_kinds": ["nodes"]},
        {"timeout_seconds": 2**60},
    ],
)
def test_AZ_07_a_value_that_cannot_be_meant_is_refused(said: Any) -> None:
    assert Bench().refusal(put("tenant", "acme", **said)).code == "invalid_request"


@pytest.mark.parametrize(("scope", "scope_id", "type_"), NO_SCOPES)
def test_a_scope_that_does_not_exist_is_refused(scope: str, scope_id: str, type_: str) -> None:
    assert Bench().refusal(put(scope, scope_id, type_)).code == "invalid_request"


def test_SE_02_a_change_is_one_line_of_the_audit_with_before_and_after() -> None:
    bench = Bench()
    bench.run(put("tenant", "acme", timeout_seconds=9))
    bench.run(put("tenant", "acme", timeout_seconds=8))
    lines = [event for event in bench.events if event.action == "policy.put"]
    body = msgspec.json.decode(lines[1].body)
    assert (body["before"], body["after"]) == ({"timeout_seconds": 9}, {"timeout_seconds": 8})
    assert [line.result for line in lines] == ["accepted", "accepted"]
    assert lines[1].resource_name == "tenants/acme/operation-policies/demo.write"


def test_AZ_08_a_policy_tightened_after_the_submit_stops_what_waits() -> None:
    bench = Bench()
    away = bench.node(connected=False)
    made = bench.run(submit(away.node_id))
    bench.run(put("project", "train", enabled=False))
    bench.view.put(msgspec.structs.replace(away, connection="connected"))
    bench.run(put("project", "train", type_="other.type", timeout_seconds=1))  # looks again at nothing of ours
    bench.run(put("project", "train", enabled=False))
    operation = bench.operation(made.operation_id)
    assert (operation.status, operation.error_code) == ("failed", "policy_denied")
    assert bench.orders == []


def test_AZ_08_a_task_travels_under_the_policy_of_the_hour_and_never_under_a_looser_one() -> None:
    bench = Bench()
    bench.run(put("tenant", "acme", timeout_seconds=50))
    away = bench.node(connected=False)
    first = bench.run(submit(away.node_id))
    bench.run(put("tenant", "acme", timeout_seconds=20))
    second = bench.run(submit(away.node_id, key="k2"))
    bench.run(put("tenant", "acme", timeout_seconds=90))
    bench.view.put(msgspec.structs.replace(away, connection="connected"))
    bench.run(put("tenant", "acme", timeout_seconds=40))
    assert policy_of(bench, first.operation_id).timeout_seconds == 40
    assert policy_of(bench, second.operation_id).timeout_seconds == 20


def test_AZ_08_a_retry_asks_again() -> None:
    bench = Bench()
    away = bench.node(connected=False)
    made = bench.run(submit(away.node_id))
    bench.run(commands.CancelOperation(actor=USER, project_id="train", operation_id=made.operation_id))
    bench.run(put("global", "", "*", enabled=False))
    retry = RetryOperation(actor=USER, project_id="train", operation_id=made.operation_id)
    assert bench.refusal(retry).code == "policy_denied"


def test_AZ_07_max_concurrency_holds_across_the_operations_of_a_scope() -> None:
    bench = Bench()
    bench.run(put("tenant", "acme", "*", max_concurrency=2))
    nodes = [bench.node() for _ in range(3)]
    made = [bench.run(submit(node.node_id, key=node.node_id)) for node in nodes]
    states = [bench.tasks(each.operation_id)[0].state for each in made]
    assert states == ["assigned", "assigned", "queued"]
    bench.run(commands.CancelOperation(actor=USER, project_id="train", operation_id=made[0].operation_id))
    assert bench.tasks(made[2].operation_id)[0].state == "queued"  # until the node has confirmed
    bench.run(put("tenant", "acme", "*", max_concurrency=3))
    assert bench.tasks(made[2].operation_id)[0].state == "assigned"


def test_a_tenant_cannot_forbid_what_the_house_does_to_its_allocation() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(put("tenant", "acme", "*", enabled=False))
    bench.run(submit(node.node_id, trigger_source="allocation_release"))
    bench.run(put("global", "", "*", enabled=False))
    assert bench.refusal(submit(node.node_id, key="k2", trigger_source="allocation_release")).code == "policy_denied"


def test_OP_04_a_source_outside_a_tenant_s_list_is_refused_at_submit() -> None:
    bench = Bench()
    node = bench.node()
    schema = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
    bench.define(definition(PULL, type_="demo.pull", inputs=schema))
    bench.run(put("tenant", "acme", "*", allowed_artifact_sources=["https://models.example.com/ours"]))
    ask = {"operation_type": "demo.pull"}
    bench.run(submit(node.node_id, **ask, inputs={"url": "https://models.example.com/ours/a"}))
    refused = bench.refusal(submit(node.node_id, key="k2", **ask, inputs={"url": "https://models.example.com/b"}))
    assert refused.code == "source_denied"


@dataclass
class Recorded:
    """A second implementation, as an outside engine would be: the same policy, read from plain JSON data."""

    asked: list[Any] = field(default_factory=list)

    def decide(self, question: permitted.Question) -> permitted.Verdict:
        data = msgspec.to_builtins(question)
        self.asked.append(data)
        kinds = data["policy"]["allowed_target_kinds"]
        if not data["policy"]["enabled"]:
            return permitted.Verdict("policy_denied", "engine")
        if kinds is not None and not set(data["target_kinds"]) <= set(kinds):
            return permitted.Verdict("policy_denied", "engine")
        if data["version"] == "v2":
            return permitted.Verdict("policy_denied", "no v2 on fridays")
        return permitted.ALLOWED


@given(
    st.booleans(),
    st.sampled_from([None, (), ("node",), ("group",), ("node", "group")]),
    st.sampled_from([("node",), ("group",), ("node", "group")]),
)
def test_AZ_11_a_second_decider_gives_the_same_answers(enabled: bool, kinds: Any, asked: Any) -> None:
    question = permitted.Question(
        operation_type="a.b",
        version="v1",
        org_id="acme",
        project_id="train",
        trigger_source="tenant_request",
        target_kinds=asked,
        sources={},
        definition_sources=None,
        policy=Policy(enabled=enabled, allowed_target_kinds=kinds),
    )
    assert Recorded().decide(question).error_code == permitted.BUILT_IN.decide(question).error_code


maxima = st.integers(0, 5)
lists = st.none() | st.lists(st.sampled_from(["node", "group", "allocation"]), max_size=3, unique=True).map(tuple)
urls = st.sampled_from(["https://a.example/", "https://a.example/x", "https://a.example/x/y", "https://b.example/"])
sources = st.none() | st.lists(urls, max_size=3, unique=True).map(tuple)
policies = st.builds(
    Policy,
    enabled=st.booleans(),
    max_concurrency=maxima,
    timeout_seconds=maxima,
    allowed_artifact_sources=sources,
    allowed_target_kinds=lists,
    require_signature_verification=st.booleans(),
    max_artifact_size_bytes=maxima,
)


@given(policies, policies)
def test_AZ_06_no_merge_is_ever_wider_than_its_parent(parent: Policy, child: Policy) -> None:
    merged = merge(parent, overlay_of(child))
    assert weakened(parent, overlay_of(merged)) == ""
    assert merge(parent, overlay_of(merged)) == merged
