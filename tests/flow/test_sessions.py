"""Node sessions over real mutual TLS: who gets in, what is delivered, when it ends."""

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc.aio
import msgspec
import pytest

from hostler.base.clock import SystemClock
from hostler.control.keys import load_keys
from hostler.pki.authority import Authority, make_ca
from hostler.pki.keys import new_p256
from hostler.pki.x509 import make_csr, read_identity
from hostler.v1 import node_pb2, node_pb2_grpc
from hostler.wire.codec_node import agent_message, control_value, encode_envelope
from hostler.wire.node import (
    CatalogUpdate,
    Close,
    Heartbeat,
    KeysetUpdate,
    Progress,
    ReportAck,
    Reports,
    TaskAccepted,
    Tasks,
    Welcome,
)
from hostler.wire.report import StepProgress
from support.builders import definition
from support.fake_node import FakeNode
from support.plane import Plane, operations, plane, prepare, until


def code_of(err: grpc.aio.AioRpcError) -> str:
    """The error_code in the trailing metadata."""
    return str(dict(err.trailing_metadata() or ()).get("hostler-error-code", ""))


async def refused(node: FakeNode) -> grpc.aio.AioRpcError:
    """What a session of this node is refused with. A refusal that meets the hello on its way up may be lost to a reset
    of the stream, and an agent asks again."""
    for _ in range(5):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            async with node.session():
                raise AssertionError("the session was opened")
        if raised.value.code() is not grpc.StatusCode.INTERNAL:
            break
    return raised.value


def authority(control: Plane) -> Authority:
    keys = load_keys(control.config)
    return Authority(keys.ca, keys.ca_pem, keys.trust.keyset.trust_domain)


