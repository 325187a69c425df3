"""S2, AZ-10: another tenant's token on everything the API's own description lists: 404 or 403, and never a hint.

Generated from /openapi.json of a served control plane, so that a new route is attacked the day it is written. What a
foreign id gets is compared, word for word, with what an id gets that does not exist.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from hostler.base.digest import sha256_hex
from hostler.control.api.authz import ROLES
from hostler.wire.report import Artifact, LogLine, StepReport, StepStatus, TaskReport, TaskStatus
from support.allocations import profiles
from support.builders import definition
from support.fake_node import FakeNode
from support.jobs import IMAGE, job_definitions
from support.plane import ORG, PROJECT, Plane, operations, plane, submission
from support.tasking import CAPABILITIES, calls_of, facts_of

pytestmark = pytest.mark.timeout(60)
RIVAL, LAB = "rival", "lab"
TENANT_ROLES = tuple(role for role in ROLES if role.startswith(("tenant_", "project_")))
NAMED = frozenset(
    {
        "project_id",
        "tenant_id",
        "operation_id",
        "job_id",
        "artifact_id",
        "allocation_id",
        "webhook_id",
        "rollout_id",
        "task_id",
        "endpoint_id",
        "sha256",
        "node_id",
        "name",
        "index",
        "node",
    }
)
OTHER = {"rest": "x", "ref": "demo.write@v1", "operation_type": "demo.write"}
HOOK = "https://hooks.example.com/acme"
SECRET = "what acme alone may read"
ENDPOINT = "acme-web"
CODE = b"what acme's jobs run"
JOB = {"name": "secret", "image": IMAGE, "command": ["true"]}


class Request(NamedTuple):
    method: str
    path: str
    operation_id: str
    names: tuple[str, ...]  # in the path
    query: tuple[str, ...]


class Houses(NamedTuple):
    """`ours` names what belongs to tenant A; `clients` speak for tenant B, by role."""

    control: Plane
    requests: list[Request]
    ours: dict[str, str]
    own_operation: str
    their_node: str
    clients: dict[str, httpx.AsyncClient]


@asynccontextmanager
async def houses(folder: Path) -> AsyncIterator[Houses]:
    async with plane(folder) as control:
        await control.publish(definition(), *job_definitions(), *profiles())
        ours = await control.enroll("gpu-a")
        operation_id = await finished(control, ours, PROJECT)
        artifact = (await control.call("GET", f"{operations()}/{operation_id}/artifacts"))["items"][0]
        lent = await control.call("POST", f"/api/v1/projects/{PROJECT}/allocations", 202, json={"org_id": ORG})
        told = await control.call("POST", f"/api/v1/projects/{PROJECT}/webhooks", 201, json={"url": HOOK})
        code = sha256_hex(CODE)
        await control.call("PUT", f"/api/v1/projects/{PROJECT}/bundles/{code}", 201, content=CODE)
        job = await control.call("POST", f"/api/v1/projects/{PROJECT}/jobs", 202, json=JOB)
        task_id = await with_endpoint(control, ours)
        theirs = await control.enroll("gpu-b", org=RIVAL, project=LAB)
        own = await finished(control, theirs, LAB)
        await control.principal("anna", "project_admin", ORG, PROJECT)
        scopes = {role: LAB if role.startswith("project_") else "" for role in TENANT_ROLES}
        clients = {role: await control.principal(f"b-{role}", role, RIVAL, scope) for role, scope in scopes.items()}
        named = {
            "project_id": PROJECT, "tenant_id": ORG, "operation_id": operation_id,
            "node_id": ours.node_id,
            "artifact_id": artifact["artifact_id"], "allocation_id": lent["allocation_id"],
            "webhook_id": told["webhook_id"], "sha256": code, "task_id": task_id, "endpoint_id": ENDPOINT, "rest": "",
            "job_id": job["job_id"], "name": "anna", "index": "0", "node": ours.node_id, "rollout_id": "rol_0acme",
        }  # fmt: skip
        described = (await control.http.get("/openapi.json")).json()
        try:
            yield Houses(control, list(requests(described)), named, own, theirs.node_id, clients)
        finally:
            for client in clients.values():
                await client.aclose()


async def with_endpoint(control: Plane, node: FakeNode) -> str:
    """The task of the one job, which runs and can be reached under a name."""
    async with node.session(capabilities=CAPABILITIES) as session, calls_of(node) as calls:
        (spec,) = await session.take()
        facts = facts_of(spec, node.node_id, {})
        running = TaskReport(task_id=spec.task_id, attempt_uid=spec.attempt_uid, status=TaskStatus.RUNNING, at_ms=1)
        await session.report(node.reports(running))
        said = {"endpoint_id": ENDPOINT, "name": "web", "address": "10.0.0.7:30001", "node_address": "10.0.0.7"}
        status, answer = await calls(facts, "endpoints.register", said | {"ports": (30001,)})
        assert status == 200, answer
    return spec.task_id


async def finished(control: Plane, node: FakeNode, project: str) -> str:
    """An operation that has ended, with a log line and an artifact."""
    async with node.session() as session:
        operation_id = await control.submit(node, project=project)
        (spec,) = await session.take()
        common = {"task_id": spec.task_id, "attempt_uid": spec.attempt_uid}
        said = LogLine(**common, step_id="write", step_index=0, stream="stdout", text=SECRET, at_ms=1)
        content = SECRET.encode()
        kept = Artifact(
            name="sha256", kind="output", sha256=sha256_hex(content), size_bytes=len(content),
            media_type="text/plain", content=content,
        )  # fmt: skip
        reports = node.finished(spec)
        ended = [report.body for report in reports if isinstance(report.body, StepReport)]
        changed = [
            StepReport(**{name: getattr(body, name) for name in body.__struct_fields__} | {"artifacts": (kept,)})
            for body in ended
        ]
        assert ended[0].status is StepStatus.SUCCEEDED
        node.outbox -= len(reports)
        running = TaskReport(**common, status=TaskStatus.RUNNING, at_ms=1)
        done = TaskReport(**common, status=TaskStatus.SUCCEEDED, at_ms=2)
        await session.report(node.reports(running, said, *changed, done))
    return operation_id


def requests(described: Mapping[str, Any]) -> Any:
    """Everything that names something of somebody, in its path or in its query."""
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            parameters = operation.get("parameters", ())
            names = tuple(p["name"] for p in parameters if p["in"] == "path")
            query = tuple(p["name"] for p in parameters if p["in"] == "query")
            if NAMED & {*names, *query}:
                clean = re.sub(r"\{(\w+):\w+\}", r"{\1}", path)
                yield Request(method.upper(), clean, operation["operationId"], names, query)


def nowhere(ours: Mapping[str, str]) -> dict[str, str]:
    """Ids of the same length and form that nobody has."""
    made = {name: re.sub(r"[a-z0-9](?=[a-z0-9]{0,3}$)", "z", value) for name, value in ours.items()}
    return made | {"index": "999999", "sha256": "0" * 64}


async def ask(client: httpx.AsyncClient, request: Request, names: Mapping[str, str], **query: str) -> httpx.Response:
    body: Any = None
    if request.method in ("POST", "PUT", "PATCH"):
        body = submission(target_selector={"nodes": ["gpu-b"]}) if request.operation_id == "operations.submit" else {}
        body = {"enabled": False} if request.method == "PUT" else body
    path = request.path.format(**{**OTHER, **names})
    return await client.request(request.method, path, json=body, params=query, timeout=10)


def shape(answer: httpx.Response, names: Mapping[str, str]) -> tuple[Any, ...]:
    """All that a caller can see of a refusal, with the ids they sent themselves taken out."""
    problem = answer.json()
    problem.pop("correlation_id", None)
    text = str(sorted(problem.items()))
    for name, value in sorted(names.items(), key=lambda pair: -len(pair[1])):
        text = text.replace(f"'{value}'", f"<{name}>")
    headers = sorted(set(answer.headers) - {"date", "content-length"})
    return answer.status_code, problem.get("error_code"), text, headers


def variants(houses_: Houses, request: Request) -> list[tuple[dict[str, str], dict[str, str]]]:
    """(of tenant A, of nobody): by A's own address, and by A's id below B's own project or operation."""
    ours, none = houses_.ours, nowhere(houses_.ours)
    found = [(ours, none)]
    if {"project_id", "operation_id"} <= set(request.names) or {"job_id", "task_id"} & set(request.names):
        found.append((ours | {"project_id": LAB}, none | {"project_id": LAB}))
    if "sha256" in request.names and request.method != "PUT":  # whoever sends the bytes has them
        found.append((ours | {"project_id": LAB}, none | {"project_id": LAB}))
    if "project_id" in request.names and {"operation_id", "job_id"} & set(request.names):
        found.append((ours | {"project_id": LAB}, none | {"project_id": LAB}))
    if "artifact_id" in request.names:
        below = {"project_id": LAB, "operation_id": houses_.own_operation}
        found.append((ours | below, none | below))
    return found


