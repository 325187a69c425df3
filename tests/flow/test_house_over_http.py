"""The running house over its HTTP API: roles, tenants, the shape of an operation, what its events carry."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from hostler.base import fields
from hostler.cli.client import Client
from hostler.cli.operations_api import submit_body
from hostler.cli.settings import Settings
from hostler.control.api.authz import PERMISSIONS, ROLES
from hostler.control.api.route import Route
from hostler.control.api.table import ROUTES
from hostler.v1 import node_pb2
from support.house import ORG, PATH, PROJECT, House, open_house
from support.routes import path_of

pytestmark = [pytest.mark.timeout(60), pytest.mark.xdist_group("house-http")]


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as made:
        made.serve()
        made.enrol("a")
        config = made.home / "a" / "agent.toml"
        config.write_text(f'observe_socket = "{made.home}/a/observe.sock"\n{config.read_text()}')
        made.start("a")
        yield made


@pytest.fixture(scope="module")
def tokens(house: House) -> dict[str, str]:
    """One of each role in the house's project, and an administrator of another tenant."""
    wanted = {role: (ORG, PROJECT if role.startswith("project") else "") for role in ROLES}
    made = {}
    for role, (org, project) in wanted.items():
        scope = {"org_id": org, "project_id": project} if role not in ("platform_admin", "auditor") else {}
        body = {"name": f"a-{role}", "role": role} | scope
        made[role] = house.client.call("POST", "/api/v1/admin/principals", body=body)["token"]
    foreign = {"name": "foreigner", "role": "tenant_admin", "org_id": "other-org", "project_id": ""}
    made["foreign"] = house.client.call("POST", "/api/v1/admin/principals", body=foreign)["token"]
    return made


def ask(house: House, route: Route, token: str, operation_id: str) -> httpx.Response:
    names = {"project_id": PROJECT, "operation_id": operation_id, "node_id": "a", "ref": "node.smoke.noop@v1"}
    path = path_of(route, **names, tenant_id=ORG)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    with httpx.Client(base_url=house.ports.server, headers=headers, trust_env=False) as http:
        body = {} if route.body else None
        return http.request(route.method, path, json=body)


def code_of(answer: httpx.Response) -> str:
    return str(answer.json().get("error_code", ""))


@pytest.fixture(scope="module")
def done(house: House) -> dict[str, Any]:
    return house.finished(house.submit("node.smoke.noop@v1"))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_AZ_every_route_wants_a_token_and_a_permission_that_exists(house: House, route: Route) -> None:
    assert route.permission in PERMISSIONS
    answer = ask(house, route, "", "op_none")
    assert (answer.status_code, code_of(answer)) == (401, "unauthenticated")
    assert ask(house, route, "hsb1_wrong", "op_none").status_code == 401


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_AZ_01_to_05_a_role_without_the_permission_is_refused(
    house: House, tokens: dict[str, str], route: Route, role: str
) -> None:
    if role in PERMISSIONS[route.permission]:
        return
    answer = ask(house, route, tokens[role], "op_none")
    assert (answer.status_code, code_of(answer)) == (403, "scope_denied")


TENANT_ROUTES = [r for r in ROUTES if "{project_id}" in r.path and "tenant_admin" in PERMISSIONS[r.permission]]


@pytest.mark.parametrize("route", TENANT_ROUTES, ids=lambda route: route.name)
def test_AZ_10_API_13_S2_another_tenant_s_token_finds_nothing(
    house: House, tokens: dict[str, str], done: dict[str, Any], route: Route
) -> None:
    answer = ask(house, route, tokens["foreign"], done["operation_id"])
    assert (answer.status_code, code_of(answer)) == (404, "not_found")
    assert done["operation_id"] not in answer.text


def test_OP_07_API_08_an_operation_is_shown_with_every_field_tasks_and_steps(done: dict[str, Any]) -> None:
    for name in (
        "operation_id", "operation_type", "version", "org_id", "project_id", "requested_by_user_id",
        "target_selector", "idempotency_key", "correlation_id", "status",
    ):  # fmt: skip
        assert done[name] not in (None, ""), name
    task = done["tasks"][0]
    step = task["steps"][0]
    assert (task["node_name"], step["step_kind"], step["attempt_number"]) == ("a", "command.exec_allowlisted", 1)
    assert len(step["receipt_digest"]) == 64


