"""What is the same for every route: problems, ids, queries, health, metrics, the description, the page."""

import re
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.control.api import openapi
from hostler.control.api.endpoint_table import PROXY
from hostler.control.api.table import ROUTES
from support.http_api import api_in
from support.routes import NAMES


async def test_a_problem_says_what_where_and_what_next(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin = await api.client("platform_admin")
        answer = await admin.get("/api/v1/admin/nodes/gpu-9", headers={"x-correlation-id": "my-own.1"})
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json() == {
            "type": "https://hostler.dev/errors/not_found",
            "title": "there is nothing under that name in your scope",
            "status": 404,
            "detail": "there is no node 'gpu-9'",
            "error_code": "not_found",
            "hint": "check the id and the project",
            "correlation_id": "my-own.1",
        }


@pytest.mark.parametrize("given", ["", "with space", "x" * 65, "a/b", "ü"])
async def test_a_malformed_correlation_id_is_replaced(given: str, tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        client = api.bearer("")
        answer = await client.get("/api/v1/whoami", headers={"x-correlation-id": given.encode()})
        assert re.fullmatch(r"cor_[0-9a-z]{25}", answer.json()["correlation_id"])


async def test_an_unknown_query_parameter_is_refused_rather_than_ignored(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin = await api.client("platform_admin")
        answer = await admin.get("/api/v1/admin/nodes", params={"pagesize": "5"})
        assert (answer.status_code, answer.json()["error_code"]) == (422, "unknown_field")
        assert answer.json()["pointer"] == "/pagesize"


@pytest.mark.parametrize(("method", "path"), [("GET", "/nowhere"), ("GET", "/api/v1"), ("PUT", "/api/v1/whoami")])
async def test_what_the_router_refuses_is_a_problem_too(method: str, path: str, tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        answer = await api.bearer("").request(method, path)
        assert answer.status_code in (404, 405)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["error_code"] in ("not_found", "method_not_allowed")


async def test_API_24_health_needs_no_token_says_nothing_and_is_red_when_the_store_is(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        client = api.bearer("")
        answer = await client.get("/health")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        await api.fleet.engine._writer.close()
        answer = await client.get("/health")
        assert (answer.status_code, answer.json()) == (503, {"status": "store_unavailable"})
        api.fleet.engine._writer._thread.join()


async def test_a_store_that_takes_no_writes_is_a_503_also_for_a_refusal_that_cannot_be_recorded(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        viewer, admin = await api.client("project_viewer"), await api.client("platform_admin")
        await api.fleet.engine._writer.close()
        for client in (viewer, admin):
            answer = await client.post("/api/v1/admin/nodes/gpu-1/revoke")
            assert answer.status_code in (404, 503)
            assert answer.json()["error_code"] in ("store_unavailable", "not_found")


async def test_an_error_of_ours_is_a_500_without_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with api_in(tmp_path) as api:
        admin = await api.client("platform_admin")

        async def broken(*_: object) -> None:
            raise RuntimeError("a secret detail")

        monkeypatch.setattr(api.fleet.engine.reader.agents, "nodes", broken)
        answer = await admin.get("/api/v1/admin/nodes")
        assert (answer.status_code, answer.json()["error_code"]) == (500, "internal_error")
        assert "secret" not in answer.text
        assert (await admin.get("/health")).status_code == 200


async def test_OB_04_metrics_are_for_this_machine_and_for_whoever_has_a_token(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        await api.fleet.publish()
        await api.fleet.submit(await api.fleet.enroll("gpu-1"))
        viewer = await api.client("project_viewer")
        await viewer.get("/api/v1/whoami")
        local = await api.bearer("").get("/metrics")
        assert local.status_code == 200
        assert 'hostler_http_requests_total{route="principals.whoami",status="200"} 1.0' in local.text
        assert "hostler_store_healthy 1.0" in local.text
        assert 'hostler_open_tasks{state="queued"} 1.0' in local.text
        far = await api.bearer("", address="192.0.2.7").get("/metrics")
        assert (far.status_code, far.json()["error_code"]) == (401, "unauthenticated")
        token = viewer.headers["authorization"].removeprefix("Bearer ")
        assert (await api.bearer(token, address="192.0.2.7").get("/metrics")).status_code == 200


@pytest.mark.parametrize("path", ["/", "/admin/nodes"])
async def test_a_page_is_served_under_a_policy_that_lets_nothing_else_in(path: str, tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        client = api.bearer("")
        page = await client.get(path)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        named = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert named
        for each in named:
            assert each.startswith("/")
            assert (await client.get(each)).status_code == 200
        assert not re.search(r"\son\w+=|<script>|style=", page.text)


async def test_LC_06_no_script_of_the_pages_parses_markup_or_keeps_the_token(tmp_path: Path) -> None:
    web = files("hostler.control") / "web"
    scripts = [each for each in web.iterdir() if each.name.endswith(".js")]
    assert len(scripts) >= 5
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|setHTML|DOMParser|Fragment|\beval\b|Function\("
    async with api_in(tmp_path) as api:
        for script in scripts:
            text = script.read_text()
            assert not re.search(forbidden + r"|[lL]ocalStorage|sessionStorage|\.cookie", text), script.name
            assert (await api.bearer("").get(f"/{script.name}")).text == text, "each is served"
            for name in re.findall(r'from "(.+)"', text):
                assert (web / name.removeprefix("/")).is_file()


async def test_the_description_is_open_and_names_every_route(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        described = (await api.bearer("").get("/openapi.json")).json()
    assert described["openapi"] == "3.1.0"
    named = {(path, method.upper()) for path, methods in described["paths"].items() for method in methods}
    assert named == {(route.path, route.method) for route in ROUTES}
    ids = [operation["operationId"] for methods in described["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


def test_every_reference_in_the_description_resolves() -> None:
    described = openapi.document("1")
    schemas = described["components"]["schemas"]
    references = re.findall(r"#/components/schemas/([^'\"]+)", str(described))
    assert references
    assert set(references) <= set(schemas)


def test_every_route_stands_in_the_page_about_them() -> None:
    page = (Path(__file__).parents[4] / "docs/api.md").read_text()
    assert [r.name for r in ROUTES if f"| {r.method} | `{r.path}` | {r.summary} |" not in page] == []


def test_every_answer_is_described() -> None:
    for methods in openapi.document("1")["paths"].values():
        for operation in methods.values():
            for described in operation["responses"]["2XX"]["content"].values():
                assert described["schema"], operation["operationId"]


def test_AR_08_no_route_takes_the_bytes_of_an_artifact() -> None:
    """Every body is JSON of a known form, none has a field of raw bytes, and artifacts are only ever read here. What a
    job is to run is no artifact: code bundles come in by one route, small, checked, and for nodes alone (JB-08)."""
    described = openapi.document("1")
    bodies = []
    for path, methods in described["paths"].items():
        if "artifact" in path:
            assert set(methods) == {"get"}, path
        if path.startswith("/api/v1/admin/agent-releases") and "put" in methods:  # signed, and judged as it comes
            assert set(methods.pop("put")["requestBody"]["content"]) == {"application/octet-stream"}
        if path == "/api/v1/projects/{project_id}/bundles/{sha256}":
            assert set(methods.pop("put")["requestBody"]["content"]) == {"application/octet-stream"}
        if path == PROXY:  # goes on to a task as it comes, and is kept nowhere
            continue
        bodies += [operation["requestBody"]["content"] for operation in methods.values() if "requestBody" in operation]
    assert bodies
    assert {kind for body in bodies for kind in body} == {"application/json"}
    taken = msgspec.json.encode(
        [bodies, {r.body.__name__: described["components"]["schemas"][r.body.__name__] for r in ROUTES if r.body}]
    )
    assert b'"contentEncoding"' not in taken
    assert b'"binary"' not in taken


WILD = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30).filter(
    lambda text: text not in ("..", ".")
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(WILD, min_size=len(NAMES), max_size=len(NAMES)), query=WILD, body=st.binary(max_size=60))
async def test_SE_01_no_path_query_or_body_makes_it_stumble(
    names: list[str], query: str, body: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from urllib.parse import quote

    async with api_in(tmp_path_factory.mktemp("wild")) as api:
        admin = await api.client("platform_admin")
        for route in ROUTES:
            path = route.path.format(**{key: quote(name, safe="") for key, name in zip(NAMES, names, strict=True)})
            params = dict.fromkeys(route.query, query)
            answer = await admin.request(route.method, path, params=params, content=body)
            assert answer.status_code < 500, (route.name, answer.text)