async def test_S2_AZ_10_whatever_is_asked_for_is_not_there_or_not_allowed(tmp_path: Path) -> None:
    async with houses(tmp_path) as made:
        assert len(made.requests) >= 20
        before = kept_of(made.control)
        asked = 0
        for role, client in made.clients.items():
            for request in made.requests:
                if not NAMED & set(request.names):
                    continue
                for foreign, absent in variants(made, request):
                    got = await ask(client, request, foreign)
                    where = (role, request.operation_id, foreign)
                    assert got.status_code in (403, 404), (*where, got.text)
                    assert got.json()["error_code"] in ("scope_denied", "not_found"), where
                    assert SECRET not in got.text
                    none = await ask(client, request, absent)
                    assert shape(got, foreign) == shape(none, absent), where
                    asked += 1
        assert asked >= 4 * 25
        assert kept_of(made.control) == before


def kept_of(control: Plane) -> list[Any]:
    """Whatever of tenant A could have been changed."""
    tables = ("operations", "jobs", "job_tasks", "operation_policy_overrides", "nodes", "principals", "bundles")
    tables += ("endpoints", "webhooks", "allocations")
    return [control.rows(f"SELECT * FROM {table} ORDER BY 1") for table in tables]


async def test_S2_ids_in_a_query_tell_no_more_than_those_in_a_path(tmp_path: Path) -> None:
    async with houses(tmp_path) as made:
        none = nowhere(made.ours)
        tried = 0
        for role, client in made.clients.items():
            for request in made.requests:
                own = {"project_id": LAB, "tenant_id": RIVAL, "operation_id": made.own_operation, "artifact_id": "a"}
                own |= {"node_id": made.their_node, "name": f"b-{role}", "index": "0"}
                for name in NAMED & set(request.query):
                    for follow in ({}, {"follow": "true"}) if "follow" in request.query else ({},):
                        got = await ask(client, request, own, **{name: made.ours[name]}, **follow)
                        absent = await ask(client, request, own, **{name: none[name]}, **follow)
                        assert got.status_code in (403, 404), (role, request.operation_id, name, got.text)
                        assert shape(got, made.ours) == shape(absent, none), (role, request.operation_id, name)
                        tried += 1
        assert tried >= 4 * 3