def test_OB_01_EV_01_EV_02_EV_03_every_event_carries_the_required_fields(house: House, done: dict[str, Any]) -> None:
    events = list(house.client.events(f"{PATH}/{done['operation_id']}/events"))
    names = [event.name for event in events]
    assert names.count("operation.requested") == 1
    assert names[-1] == "operation.completed"
    assert names.count("operation.completed") == 1
    for event in events:
        if "body" in event.data:
            assert set(fields.REQUIRED) <= set(event.data) | set(event.data["body"]), event
    progress = next(event.data["body"] for event in events if event.name == "operation.progress")
    for name in (
        "operation_id", "correlation_id", "current_step_index", "total_steps", "current_step_name",
        "step_status", "step_started_at",
    ):  # fmt: skip
        assert name in progress, name


def test_PF_07_what_the_probes_said_can_be_fetched_with_its_digest(house: House, tmp_path: Path) -> None:
    checks = [{"type": "disk", "path": "/", "name": "space"}]
    done = house.finished(house.submit("runtime.readiness.verify@v2", {"checks": checks, "within_seconds": 0}))
    assert done["status"] == "succeeded", done["error_message"]
    items = {(i["step_id"], i["name"]): i for i in house.client.pages(f"{PATH}/{done['operation_id']}/artifacts")}
    assert set(items) == {("kernel", "stdout"), ("space", "stdout"), ("ready", "results")}
    kernel = items["kernel", "stdout"]
    assert (kernel["kind"], kernel["media_type"], kernel["downloadable"]) == ("output", "text/plain", True)
    where = tmp_path / "kept"
    said = house.cli("operations", "artifacts", done["operation_id"], "--download", str(where))
    files = sorted(where.iterdir())
    assert len(files) == 3
    for file in files:
        assert f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file}" in said
    assert os.uname().release in next(f for f in files if "kernel" in f.name).read_text()
    receipt = next(r for r in house.receipts(done["operation_id"]) if r["step_id"] == "kernel")
    assert [one["sha256"] for one in receipt["artifacts"]] == [kernel["sha256"]]
    shown = house.cli("operations", "artifacts", done["operation_id"])
    assert kernel["artifact_id"] in shown


def test_EV_04_a_failure_names_its_step_and_code(house: House) -> None:
    checks = [{"type": "tcp", "host": "127.0.0.1", "port": 1}]
    failed = house.finished(house.submit("runtime.readiness.verify@v1", {"checks": checks, "within_seconds": 0}))
    assert (failed["error_code"], failed["failed_step_id"]) == ("health_red", "ready")
    event = [e for e in house.client.events(f"{PATH}/{failed['operation_id']}/events") if e.name == "operation.failed"]
    assert len(event) == 1
    assert event[0].data["error_code"] == "health_red"


def test_OP_10_one_failing_node_fails_the_operation_and_not_the_others_tasks(house: House) -> None:
    made = house.client.call("POST", PATH, body=submit_body(
        "node.smoke.noop@v1", inputs={}, nodes=("a",), labels={}, replicas=3
    ))  # fmt: skip
    ended = house.finished(made["operation_id"])
    assert (ended["status"], ended["tasks_succeeded"]) == ("succeeded", 3)
    assert sorted(task["replica_index"] for task in ended["tasks"]) == [0, 1, 2]


def test_API_09_API_10_a_final_operation_is_neither_cancelled_nor_retried(house: House, done: dict[str, Any]) -> None:
    with contextlib.closing(Client(settings_of(house))) as client:
        for verb in ("cancel", "retry"):
            with pytest.raises(Exception, match=r"ended|succeeded|final"):
                client.call("POST", f"{PATH}/{done['operation_id']}/{verb}")


def settings_of(house: House) -> Settings:
    return Settings(server=house.ports.server, token_file=str(house.home / "admin.token"), project=PROJECT)


