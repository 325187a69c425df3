"""Enrolment, certificates, sessions, revocation: PK-02, PK-04, I5, P1, EV-11."""

import msgspec
import pytest

from hostler.base.digest import sha256_hex
from hostler.control.kernel.commands import (
    ControlStarted,
    CreatePrincipal,
    FoldReports,
    NodeGone,
    NodeHello,
    RecordCertificate,
    RevokeNode,
    RevokePrincipal,
    TasksAccepted,
)
from hostler.control.kernel.orders import TaskOrder
from hostler.control.kernel.rows import CertificateRow, CursorRow, NodeRow, PrincipalRow
from hostler.wire.node import Hello
from hostler.wire.report import Report, TaskReport, TaskStatus
from support.control import ADMIN, enrolment, submit, token
from support.memory_view import Bench


def enrolled(bench: Bench, name: str = "gpu-9", key: bytes = b"key one"):
    bench.run(token("t1", name, labels={"pool": "gpu"}))
    return bench.run(enrolment("t1", key))


def hello(node_id: str, *, session: str = "s1", serial: str = "", **more) -> NodeHello:
    said = Hello(agent_version="2.0", **more)
    return NodeHello(node_id=node_id, session_id=session, hello=said, serial=serial)


def last(bench: Bench):
    return bench.events[-1]


def test_PK_02_a_token_enrols_one_key_once() -> None:
    bench = Bench()
    made = enrolled(bench)
    row = bench.view.get(NodeRow, made.node_id)
    assert (made.name, made.org_id, made.project_id) == ("gpu-9", "acme", "train")
    assert (row.thumbprint, row.connection) == (sha256_hex(b"key one"), "never")
    assert (last(bench).type, last(bench).action) == ("node.enrolled", "node.enroll")


def test_PK_02_the_same_host_trying_again_gets_the_same_identity() -> None:
    bench = Bench()
    made = enrolled(bench)
    assert bench.run(enrolment("t1", b"key one")) == made
    assert len(bench.view.rows[NodeRow]) == 1


def test_I5_a_second_key_loses_and_the_loss_is_an_alarm() -> None:
    bench = Bench()
    made = enrolled(bench)
    refusal = bench.refusal(enrolment("t1", b"key two"))
    assert refusal.code == "enrolment_token_used"
    event = last(bench)
    assert (event.type, event.node_id, event.result) == ("node.enrolment_token_reused", made.node_id, "refused")
    assert event.actor == "127.0.0.1", "whence it came"
    assert bench.view.get(NodeRow, made.node_id).thumbprint == sha256_hex(b"key one")


def test_PK_02_an_unknown_a_wrong_and_an_expired_token_enrol_nobody() -> None:
    bench = Bench()
    bench.run(token("t1", "gpu-9"))
    wrong = msgspec.structs.replace(enrolment("t1", b"k"), token_sha256="hash of another")
    for command in (enrolment("t9", b"k"), wrong):
        assert bench.refusal(command).code == "enrolment_token_invalid"
    bench.now += 3_600_000
    assert bench.refusal(enrolment("t1", b"k")).code == "enrolment_token_invalid"
    assert bench.view.rows[NodeRow] == {}


def test_two_tokens_for_one_name_make_one_node() -> None:
    bench = Bench()
    bench.run(token("t1", "gpu-9"))
    bench.run(token("t2", "gpu-9"))
    bench.run(enrolment("t1", b"one"))
    assert bench.refusal(enrolment("t2", b"two")).code == "node_exists"
    assert bench.refusal(token("t3", "gpu-9")).code == "node_exists"


def test_a_revoked_nodes_name_is_free_again_and_its_token_is_not() -> None:
    bench = Bench()
    made = enrolled(bench)
    bench.run(RevokeNode(actor=ADMIN, node_id=made.node_id))
    assert bench.refusal(enrolment("t1", b"key one")).code == "revoked"
    bench.run(token("t2", "gpu-9"))
    assert bench.run(enrolment("t2", b"key two")).node_id != made.node_id


