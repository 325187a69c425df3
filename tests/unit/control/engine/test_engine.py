"""The one write path over a real store: OP-01, RT-01, DM-08, DM-12, SE-02, P2, P5."""

import asyncio
import sqlite3

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.definition import StepTemplate
from hostler.control.kernel.commands import (
    CancelOperation,
    ExpireTasks,
    RecordCertificate,
    RegisterCatalog,
    RetryOperation,
    RevokeNode,
    SetDefinitionState,
)
from hostler.pki.keys import new_ed25519
from hostler.wire.report import LogLine, StepStatus, TaskStatus
from hostler.wire.task import CancelSpec, TaskMode, TaskSpec
from support.builders import catalog_bundle, definition, render_step
from support.control import ADMIN, USER, FrozenClock, fleet_in, submit, task_report
from support.keys import Keys


@pytest.fixture
async def fleet(tmp_path):
    async with fleet_in(tmp_path) as made:
        await made.publish(definition(render_step("s0"), render_step("s1")))
        yield made


async def code_of(awaitable) -> str:
    with pytest.raises(HostlerError) as refused:
        await awaitable
    return refused.value.code


async def test_an_operation_runs_from_submit_to_its_receipts(fleet) -> None:
    node = await fleet.node()
    operation_id = await fleet.submit(node)
    (spec,) = await fleet.take(node)
    await fleet.run(node, spec)
    operation = await fleet.operation(operation_id)
    assert operation.status == "succeeded"
    (task,) = operation.tasks
    assert [step.status for step in task.steps] == ["succeeded", "succeeded"]
    (chain,) = await fleet.engine.reader.receipts(operation_id=operation_id)
    assert (chain.node_id, chain.public_key, len(chain.receipts)) == (node.node_id, node.key, 2)
    assert [event.type for event in await fleet.events(operation_id)] == [
        "operation.requested",
        *["operation.progress"] * 4,
        "task.finished",
        "operation.completed",
    ]


async def test_OP_07_every_field_of_an_operation_is_read_back_and_not_null(fleet) -> None:
    node = await fleet.node()
    operation = await fleet.operation(await fleet.submit(node, traceparent="00-abc-def-01"))
    wanted = """operation_id operation_type version org_id project_id requested_by_user_id target_selector
        idempotency_key correlation_id status trigger_source traceparent"""
    assert all(getattr(operation, name) for name in wanted.split())


async def test_OP_01_the_same_version_with_another_body_is_a_conflict(fleet) -> None:
    other = definition(render_step("s0", path="/srv/elsewhere"))
    assert await code_of(fleet.publish(other, version=2)) == "definition_exists"
    stored = await fleet.engine.reader.definition("demo.write@v1")
    assert [step["id"] for step in stored.document["steps"]] == ["s0", "s1"]
    assert (await fleet.engine.reader.catalog())[0] == 1


async def test_OP_01_a_higher_catalog_adds_and_the_same_one_again_changes_nothing(fleet) -> None:
    first = definition(render_step("s0"), render_step("s1"))
    second = definition(version="v2")
    assert await fleet.publish(first, second, version=2) == ["demo.write@v2"]
    assert await fleet.publish(first, second, version=2) in ([], ["demo.write@v2"])
    assert await code_of(fleet.publish(first, version=1)) == "catalog_rollback"
    version, manifest, documents = await fleet.engine.reader.catalog()
    assert (version, len(documents)) == (2, 2)
    assert b"signatures" in manifest


async def test_SE_08_a_catalog_signed_by_the_dispatch_key_is_not_signed(fleet) -> None:
    for signer in (fleet.keys.dispatch, new_ed25519()):
        manifest, documents = catalog_bundle(fleet.keys, [definition(version="v2")], version=2, signers=[signer])
        command = RegisterCatalog(actor=ADMIN, manifest=manifest, documents=documents)
        with pytest.raises(HostlerError) as refused:
            await fleet.execute(command)
        assert (refused.value.code, refused.value.http_status) == ("catalog_unsigned", 422)


async def test_OP_12_a_definition_published_at_run_time_runs_without_a_restart(fleet) -> None:
    node = await fleet.node()
    old = definition(render_step("s0"), render_step("s1"))
    check = StepTemplate(id="look", kind="health.check", params={"checks": [{"type": "file", "path": "/etc/hostname"}]})
    await fleet.publish(old, definition(check, type_="demo.check"), version=2)
    await fleet.submit(node, operation_type="demo.check")
    (spec,) = await fleet.take(node)
    assert (spec.operation_type, spec.catalog_version, spec.steps[0].kind) == ("demo.check", 2, "health.check")