def test_OP_13_the_control_plane_holds_no_connection_that_it_dialled(house: House, done: dict[str, Any]) -> None:
    ours = {house.ports.http, house.ports.node, house.ports.enroll}
    connections = psutil.Process(house.pids["control"]).net_connections("inet")
    assert {c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN} == ours
    assert all(c.laddr.port in ours for c in connections)


def test_OP_14_API_25_the_agent_s_calls_are_these_and_no_others() -> None:
    services = node_pb2.DESCRIPTOR.services_by_name
    calls = {"Session", "Exchange", "Renew", "Check", "Mint", "TaskCall", "FetchBundle", "Relay"}
    assert {m.name for m in services["NodeService"].methods} == calls
    assert {m.name for m in services["EnrollmentService"].methods} == {"Enroll", "Recover"}


def test_OP_15_an_agent_that_may_only_poll_runs_an_operation(house: House) -> None:
    house.enrol("poller")
    house.configure("poller", transport="poll")
    house.start("poller")
    ended = house.finished(house.submit("node.smoke.noop@v1", nodes=("poller",)))
    assert ended["status"] == "succeeded", house.logs()
    assert len(house.receipts(ended["operation_id"])) == 1


def test_API_25_the_node_port_speaks_to_nobody_without_a_certificate(house: House) -> None:
    import grpc

    from hostler.pki.tls import channel_credentials, channel_options
    from hostler.v1 import node_pb2_grpc

    ca = (Path(house.home) / "pki/control/ca.pem").read_text()
    address = f"127.0.0.1:{house.ports.node}"
    with grpc.secure_channel(address, channel_credentials((ca,)), channel_options("house.test")) as channel:
        stub = node_pb2_grpc.NodeServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Renew(node_pb2.RenewRequest(), timeout=5)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


def test_openapi_lists_exactly_the_table_s_routes(house: House) -> None:
    document = httpx.get(f"{house.ports.server}/openapi.json", trust_env=False).json()
    listed = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert {(route.method, route.path) for route in ROUTES} <= listed
    assert "Submit" in document["components"]["schemas"]


def test_API_24_liveness_needs_no_token(house: House) -> None:
    assert httpx.get(f"{house.ports.server}/health", trust_env=False).status_code == 200


def test_AZ_06_S3_a_policy_is_set_explained_and_felt_through_the_command_line(house: House) -> None:
    """`hostler policy` from end to end; the last overlay says nothing, so that the house is as it was."""
    made = house.cli(
        "policy", "set", "*", "--tenant", ORG, "timeout_seconds=120", "require_signature_verification=true"
    )
    assert made == "revision 1\n"
    house.cli("policy", "set", "node.smoke.noop", "timeout_seconds=60")
    explained = house.cli("policy", "explain", "node.smoke.noop")
    assert [line.split()[0:2] for line in explained.splitlines() if "timeout_seconds" in line] == [
        ["timeout_seconds", "60"]
    ]
    assert f"tenant {ORG}" in explained
    assert f"project {PROJECT}" in explained
    body = submit_body("node.smoke.noop@v1", nodes=("a",), labels={}, inputs={})
    made_id = house.client.call("POST", PATH, body=body)["operation_id"]
    found = house.client.call("GET", f"{PATH}/{made_id}")
    assert (found["policy"]["timeout_seconds"], found["policy"]["require_signature_verification"]) == (60, True)
    house.cli("policy", "set", "node.smoke.noop", "timeout_seconds=")
    house.cli("policy", "set", "*", "--tenant", ORG, "timeout_seconds=", "require_signature_verification=")
    assert "says nothing" in house.cli("policy", "get", "*", "--tenant", ORG)


def test_OB_04_both_sides_can_be_scraped(house: House) -> None:
    house.finished(house.submit("node.smoke.noop@v1"))
    ours = house.client.raw("/metrics").decode()
    assert 'hostler_operations_finished_total{status="succeeded"}' in ours
    assert 'hostler_webhook_deliveries_total{result="delivered"} 0.0' in ours
    transport = httpx.HTTPTransport(uds=str(house.home / "a" / "observe.sock"))
    with httpx.Client(transport=transport, base_url="http://node") as node:
        assert "hostler_agent_connected 1\n" in node.get("/metrics").text
        assert node.get("/health").json() == {"status": "ok"}