def test_labels_of_the_token_win_over_what_the_host_says() -> None:
    bench = Bench()
    bench.run(token("t1", "gpu-9", labels={"pool": "gpu"}))
    command = msgspec.structs.replace(enrolment("t1", b"k"), labels={"pool": "mine", "rack": "7"})
    made = bench.run(command)
    assert msgspec.json.decode(bench.view.get(NodeRow, made.node_id).labels) == {"pool": "gpu", "rack": "7"}


@pytest.mark.parametrize(
    "changes", [{"org": ""}, {"project": ""}, {"expires_at_ms": 1}], ids=["no tenant", "no project", "expired"]
)
def test_a_token_that_could_enrol_nobody_is_not_made(changes) -> None:
    assert Bench().refusal(token("t1", "gpu-9", **changes)).code == "invalid_request"


def test_a_token_for_a_name_that_is_none_is_not_made() -> None:
    for name in ("", "UP", "a b", "../x", "ä"):
        assert Bench().refusal(token("t1", name)).code == "invalid_request"


def certificate(node_id: str, serial: str) -> RecordCertificate:
    return RecordCertificate(node_id=node_id, serial=serial, thumbprint="f", not_before_ms=1, not_after_ms=2)


def test_PK_04_old_and_new_stand_together_until_the_new_one_is_used() -> None:
    bench = Bench()
    node = bench.node()
    states = lambda: [bench.view.get(CertificateRow, (node.node_id, s)).state for s in ("a", "b")]  # noqa: E731
    bench.run(certificate(node.node_id, "a"))
    bench.run(hello(node.node_id, serial="a"))
    bench.now += 1000
    bench.run(certificate(node.node_id, "b"))
    assert states() == ["proved", "issued"]
    bench.run(hello(node.node_id, serial="a"))
    assert states() == ["proved", "issued"], "the crash window: the node did not store the new one"
    bench.run(hello(node.node_id, serial="b"))
    assert states() == ["superseded", "proved"]


def test_PK_07_a_revoked_node_loses_certificates_sessions_and_tasks() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(certificate(node.node_id, "a"))
    operation_id = bench.run(submit(node)).operation_id
    decision = bench.decide(RevokeNode(actor=ADMIN, node_id=node.name))
    assert decision.revoked == [node.node_id]
    assert bench.view.get(CertificateRow, (node.node_id, "a")).state == "revoked"
    assert bench.operation(operation_id).error_code == "revoked"
    assert bench.refusal(hello(node.node_id)).code == "revoked"
    assert bench.refusal(certificate(node.node_id, "b")).code == "revoked"
    assert bench.decide(RevokeNode(actor=ADMIN, node_id=node.node_id)).events == [], "once is enough"


def test_EV_11_hello_and_loss_are_events_and_an_older_session_ends_nothing() -> None:
    bench = Bench()
    node = bench.node(connected=False)
    bench.run(hello(node.node_id, session="s2", capabilities={"gpu": "h200"}))
    row = bench.view.get(NodeRow, node.node_id)
    assert (row.connection, row.session_id, row.agent_version) == ("connected", "s2", "2.0")
    assert row.capabilities == '{"gpu":"h200"}'
    bench.run(NodeGone(node_id=node.node_id, session_id="s1"))
    assert bench.view.get(NodeRow, node.node_id).connection == "connected"
    bench.run(NodeGone(node_id=node.node_id, session_id="s2"))
    assert bench.view.get(NodeRow, node.node_id).connection == "lost"
    assert [event.type for event in bench.events] == ["node.connected", "node.lost"]


def test_no_session_outlives_the_control_plane() -> None:
    bench = Bench()
    nodes = [bench.node(), bench.node(connected=False)]
    bench.run(ControlStarted())
    assert [bench.view.get(NodeRow, node.node_id).connection for node in nodes] == ["lost", "lost"]


def test_tasks_for_a_node_that_is_away_are_signed_at_its_hello() -> None:
    """OD-30: the window of an envelope begins when somebody can take it."""
    bench = Bench()
    node = bench.node(connected=False)
    bench.run(submit(node, replicas=2))
    assert bench.orders == []
    bench.now += 3_600_000
    decision = bench.decide(hello(node.node_id))
    assert [order.sequence for order in decision.orders] == [1, 2]
    assert all(order.expires_at_ms == bench.now + 600_000 for order in decision.orders)
    assert decision.wake == {node.node_id}


