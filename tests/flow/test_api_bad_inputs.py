"""What a person gets wrong: one sentence, a stable code, a hint, and nothing stored."""

from pathlib import Path
from typing import Any

import pytest

from support.builders import definition, render_step
from support.plane import Plane, operations, plane, submission

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"size": {"type": "integer", "minimum": 1}},
}


async def ready(control: Plane) -> Any:
    await control.publish(definition(render_step(), inputs=SCHEMA))
    return await control.enroll("gpu-1")


async def refused(control: Plane, status: int, code: str, *, path: str = "", **request: Any) -> Any:
    """The problem document; nothing was stored of the request."""
    before = control.rows("SELECT count(*) FROM operations")
    answer = await control.http.post(path or operations(), **request)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["error_code"] == code
    assert problem["status"] == status
    assert problem["hint"]
    assert problem["correlation_id"]
    sentence = problem["detail"]
    assert sentence
    assert sentence == sentence.strip()
    assert "\n" not in sentence
    assert not sentence.endswith(".")
    assert control.rows("SELECT count(*) FROM operations") == before
    assert control.rows("SELECT count(*) FROM tasks") == [(0,)]
    assert control.rows("SELECT count(*) FROM envelopes") == [(0,)]
    return problem


async def test_an_unknown_profile_is_named(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await ready(control)
        body = submission(node, operation_type="no.such")
        problem = await refused(control, 422, "unknown_definition", json=body)
        assert "no.such@v1" in problem["detail"]


async def test_an_input_that_breaks_the_schema_is_pointed_at(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await ready(control)
        problem = await refused(control, 422, "input_schema", json=submission(node, inputs={"size": "big"}))
        assert problem["pointer"] == "/inputs/size"
        await refused(control, 422, "input_schema", json=submission(node, inputs={"sizes": 1}))


async def test_OP_19_a_secret_in_the_inputs_is_refused(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await ready(control)
        secret = "AKIAABCDEFGHIJKLMNOP"
        problem = await refused(control, 422, "secret_in_payload", json=submission(node, inputs={"password": secret}))
        assert secret not in str(problem)
        assert not any(secret in str(row) for row in control.rows("SELECT * FROM events"))


async def test_an_unknown_node_is_named(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await ready(control)
        body = submission(target_selector={"nodes": ["gpu-9"]})
        problem = await refused(control, 422, "unknown_target", json=body)
        assert "gpu-9" in problem["detail"]
        await refused(control, 422, "empty_target", json=submission(target_selector={"labels": {"rack": "none"}}))


async def test_a_node_of_another_tenant_is_not_owned(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await ready(control)
        foreign = await control.enroll("gpu-2", org="rival", project="lab")
        await refused(control, 403, "target_not_owned", json=submission(foreign))


async def test_a_foreign_token_is_told_nothing(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await ready(control)
        await control.enroll("gpu-2", org="rival", project="lab")
        foreign = await control.principal("rita", "project_admin", "rival", "lab")
        nobody = control.client("hsb1_made_up")
        async with foreign, nobody:
            answer = await foreign.post(operations(), json=submission(node))
            assert (answer.status_code, answer.json()["error_code"]) == (404, "not_found")
            answer = await nobody.post(operations(), json=submission(node))
            assert (answer.status_code, answer.json()["error_code"]) == (401, "unauthenticated")
        assert control.rows("SELECT count(*) FROM operations") == [(0,)]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b'{"operation_type": ', "invalid_request"),
        (b"", "invalid_request"),
        (b"[]", "invalid_request"),
        (b"\xff\xfe", "invalid_request"),
        (b'{"operation_type": "a\\ud800", "version": "v1", "target_selector": {}}', "invalid_request"),
        (b"[" * 100_000, "invalid_request"),
        (b'{"operation_type": "a", "version": "v1", "target_selector": {}, "shell": "id"}', "unknown_field"),
        (b'{"operation_type": 7, "version": "v1", "target_selector": {}}', "invalid_request"),
    ],
    ids=["cut", "empty", "list", "bytes", "surrogate", "deep", "unknown", "type"],
)
async def test_broken_json_gets_one_sentence(content: bytes, code: str, tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await ready(control)
        await refused(control, 422, code, content=content)


async def test_a_body_beyond_the_limit_is_not_read_to_its_end(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        await ready(control)
        await refused(control, 429, "too_large", content=b" " * (1 << 21))


async def test_an_idempotency_key_in_body_and_header_must_agree(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await ready(control)
        body, headers = submission(node, idempotency_key="one"), {"idempotency-key": "two"}
        await refused(control, 422, "invalid_request", json=body, headers=headers)


async def test_P6_nobody_takes_a_key_that_the_control_plane_will_make(tmp_path: Path) -> None:
    """Of a task's children, and of the operations that return a node: had first, it would keep those from being."""
    async with plane(tmp_path) as control:
        node = await ready(control)
        for key in ("/child/att_1/one", "/alc_1.nod_1.forced.x.1", "/"):
            await refused(control, 422, "invalid_request", json=submission(node, idempotency_key=key))
            await refused(control, 422, "invalid_request", json=submission(node), headers={"idempotency-key": key})
        job = {"name": "x", "command": ["true"], "idempotency_key": "/child/att_1/one"}
        answer = await control.http.post("/api/v1/projects/train/jobs", json=job)
        assert (answer.status_code, answer.json()["pointer"]) == (422, "/idempotency_key")


async def test_RT_01_P6_the_same_key_gives_the_same_operation_and_another_body_409(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await ready(control)
        headers = {"idempotency-key": "once"}
        first = await control.http.post(operations(), json=submission(node), headers=headers)
        again = await control.http.post(operations(), json=submission(node, idempotency_key="once"))
        assert (first.status_code, again.status_code) == (202, 200)
        assert first.json()["operation_id"] == again.json()["operation_id"]
        other = await control.http.post(operations(), json=submission(node, inputs={"size": 2}), headers=headers)
        assert (other.status_code, other.json()["error_code"]) == (409, "idempotency_mismatch")
        assert control.rows("SELECT count(*) FROM operations") == [(1,)]


async def test_API_01_an_unsigned_or_foreign_catalog_is_refused(tmp_path: Path) -> None:
    from hostler.pki.keys import new_ed25519

    async with plane(tmp_path) as control:
        path = "/api/v1/admin/operation-definitions"
        foreign = control.bundle(signer=new_ed25519())
        await refused(control, 422, "catalog_unsigned", path=path, content=foreign)
        signed = control.bundle()
        unsigned = signed.replace(b'"signatures":[{', b'"signatures":[],"x":[{')
        answer = await control.http.post(path, content=unsigned)
        assert answer.status_code == 422
        answer = await control.http.post(path, json={"documents": [], "manifest": {}})
        assert (answer.status_code, answer.json()["error_code"]) == (422, "catalog_unsigned")
        odd = signed[:-2] + b',{"type": "a\\ud800"}]}'
        answer = await control.http.post(path, content=odd)
        assert (answer.status_code, answer.json()["error_code"]) == (422, "invalid_request")
        assert control.rows("SELECT count(*) FROM catalogs") == [(0,)]


async def test_OP_18_deprecated_says_so_and_retired_refuses(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        node = await ready(control)
        path = "/api/v1/admin/operation-definitions/demo.write@v1"
        assert (await control.call("GET", path))["state"] == "active"
        await control.call("POST", f"{path}/deprecate")
        made = await control.call("POST", operations(), 202, json=submission(node))
        assert made["deprecated"] is True
        await control.call("POST", f"{path}/retire")
        answer = await control.http.post(operations(), json=submission(node))
        assert (answer.status_code, answer.json()["error_code"]) == (409, "definition_retired")
        assert control.rows("SELECT count(*) FROM operations") == [(1,)]