async def test_envelopes_wait_in_sequence_order_until_they_are_taken(fleet) -> None:
    node = await fleet.node()
    await fleet.submit(node, replicas=3)
    due = await fleet.delivered(node)
    assert [spec.sequence for spec in due] == [1, 2, 3]
    assert await fleet.delivered(node) == due, "the same bytes every time"
    assert [number for number, _ in await fleet.engine.reader.undelivered(node.node_id, 2)] == [1, 2]
    assert [number for number, _ in await fleet.engine.reader.undelivered(node.node_id, 2, 2)] == [3]
    await fleet.take(node)
    assert await fleet.delivered(node) == []


async def test_an_expired_envelope_is_replaced_by_its_successor(fleet) -> None:
    node = await fleet.node()
    await fleet.submit(node)
    (old,) = await fleet.delivered(node)
    fleet.clock.move(600_000)
    await fleet.execute(ExpireTasks())
    (new,) = await fleet.delivered(node)
    assert (new.task_id, new.attempt_uid) == (old.task_id, old.attempt_uid)
    assert new.sequence > old.sequence
    assert new.nonce != old.nonce


async def test_OP_17_a_cancel_is_delivered_as_a_signed_order_until_it_is_confirmed(fleet) -> None:
    node = await fleet.node()
    operation_id = await fleet.submit(node)
    (spec,) = await fleet.take(node)
    await fleet.execute(CancelOperation(actor=USER, project_id="train", operation_id=operation_id))
    (order,) = await fleet.delivered(node)
    assert isinstance(order, CancelSpec)
    assert (order.task_id, order.attempt_uid) == (spec.task_id, spec.attempt_uid)
    fleet.clock.move(600_000)
    await fleet.execute(ExpireTasks())
    (again,) = await fleet.delivered(node)
    assert again.sequence > order.sequence, "an order that passed its window is signed again"
    await fleet.report(node, task_report(spec, TaskStatus.CANCELED, error_code="canceled"))
    assert (await fleet.operation(operation_id)).status == "canceled"
    assert await fleet.delivered(node) == []


async def test_RT_03_a_retry_travels_with_the_results_that_stand(fleet) -> None:
    node = await fleet.node()
    operation_id = await fleet.submit(node)
    (first,) = await fleet.take(node)
    await fleet.run(node, first, fail_at=1)
    await fleet.execute(RetryOperation(actor=USER, project_id="train", operation_id=operation_id))
    (second,) = await fleet.take(node)
    assert (second.task_id, second.attempt_number) == (first.task_id, 2)
    assert second.attempt_uid != first.attempt_uid
    (reused,) = second.reused
    assert (reused.step_id, reused.outputs_json) == ("s0", b'{"n":1}')
    await fleet.run(node, second)
    operation = await fleet.operation(operation_id)
    assert operation.status == "succeeded"
    steps = [(step.attempt_number, step.step_id, step.status) for step in operation.tasks[0].steps]
    assert steps == [  # RT-02
        (1, "s0", "succeeded"),
        (1, "s1", "failed"),
        (2, "s0", "reused"),
        (2, "s1", "succeeded"),
    ]
    assert operation.tasks[0].steps[2].outputs == {"n": 1}


async def test_plan_mode_and_approvals_travel_in_the_envelope(fleet) -> None:
    node = await fleet.node()
    await fleet.submit(node, mode=TaskMode.PLAN)
    await fleet.submit(node, approved_plans={node.node_id: "digest"})
    plan, approved = await fleet.take(node)
    assert (plan.mode, approved.mode) == (TaskMode.PLAN, TaskMode.APPLY)
    assert approved.approved_plan_digest == "digest"


async def test_P5_a_restart_keeps_everything_and_sends_the_same_bytes(tmp_path) -> None:
    keys, clock = Keys(), FrozenClock()
    async with fleet_in(tmp_path, keys=keys, clock=clock) as fleet:
        await fleet.publish()
        node = await fleet.node()
        operation_id = await fleet.submit(node)
        before = await fleet.engine.reader.undelivered(node.node_id, 10)
        last = (await fleet.events())[-1].id
    async with fleet_in(tmp_path, keys=keys, clock=clock) as fleet:
        assert (await fleet.engine.reader.node(node.node_id)).connection == "lost"
        await fleet.connect(node, "s2")
        assert await fleet.engine.reader.undelivered(node.node_id, 10) == before
        (spec,) = await fleet.take(node)
        await fleet.run(node, spec)
        assert (await fleet.operation(operation_id)).status == "succeeded"
        assert min(event.id for event in await fleet.events() if event.type == "operation.completed") > last