async def test_S2_lists_and_streams_hold_nothing_of_another_tenant(tmp_path: Path) -> None:
    async with houses(tmp_path) as made:
        secrets = [*(made.ours[name] for name in ("operation_id", "node_id", "artifact_id")), f'"{ORG}"', "gpu-a"]
        for role, client in made.clients.items():
            own = operations(LAB)
            lists = ["/api/v1/events", own, f"/api/v1/projects/{LAB}/nodes", f"{own}/{made.own_operation}"]
            lists += [f"{own}/{made.own_operation}/{part}" for part in ("logs", "artifacts", "audit-bundle")]
            for path in lists:
                answer = await client.get(path)
                assert answer.status_code == 200, (role, path, answer.text)
                assert not [word for word in secrets if word in answer.text], (role, path)
            heard = await listened(client, made.own_operation)
            assert made.own_operation in heard  # a stream that says nothing would prove nothing
            assert not [word for word in secrets if word in heard], role


async def listened(client: httpx.AsyncClient, until: str) -> str:
    """What /api/v1/events says from the first event on, until it is quiet for a second or says a completed one."""
    heard = ""
    timeout = httpx.Timeout(10, read=2)
    query, first = {"follow": "true"}, {"last-event-id": "0"}
    try:
        async with (
            asyncio.timeout(10),
            client.stream("GET", "/api/v1/events", params=query, headers=first, timeout=timeout) as said,
        ):
            assert said.status_code == 200
            async for text in said.aiter_text():
                heard += text
                if until in heard and "operation.completed" in heard:
                    break
    except (httpx.ReadTimeout, TimeoutError):
        pass
    return heard
