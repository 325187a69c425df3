"""`TaskCall` from a node's certificate to the store and back: whose attempt, whose scope, how often (API-27, BK-05)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest

from hostler.agent.containers.workload import TaskFacts
from hostler.agent.taskapi.calls import TaskCalls
from hostler.base.errors import HostlerError
from hostler.catalog.job import JobSpec
from hostler.control.rpc import task_calls
from hostler.pki.tls import channel_credentials, channel_options
from hostler.v1 import node_pb2, node_pb2_grpc
from hostler.wire.node import Reports
from hostler.wire.report import TaskReport, TaskStatus
from hostler.wire.task_calls import BODIES
from support.fake_node import FakeNode, Session
from support.plane import ORG, PROJECT, Plane, operations, plane
from support.tasking import CAPABILITIES, JOBS, calls_of, facts_of, submit_job

PORTS = {"actor": 30001}


class Party:
    """A node with an open session, and what its tasks ask."""

    def __init__(self, control: Plane, node: FakeNode, session: Session, calls: TaskCalls) -> None:
        self.control, self.node, self.session, self.calls = control, node, session, calls

    async def job(self, name: str, user: str = "ann", org: str = ORG, project: str = PROJECT, **spec: Any) -> TaskFacts:
        """A root job of one task, delivered to the node."""
        whole = JobSpec(name=name, command=("true",), **spec)
        await submit_job(self.control, self.node, whole, user, org=org, project=project)
        return await self.taken()

    async def taken(self) -> TaskFacts:
        (spec,) = await self.session.take()
        return facts_of(spec, self.node.node_id, PORTS)

    async def ask(self, facts: TaskFacts, method: str, **body: Any) -> Any:
        status, answer = await self.calls(facts, method, body)
        assert status == 200, answer
        return msgspec.json.decode(answer)

    async def refused(self, facts: TaskFacts, method: str, **body: Any) -> str:
        status, answer = await self.calls(facts, method, body)
        assert status >= 400, answer
        problem = msgspec.json.decode(answer)
        assert problem["status"] == status
        return str(problem["error_code"])

    async def registers(self, facts: TaskFacts, name: str = "actor", endpoint_id: str = "e1", **more: Any) -> Any:
        said = {"address": "10.0.0.7:30001", "node_address": "10.0.0.7", "ports": (30001,), **more}
        return await self.ask(facts, "endpoints.register", endpoint_id=endpoint_id, name=name, **said)

    async def names(self, facts: TaskFacts, **asked: str) -> list[str]:
        return [each["name"] for each in (await self.ask(facts, "endpoints.list", **asked))["items"]]

    async def ends(self, facts: TaskFacts) -> None:
        said = TaskReport(
            task_id=facts.task_id, attempt_uid=facts.attempt_uid, status=TaskStatus.FAILED, error_code="exit_status",
            at_ms=1,
        )  # fmt: skip
        await self.session.report(self.node.reports(said))


@asynccontextmanager
async def party(control: Plane, name: str, **more: Any) -> AsyncIterator[Party]:
    node = await control.enroll(name, **more)
    async with node.session(capabilities=CAPABILITIES) as session, calls_of(node) as calls:
        yield Party(control, node, session, calls)


@asynccontextmanager
async def house(tmp_path: Path) -> AsyncIterator[Party]:
    async with plane(tmp_path) as control:
        await control.publish(JOBS)
        async with party(control, "gpu-1") as made:
            yield made


async def test_TE_10_TE_17_what_one_task_registers_another_resolves_exactly_and_across_namespaces(tmp_path) -> None:
    async with house(tmp_path) as here:
        one, two = await here.job("one"), await here.job("two")
        lease = await here.registers(one, lease_ms=60_000)
        assert (lease["namespace"], lease["lease_ms"]) == ("/ann/one", 180_000)
        assert await here.names(one) == ["actor"]
        assert await here.names(one, name="act") == []
        assert await here.names(two) == []
        for asked in ({"job": "/ann/one"}, {"job": one.job_id}, {"namespace": "/ann/one"}, {"job": "/ann/one/child"}):
            assert await here.names(two, name="actor", **asked) == ["actor"]
        assert await here.refused(two, "endpoints.list", job="op_nobody") == "not_found"
        assert (await here.ask(one, "endpoints.unregister", endpoint_id="e1")) == {"removed": True}
        assert await here.names(one) == []


async def test_TE_11_an_endpoint_vanishes_with_its_attempt_before_anything_is_swept(tmp_path) -> None:
    async with house(tmp_path) as here:
        one, two = await here.job("one"), await here.job("two")
        await here.registers(one)
        await here.ends(one)
        assert await here.names(two, job="/ann/one") == []
        assert await here.refused(one, "endpoints.list") == "stale_attempt"
        shown = await here.control.call("GET", "/api/v1/projects/train/endpoints")
        assert shown["items"] == []
        assert here.control.rows("SELECT state FROM endpoints") == [("registered",)]


async def test_S2_tasks_of_another_project_see_nothing_of_each_other(tmp_path) -> None:
    async with house(tmp_path) as here, party(here.control, "gpu-2", org="rival", project="lab") as there:
        one, other = await here.job("one"), await there.job("one", user="eve", org="rival", project="lab")
        await here.registers(one)
        assert await there.names(other) == []  # the same path, another project
        assert await there.names(other, namespace="/ann/one") == []
        assert await there.refused(other, "endpoints.list", job=one.job_id) == "not_found"
        for method in ("jobs.show", "jobs.wait", "jobs.cancel"):
            assert await there.refused(other, method, job_id=one.job_id) == "not_found"
        keys, foreign = await here.ask(one, "keys"), await there.ask(other, "keys")
        assert not set(keys.values()) & set(foreign.values()) - {"/ann/one"}


async def test_a_node_speaks_for_no_task_but_those_that_run_there(tmp_path) -> None:
    async with house(tmp_path) as here, party(here.control, "gpu-2") as there:
        one = await here.job("one")
        for method in BODIES:
            body: dict[str, Any] = {"endpoints.list": {}}.get(method, {"job_id": "x"} if "jobs" in method else {})
            assert await there.refused(one, method, **body) == "stale_attempt", method
        stale = msgspec.structs.replace(one, attempt_uid="att_former")
        assert await here.refused(stale, "keys") == "stale_attempt"
        assert await here.refused(msgspec.structs.replace(one, task_id="tsk_nobody"), "keys") == "stale_attempt"


async def test_a_task_that_is_no_job_s_has_no_calls(tmp_path) -> None:
    from support.builders import definition

    async with house(tmp_path) as here:
        await here.control.publish(JOBS, definition(inputs=JOBS.inputs), version=2)
        inputs = {"job": "/ann/one", "parent": "", "namespace": "/ann/one", "ports": [], "command": ["true"]}
        await here.control.submit(here.node, inputs=inputs)
        assert await here.refused(await here.taken(), "keys") == "stale_attempt"


async def test_TE_08_TE_16_a_child_has_its_parent_s_path_namespace_and_image(tmp_path) -> None:
    image = "r.example.com/a@sha256:" + "0" * 64
    async with house(tmp_path) as here:
        one = await here.job("one", image=image, setup=("true",))
        spec = {"name": "child", "command": ["env"]}
        made = await here.ask(one, "jobs.submit", spec=spec, key="k")
        assert (made["job"], made["parent"]) == ("/ann/one/child", "/ann/one")
        child = await here.taken()
        assert (child.parent, child.namespace) == ("/ann/one", "/ann/one")
        shown = await here.control.call("GET", f"{operations()}/{made['job_id']}")
        assert (shown["inputs"]["image"], shown["inputs"]["setup"]) == (image, ["true"])
        parent = await here.control.call("GET", f"{operations()}/{one.job_id}")
        assert shown["requested_by_user_id"] == parent["requested_by_user_id"]
        again = await here.ask(one, "jobs.submit", spec=spec, key="k")
        assert again["job_id"] == made["job_id"]
        await here.registers(child)
        assert await here.names(one) == ["actor"]  # TE-16: by its bare name
        assert await here.ask(one, "jobs.show", job_id=made["job_id"]) == again
        asker = here.control.rows("SELECT actor_kind, scope FROM events WHERE action = 'job.submit'")
        assert asker[-1] == ("task", "acme/train")


async def test_a_child_s_request_is_as_strict_as_anybody_s(tmp_path) -> None:
    async with house(tmp_path) as here:
        one = await here.job("one")
        assert await here.refused(one, "jobs.submit", spec={"name": "x"}, key="k") == "invalid_request"
        wrong = {"name": "x", "command": ["true"], "namespace": "/bob/other"}
        assert await here.refused(one, "jobs.submit", spec=wrong, key="k") == "unknown_field"
        assert await here.refused(one, "jobs.submit", spec={"name": "../x", "command": ["a"]}, key="k")


async def test_a_task_cancels_below_itself_and_sees_its_own_tree(tmp_path) -> None:
    async with house(tmp_path) as here:
        one, two = await here.job("one"), await here.job("one-more")
        made = await here.ask(one, "jobs.submit", spec={"name": "child", "command": ["a"]}, key="k")
        child = await here.taken()
        assert (await here.ask(child, "jobs.show", job_id=one.job_id))["job"] == "/ann/one"
        assert await here.refused(child, "jobs.cancel", job_id=one.job_id) == "not_found"  # above it
        above = await here.control.call("GET", f"{operations()}/{one.job_id}")
        assert above["cancel_requested_ms"] == 0
        assert await here.refused(one, "jobs.show", job_id=two.job_id) == "not_found"
        for method in ("jobs.show", "jobs.wait", "jobs.cancel"):
            assert await here.refused(two, method, job_id=one.job_id) == "not_found"  # /ann/one-more is not below
        await here.ask(one, "jobs.cancel", job_id=made["job_id"])
        shown = await here.control.call("GET", f"{operations()}/{made['job_id']}")
        assert shown["cancel_requested_ms"] > 0
        assert (await here.ask(one, "jobs.cancel", job_id=made["job_id"]))["job_id"] == made["job_id"]
        await here.ask(one, "jobs.cancel", job_id=one.job_id)
        late = {"name": "late", "command": ["a"]}
        assert await here.refused(one, "jobs.submit", spec=late, key="l") == "operation_final"


async def test_waiting_ends_with_the_job_or_with_the_time(tmp_path) -> None:
    async with house(tmp_path) as here:
        one = await here.job("one")
        made = await here.ask(one, "jobs.submit", spec={"name": "child", "command": ["a"]}, key="k")
        child = await here.taken()
        soon = await here.ask(one, "jobs.wait", job_id=made["job_id"], wait_s=0.2)
        assert soon["status"] in ("queued", "running")
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(here.ask(one, "jobs.wait", job_id=made["job_id"], wait_s=20))
            await asyncio.sleep(0.1)
            async with asyncio.timeout(5):
                await here.ends(child)
                assert (await waiting)["status"] == "failed"


async def test_OD_32_keys_are_of_a_project_and_of_a_namespace_and_stay(tmp_path) -> None:
    async with house(tmp_path) as here:
        one, two = await here.job("one"), await here.job("two")
        a, b = await here.ask(one, "keys"), await here.ask(two, "keys")
        assert a["project_key"] == b["project_key"]
        assert a["namespace_key"] != b["namespace_key"]
        assert len({a["project_key"], a["namespace_key"], b["namespace_key"]}) == 3
        assert await here.ask(one, "keys") == a
        key = here.control.home / "pki/control/namespace.key"
        assert key.stat().st_mode & 0o777 == 0o600
        assert a["namespace_key"] not in str(here.control.rows("SELECT * FROM events"))


async def test_calls_of_an_attempt_are_paced_and_others_are_not_held_up(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(task_calls, "BURST", 5.0)
    monkeypatch.setattr(task_calls, "RATE_PER_S", 0.001)
    async with house(tmp_path) as here:
        one, two = await here.job("one"), await here.job("two")
        for _ in range(5):
            await here.ask(one, "context")
        assert await here.refused(one, "context") == "rate_limited"
        assert (await here.ask(two, "context"))["job"] == "/ann/two"


async def test_bodies_are_strict_and_bounded(tmp_path) -> None:
    async with house(tmp_path) as here:
        one = await here.job("one")
        assert await here.refused(one, "context", node_id="other") == "unknown_field"
        assert await here.refused(one, "nosuch") == "not_found"
        assert await here.refused(one, "progress", done=1, note="x" * 1_200_000) == "too_large"
        assert await here.refused(one, "jobs.wait", job_id=one.job_id, wait_s=31) == "invalid_request"


async def test_progress_reaches_whoever_follows_the_job(tmp_path) -> None:
    async with house(tmp_path) as here:
        one = await here.job("one")
        running = TaskReport(task_id=one.task_id, attempt_uid=one.attempt_uid, status=TaskStatus.RUNNING, at_ms=1)
        await here.session.say(Reports(tuple(here.node.reports(running))))
        path, heard = f"{operations()}/{one.job_id}/events", ""
        async with asyncio.timeout(10), here.control.http.stream("GET", path) as stream:
            async for text in stream.aiter_text():
                heard += text
                if "halfway" in heard:
                    break
                await here.ask(one, "progress", done=1, total=2, unit="steps", note="halfway")


async def test_BK_05_a_stranger_and_a_revoked_node_are_turned_away(tmp_path) -> None:
    async with house(tmp_path) as here:
        one = await here.job("one")
        request = node_pb2.TaskCallRequest(task_id=one.task_id, attempt_uid=one.attempt_uid, method="keys", body=b"{}")
        options = channel_options(here.node.trust_domain)
        credentials = channel_credentials(here.node.ca_pems)
        async with grpc.aio.secure_channel(here.node.address, credentials, options) as channel:
            with pytest.raises(grpc.aio.AioRpcError):
                await node_pb2_grpc.NodeServiceStub(channel).TaskCall(request, timeout=5)
        await here.control.call("POST", f"/api/v1/admin/nodes/{here.node.node_id}/revoke")
        with pytest.raises(HostlerError) as raised:
            await here.calls(one, "keys")
        assert raised.value.code == "revoked"


async def test_a_list_that_does_not_hold_all_says_so(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("hostler.control.store.endpoints.MOST_NAMED", 2)
    monkeypatch.setattr(task_calls, "MOST_NAMED", 2)
    async with house(tmp_path) as here:
        one = await here.job("one")
        for number in range(3):
            await here.registers(one, f"n{number}", f"e{number}")
        found = await here.ask(one, "endpoints.list")
        assert (len(found["items"]), found["truncated"]) == (2, True)
        assert not (await here.ask(one, "endpoints.list", name="n2"))["truncated"]


async def test_endpoints_are_listed_for_people_page_by_page(tmp_path) -> None:
    async with house(tmp_path) as here:
        one = await here.job("one")
        for number in range(5):
            await here.registers(one, f"n{number}", f"e{number}", metadata={"kind": "actor"})
        path, seen, cursor = "/api/v1/projects/train/endpoints", [], ""
        while True:
            page = await here.control.call("GET", path, params={"page_size": "2", "cursor": cursor})
            seen += page["items"]
            cursor = page["next_cursor"]
            if not cursor:
                break
        assert [each["name"] for each in seen] == ["n0", "n1", "n2", "n3", "n4"]
        assert (seen[0]["metadata"], seen[0]["node_name"]) == ({"kind": "actor"}, "gpu-1")
        only = await here.control.call("GET", path, params={"endpoint_name": "n3", "namespace": "/ann/one"})
        assert [each["name"] for each in only["items"]] == ["n3"]
        assert (await here.control.call("GET", path, params={"namespace": "/ann"}))["items"] == []