def test_P5_an_envelope_that_was_sent_before_the_link_broke_is_not_signed_again() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(submit(node))
    bench.run(hello(node.node_id, session="s2", high_sequence=0))
    assert len(bench.orders) == 1, "the stored bytes are sent again"
    bench.now += 600_000
    bench.run(hello(node.node_id, session="s3", high_sequence=1))
    assert len(bench.orders) == 1, "the node has it, only the acknowledgement was lost"
    assert bench.view.get(CursorRow, node.node_id).accepted_sequence == 1


def test_an_envelope_that_expired_on_the_way_is_signed_again_at_the_hello() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(submit(node))
    bench.now += 600_000
    bench.run(hello(node.node_id, session="s2", high_sequence=0))
    assert [type(order) for order in bench.orders] == [TaskOrder, TaskOrder]


def test_P1_a_node_ahead_of_us_is_an_alarm_and_no_mark_of_ours_moves_past_our_own() -> None:
    bench = Bench()
    node = bench.node()
    bench.run(hello(node.node_id, high_sequence=7))
    alarms = [event for event in bench.events if event.type == "node.sequence_ahead"]
    assert [event.error_code for event in alarms] == ["controller_rollback"]
    assert bench.view.get(CursorRow, node.node_id).accepted_sequence == 0


def test_K4_a_lost_journal_restarts_the_counters_and_ends_what_the_node_held() -> None:
    bench = Bench()
    node = bench.node()
    operation_id = bench.run(submit(node)).operation_id
    (task,) = bench.tasks(operation_id)
    bench.run(TasksAccepted(node_id=node.node_id, task_ids=(task.task_id,)))
    running = TaskReport(task_id=task.task_id, attempt_uid=task.attempt_uid, status=TaskStatus.RUNNING)
    bench.run(FoldReports(node_id=node.node_id, reports=(Report(40, running),)))
    bench.run(hello(node.node_id, session="s2", high_sequence=0))
    assert bench.operation(operation_id).error_code == "interrupted_apply"
    assert any(event.type == "node.journal_lost" for event in bench.events)
    cursor = bench.view.get(CursorRow, node.node_id)
    assert (cursor.sequence, cursor.accepted_sequence, cursor.outbox_seq, cursor.chain_index) == (1, 0, 0, -1)
    again = bench.run(submit(node)).operation_id
    (task,) = bench.tasks(again)
    end = TaskReport(task_id=task.task_id, attempt_uid=task.attempt_uid, status=TaskStatus.SUCCEEDED)
    assert bench.run(FoldReports(node_id=node.node_id, reports=(Report(1, end),))) == 1
    assert bench.operation(again).status == "succeeded", "row 1 of the new journal is not an old one"


def principal(**changes) -> CreatePrincipal:
    values = {
        "actor": ADMIN,
        "name": "ann",
        "token_sha256": "h",
        "role": "project_admin",
        "org_id": "acme",
        "project_id": "train",
        "expires_at_ms": 2_000_000_000_000,
    }
    return CreatePrincipal(**(values | changes))


def test_principals_are_made_once_and_may_come_back_after_revocation() -> None:
    bench = Bench()
    bench.run(principal())
    assert bench.refusal(principal()).code == "principal_exists"
    bench.run(RevokePrincipal(actor=ADMIN, name="ann"))
    assert bench.view.get(PrincipalRow, "ann").state == "revoked"
    bench.run(principal(token_sha256="h2"))
    assert bench.view.get(PrincipalRow, "ann").token_sha256 == "h2"
    assert bench.refusal(RevokePrincipal(actor=ADMIN, name="bob")).code == "not_found"


@pytest.mark.parametrize(
    "changes",
    [
        {"role": "emperor"},
        {"role": "platform_admin"},
        {"role": "tenant_admin"},
        {"org_id": ""},
        {"project_id": ""},
        {"name": "Ann!"},
    ],
)
def test_a_role_has_the_scope_it_is_about(changes) -> None:
    assert Bench().refusal(principal(**changes)).code == "invalid_request"