async def test_P5_a_report_whose_acknowledgement_was_lost_in_a_restart_counts_once(tmp_path) -> None:
    keys = Keys()
    async with fleet_in(tmp_path, keys=keys) as fleet:
        await fleet.publish()
        node = await fleet.node()
        operation_id = await fleet.submit(node)
        (spec,) = await fleet.take(node)
        story = fleet.story(node, spec)
        await fleet.report(node, *story)
    async with fleet_in(tmp_path, keys=keys) as fleet:
        await fleet.connect(node, "s2")
        events = len(await fleet.events(operation_id))
        node.outbox = 0
        assert await fleet.report(node, *story) == len(story)
        assert len(await fleet.events(operation_id)) == events
        (chain,) = await fleet.engine.reader.receipts(node_id=node.node_id)
        assert len(chain.receipts) == 1


async def test_a_node_that_is_away_gets_its_tasks_at_its_hello(fleet) -> None:
    node = await fleet.enroll("gpu-7")
    await fleet.submit(node)
    assert await fleet.delivered(node) == []
    await fleet.connect(node)
    (spec,) = await fleet.delivered(node)
    assert spec.expires_at_ms == fleet.clock.now + 600_000


async def test_PK_07_revocation_calls_back_after_the_commit(fleet) -> None:
    node = await fleet.node()
    told: list[str] = []
    fleet.engine.wakes.revoked(told.append)
    await fleet.execute(RevokeNode(actor=ADMIN, node_id=node.node_id))
    assert told == [node.node_id]
    identity = await fleet.engine.reader.node_identity(node.node_id)
    assert identity.revoked
    assert await fleet.delivered(node) == []


async def test_PK_04_a_certificate_is_proved_by_its_first_session(fleet) -> None:
    node = await fleet.node()
    record = RecordCertificate(
        node_id=node.node_id, serial="a1", thumbprint="t", not_before_ms=1, not_after_ms=2, certificate_pem="pem"
    )
    await fleet.execute(record)
    reader = fleet.engine.reader
    assert await reader.certificate(node.node_id, "a1") == "issued"
    await fleet.connect(node, "s2", serial="a1")
    assert await reader.certificate(node.node_id, "a1") == "proved"
    assert await reader.certificate(node.node_id, "none") == ""


async def test_SE_02_each_mutation_and_each_refusal_is_one_line_of_the_audit(fleet) -> None:
    node = await fleet.node()
    before = (await fleet.engine.reader.audit(0, 1000))[-1].id
    await fleet.submit(node)
    await code_of(fleet.execute(submit(node, version="v9")))
    await fleet.execute(SetDefinitionState(actor=ADMIN, ref="demo.write@v1", state="deprecated"))
    await code_of(fleet.execute(SetDefinitionState(actor=ADMIN, ref="demo.write@v1", state="active")))
    lines = await fleet.engine.reader.audit(before, 1000)
    assert [(line.actor, line.action, line.result, line.error_code) for line in lines] == [
        ("ann", "operation.submit", "accepted", ""),
        ("ann", "operation.submit", "refused", "unknown_definition"),
        ("root", "definition.set_state", "accepted", ""),
        ("root", "definition.set_state", "refused", "definition_retired"),
    ]
    assert [line.scope for line in lines] == ["acme/train", "acme/train", "global", "global"]


async def test_OB_01_every_event_of_an_operation_carries_its_ids(fleet) -> None:
    node = await fleet.node()
    operation_id = await fleet.submit(node)
    (spec,) = await fleet.take(node)
    await fleet.run(node, spec, fail_at=0)
    for event in await fleet.events(operation_id):
        assert event.correlation_id == "cor_1"
        assert (event.operation_type, event.org_id, event.project_id) == ("demo.write", "acme", "train")
        assert event.resource_name
        assert isinstance(event.error_code, str)