async def test_I1_PK_07_revoking_a_node_ends_its_open_stream_at_once_and_lets_it_in_no_more(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        async with node.session() as session:
            await control.call("POST", f"/api/v1/admin/nodes/{node.node_id}/revoke")
            async with asyncio.timeout(5):
                assert (await session.next(Close)).error_code == "revoked"
                assert await session.hear() is None
        err = await refused(node)
        assert (code_of(err), err.code()) == ("revoked", grpc.StatusCode.PERMISSION_DENIED)


async def test_PK_07_every_unary_call_is_checked_as_well(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        async with node.channel() as channel:
            stub = node_pb2_grpc.NodeServiceStub(channel)
            request = node_pb2.RenewRequest(csr_der=make_csr(node.signer, "node"))
            await stub.Renew(request)
            asked = SystemClock().now_ms()
            before = control.rows("SELECT count(*) FROM events")
            assert (await stub.Check(node_pb2.CheckRequest())).server_time_ms >= asked
            assert control.rows("SELECT count(*) FROM events") == before, "a check has changed something"
            await control.call("POST", f"/api/v1/admin/nodes/{node.node_id}/revoke")
            for call in (stub.Renew(request), stub.Check(node_pb2.CheckRequest())):
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await call
                assert code_of(raised.value) == "revoked"


async def test_PK_10_a_certificate_for_another_key_of_the_node_is_refused(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        node.signer = new_p256()
        now_ms = SystemClock().now_ms()
        node.certificate = authority(control).issue_node(node.node_id, node.signer.public, now_ms)
        err = await refused(node)
        assert code_of(err) == "certificate_invalid"
        assert "another key" in (err.details() or "")


async def test_a_certificate_that_was_never_recorded_is_refused(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        node.certificate = authority(control).issue_node(node.node_id, node.signer.public, SystemClock().now_ms())
        err = await refused(node)
        assert code_of(err) == "certificate_invalid"
        assert "not issued here" in (err.details() or "")


async def test_a_node_nobody_enrolled_and_a_control_certificate_are_refused(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        now_ms = SystemClock().now_ms()
        node.certificate = authority(control).issue_node("nod_unknown", node.signer.public, now_ms)
        assert code_of(await refused(node)) == "controller_rollback", "our CA knew it once"


async def test_a_control_planes_certificate_is_no_nodes_and_the_reverse(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        now_ms = SystemClock().now_ms()
        node.certificate = authority(control).issue_control("main", node.signer.public, ("127.0.0.1",), now_ms)
        assert await shut_out(node)


async def shut_out(node: FakeNode) -> bool:
    """Whether TLS itself keeps this node out."""
    async with node.channel() as channel:
        call = node_pb2_grpc.NodeServiceStub(channel).Renew(node_pb2.RenewRequest(), timeout=3)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call
    return raised.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


async def test_a_stranger_does_not_get_through_the_handshake(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        now_ms, ca = SystemClock().now_ms(), new_p256()
        foreign = Authority(ca, make_ca(ca, node.trust_domain, now_ms), node.trust_domain)
        node.certificate = foreign.issue_node(node.node_id, node.signer.public, now_ms)
        assert await shut_out(node)


async def test_P5_what_was_not_accepted_is_delivered_again_with_the_same_bytes_over_a_restart(tmp_path: Path) -> None:
    config = prepare(tmp_path)
    async with plane(tmp_path, config) as control:
        await control.publish()
        node = await control.enroll()
        async with node.session() as session:
            await control.submit(node)
            first = [encode_envelope(each) for each in await session.envelopes()]
        async with node.session() as session:
            second = [encode_envelope(each) for each in await session.envelopes()]
    async with plane(tmp_path, config):
        async with node.session() as session:
            third = [encode_envelope(each) for each in await session.envelopes()]
            (spec,) = await take_again(node)
            assert spec.node_id == node.node_id
        async with node.session() as session:
            with pytest.raises(TimeoutError):
                await session.next(Tasks, timeout_s=0.3)
    assert len(first) == 1
    assert first == second == third


async def take_again(node: FakeNode):
    async with node.session() as session:
        specs = await session.take()
        # an answer to a later message says that the earlier one was handled
        await session.report(node.finished(specs[0]))
        return specs


async def test_the_newest_session_of_a_node_wins(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        async with node.session() as older, node.session() as newer:
            assert "newer session" in (await older.next(Close)).message
            assert await older.hear() is None
            await newer.say(Heartbeat())
            (row,) = control.rows("SELECT connection, session_id FROM nodes")
            assert row == ("connected", newer.welcome.session_id)


async def test_a_session_begins_with_a_hello_or_not_at_all(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        async with node.channel() as channel:
            call = node_pb2_grpc.NodeServiceStub(channel).Session(wait_for_ready=True)
            await call.write(agent_message(Heartbeat()))
            closed = control_value(await call.read())
        assert isinstance(closed, Close)
        assert closed.error_code == "invalid_request"


async def test_K2_rows_sent_twice_are_acknowledged_and_folded_once(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish()
        node = await control.enroll()
        async with node.session() as session:
            operation_id = await control.submit(node)
            (spec,) = await session.take()
            rows = node.finished(spec)
            assert await session.report(rows) == await_last(rows)
        async with node.session() as session:
            assert await session.report(rows) == await_last(rows)
        assert control.rows("SELECT count(*) FROM receipts") == [(1,)]
        assert (await control.operation(operation_id))["status"] == "succeeded"


def await_last(rows) -> int:
    return rows[-1].outbox_seq


async def test_I7_a_node_cannot_speak_for_another_nodes_task(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish()
        honest, hostile = await control.enroll("honest"), await control.enroll("hostile")
        async with honest.session() as victim, hostile.session() as session:
            operation_id = await control.submit(honest)
            (spec,) = await victim.take()
            step = {"task_id": spec.task_id, "attempt_uid": spec.attempt_uid, "step_id": "write", "step_index": 0}
            await session.say(Progress((StepProgress(**step, done_units=99, note="forged"),)))
            await session.say(TaskAccepted((spec.task_id,)))
            await session.report(hostile.finished(spec))
            assert (await control.operation(operation_id))["tasks_succeeded"] == 0
            await victim.say(Progress((StepProgress(**step, done_units=7, note="true"),)))
            shown = await _next_progress(control, operation_id)
            assert (shown["note"], shown["done_units"]) == ("true", 7)
            assert (shown["operation_id"], shown["total_steps"]) == (operation_id, len(spec.steps))
            assert (shown["current_step_name"], shown["step_status"]) == ("write", "running"), "as EV-02 names them"


async def _next_progress(control: Plane, operation_id: str) -> Any:
    """The first progress of a running step that a follower is shown."""
    async with asyncio.timeout(10), control.http.stream("GET", f"{operations()}/{operation_id}/events") as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data:") and "done_units" in (data := json.loads(line[5:])):
                return data
    raise AssertionError("the stream ended without progress")


async def test_a_catalog_is_pushed_on_hello_and_when_a_new_one_is_published(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish()
        node = await control.enroll()
        async with node.session(catalog_version=0) as session:
            update: CatalogUpdate = await session.next(CatalogUpdate)
            assert json.loads(update.documents[0])["type"] == "demo.write"
            await control.publish(definition(), definition(type_="demo.more"), version=2)
            update = await session.next(CatalogUpdate)
            assert {json.loads(each)["type"] for each in update.documents} == {"demo.write", "demo.more"}
        async with node.session(catalog_version=2) as session:
            with pytest.raises(TimeoutError):
                await session.next(CatalogUpdate, timeout_s=0.2)


async def test_PK_08_a_node_with_an_older_keyset_is_given_the_present_one(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        async with node.session(keyset_version=0) as session:
            update: KeysetUpdate = await session.next(KeysetUpdate)
        assert update.keyset == (tmp_path / "pki/control/keyset.json").read_bytes()


async def test_OP_15_the_same_works_by_long_poll(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish()
        node = await control.enroll()
        async with node.channel() as channel:
            stub = node_pb2_grpc.NodeServiceStub(channel)

            async def exchange(session_id: str, *values, wait: int = 0):
                messages = [agent_message(value) for value in values]
                request = node_pb2.ExchangeRequest(session_id=session_id, messages=messages, wait_seconds=wait)
                answer = await stub.Exchange(request)
                return answer.session_id, [control_value(each) for each in answer.messages]

            session_id, (welcome,) = await exchange("", node.hello())
            assert isinstance(welcome, Welcome)
            assert welcome.session_id == session_id
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(exchange(session_id, wait=20))
                operation_id = await control.submit(node)
            (tasks,) = waiting.result()[1]
            spec = decoded(tasks)
            rows = node.finished(spec)
            _, answers = await exchange(session_id, TaskAccepted((spec.task_id,)), Reports(tuple(rows)))
            assert answers == [ReportAck(rows[-1].outbox_seq)]
            assert (await control.operation(operation_id))["status"] == "succeeded"
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await exchange("ses_of_yesterday")
            assert code_of(raised.value) == "not_found"
            await control.call("POST", f"/api/v1/admin/nodes/{node.node_id}/revoke")
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await exchange(session_id, Heartbeat())
            assert code_of(raised.value) == "revoked"


async def test_I7_a_node_cannot_poll_another_nodes_session(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await control.publish()
        victim, hostile = await control.enroll("victim"), await control.enroll("hostile")
        async with victim.channel() as channel, hostile.channel() as other:
            stub, thief = node_pb2_grpc.NodeServiceStub(channel), node_pb2_grpc.NodeServiceStub(other)
            first = node_pb2.ExchangeRequest(messages=[agent_message(victim.hello())])
            session_id = (await stub.Exchange(first)).session_id
            await control.submit(victim)
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await thief.Exchange(node_pb2.ExchangeRequest(session_id=session_id))
            assert code_of(raised.value) == "not_found"
            answer = await stub.Exchange(node_pb2.ExchangeRequest(session_id=session_id))
            assert isinstance(control_value(answer.messages[0]), Tasks)


def decoded(tasks: Tasks):
    from hostler.wire.codec_task import decode_task

    return decode_task(tasks.envelopes[0].payload)


async def test_PK_03_04_a_renewal_keeps_the_key_and_the_old_certificate_until_the_new_one_is_used(
    tmp_path: Path,
) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        old = node.certificate
        async with node.channel() as channel:
            stub = node_pb2_grpc.NodeServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await stub.Renew(node_pb2.RenewRequest(csr_der=make_csr(new_p256(), "node")))
            assert code_of(raised.value) == "certificate_invalid"
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await stub.Renew(node_pb2.RenewRequest(csr_der=b"no request"))
            assert code_of(raised.value) == "invalid_request"
            new = (await stub.Renew(node_pb2.RenewRequest(csr_der=make_csr(node.signer, "node")))).certificate_pem
        assert read_identity(new).serial != read_identity(old).serial
        assert read_identity(new).thumbprint == read_identity(old).thumbprint
        for certificate in (old, new):
            node.certificate = certificate
            async with node.session():
                pass
        node.certificate = old
        err = await refused(node)
        assert code_of(err) == "certificate_invalid"
        assert "newer" in (err.details() or "")


async def test_a_node_is_seen_to_have_gone_when_its_stream_breaks(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await control.enroll()
        async with node.session():
            pass

        async def gone() -> bool:
            return control.rows("SELECT connection FROM nodes") == [("lost",)]

        assert await until(gone)


async def test_OP_14_the_node_service_offers_the_session_its_twin_and_the_few_calls_of_a_running_task() -> None:
    """And nothing else."""
    methods = {method.name for method in node_pb2.DESCRIPTOR.services_by_name["NodeService"].methods}
    assert methods == {"Session", "Exchange", "Renew", "Check", "Mint", "TaskCall", "FetchBundle", "Relay"}
    assert msgspec.json.encode(sorted(methods))