async def test_lists_have_cursors_and_refuse_foreign_ones(fleet) -> None:
    nodes = [await fleet.node(f"gpu-{n}") for n in range(3)]
    made = [await fleet.submit(nodes[0]) for _ in range(3)]
    reader = fleet.engine.reader
    first = await reader.operations("train", "", 2)
    second = await reader.operations("train", first.next_cursor, 2)
    assert [row.operation_id for row in (*first.items, *second.items)] == sorted(made, reverse=True)
    assert second.next_cursor == ""
    assert (await reader.operations("other")).items == ()
    assert len((await reader.operations("train", status="queued")).items) == 3
    page = await reader.nodes("acme", "train", "", 2)
    rest = await reader.nodes(None, "train", page.next_cursor, 2)
    assert {node.name for node in (*page.items, *rest.items)} == {"gpu-0", "gpu-1", "gpu-2"}
    assert await code_of(reader.operations("train", "!!", 2)) == "invalid_cursor"
    assert await code_of(reader.operations("train", "", 0)) == "invalid_request"


async def test_log_lines_are_read_back_in_order_and_by_step(fleet) -> None:
    node = await fleet.node()
    operation_id = await fleet.submit(node)
    (spec,) = await fleet.take(node)
    lines = [
        LogLine(
            task_id=spec.task_id,
            attempt_uid=spec.attempt_uid,
            step_id=f"s{n % 2}",
            step_index=n % 2,
            stream="stdout",
            text=f"line {n}",
            at_ms=n,
        )
        for n in range(6)
    ]
    await fleet.report(node, *lines)
    reader = fleet.engine.reader
    found = await reader.log_lines(operation_id, 0, 4)
    assert [line.text for line in found] == ["line 0", "line 1", "line 2", "line 3"]
    assert [line.text for line in await reader.log_lines(operation_id, found[-1].id, 4)] == ["line 4", "line 5"]
    assert [line.text for line in await reader.log_lines(operation_id, 0, 9, "s1")] == ["line 1", "line 3", "line 5"]
    assert found[0].node_name == "gpu-1"


async def test_P2_a_dispatch_key_that_no_node_would_trust_stops_the_start(tmp_path) -> None:
    from hostler.control.engine import Engine

    keys = Keys()
    trust = keys.trust()
    opening = Engine.open(
        store_path=tmp_path / "c.db",
        trust=trust,
        dispatch_signer=new_ed25519(),
        clock=FrozenClock(),
    )
    assert await code_of(opening) == "untrusted_key"
    assert not (tmp_path / "c.db").exists()


async def test_P3_a_store_rule_that_is_broken_fails_one_command_and_not_the_engine(fleet, monkeypatch) -> None:
    node = await fleet.node()
    twice = submit(node, idempotency_key="same")
    await fleet.execute(twice)
    monkeypatch.setattr(type(fleet.engine._view), "operation_by_key", lambda *_: None)
    failure, good = await asyncio.gather(
        fleet.execute(twice), fleet.execute(submit(node, idempotency_key="another")), return_exceptions=True
    )
    assert isinstance(failure, HostlerError)
    assert failure.code == "internal_error"
    assert good.created
    assert fleet.engine.health == "ok"
    assert len((await fleet.engine.reader.operations("train")).items) == 2


async def test_DM_12_rows_hold_together_after_everything(fleet, tmp_path) -> None:
    """Foreign keys are not enforced on the hot path; here they are all checked."""
    nodes = [await fleet.node(f"gpu-{n}") for n in range(4)]
    for n in range(6):
        operation_id = await fleet.submit(*nodes, replicas=2)
        for node in nodes:
            for spec in await fleet.take(node):
                await fleet.run(node, spec, fail_at=n % 3)
        if n % 2 and n % 3 != 2:
            await fleet.execute(RetryOperation(actor=USER, project_id="train", operation_id=operation_id))
    db = sqlite3.connect(tmp_path / "control.db")
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


async def test_step_reports_of_a_running_task_show_in_its_operation(fleet) -> None:
    node = await fleet.node()
    operation_id = await fleet.submit(node)
    (spec,) = await fleet.take(node)
    await fleet.report(node, *fleet.story(node, spec)[:2])
    operation = await fleet.operation(operation_id)
    assert (operation.status, operation.tasks[0].status) == ("running", "running")
    assert operation.tasks[0].steps[0].status == StepStatus.RUNNING
    assert await fleet.engine.reader.operation_status("train", operation_id) == "running"
    assert await fleet.engine.reader.org_of_project("train") == "acme"
    assert isinstance(spec, TaskSpec)
    assert msgspec.json.encode(operation)
