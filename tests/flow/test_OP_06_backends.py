"""OP-06: work goes to an executor of its backend type; an absent one says so, an unknown one is refused."""

import typing
from pathlib import Path

import msgspec
import pytest

from hostler.base.clock import SystemClock
from hostler.base.digest import canonical_json, sha256_hex
from hostler.catalog.definition import BackendType
from hostler.catalog.manifest import Manifest, sign_manifest, write_bundle
from hostler.pki import ceremony
from support.builders import definition
from support.plane import DAY_MS, Plane, operations, plane, submission

ADAPTERS = sorted(set(typing.get_args(BackendType)) - {"node_agent"})
REGISTER = "/api/v1/admin/operation-definitions"


def test_the_types_are_those_of_the_contract() -> None:
    assert ADAPTERS == ["k8s_adapter", "ray_adapter", "slurm_adapter"]


async def test_OP_06_each_absent_backend_says_so_and_nothing_is_stored(tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        made = [definition(type_=f"demo.{name}", backend_type=name) for name in ADAPTERS]
        await control.publish(definition(), *made)
        node = await control.enroll()
        for each in made:
            problem = await control.call("POST", operations(), 503, json=submission(node, operation_type=each.type))
            assert problem["error_code"] == "backend_not_implemented"
            assert each.backend_type in problem["detail"]
            assert problem["hint"]
        assert control.rows("SELECT count(*) FROM operations") == [(0,)]
        listed = await control.call("GET", REGISTER)
        assert {item["backend_type"] for item in listed["items"]} == {"node_agent", *ADAPTERS}
        assert await control.submit(node)  # the one that is there takes work


@pytest.mark.parametrize("name", ["vm_adapter", "", "NODE_AGENT", "node_agent ", None, 7, ["node_agent"]])
async def test_OP_06_an_unknown_backend_type_is_refused_at_registration(name: object, tmp_path: Path) -> None:
    async with plane(tmp_path) as control:
        answer = await control.http.post(REGISTER, content=bundle_with(control, name))
        assert (answer.status_code, answer.json()["error_code"]) == (422, "invalid_definition"), answer.text
        assert "backend_type" in answer.text
        assert (await control.call("GET", REGISTER))["items"] == []


def bundle_with(control: Plane, backend_type: object) -> bytes:
    """A catalog that the right key has signed, with a definition that our own tools would not make."""
    document = canonical_json(msgspec.json.decode(definition().canonical()) | {"backend_type": backend_type})
    now_ms = SystemClock().now_ms()
    manifest = Manifest(
        version=1,
        issued_ms=now_ms,
        expires_ms=now_ms + DAY_MS,
        definitions={"demo.write@v1": sha256_hex(document)},
        commands={},
    )
    key = ceremony.load_signer(control.home / "pki/catalog/catalog.key")
    return write_bundle(sign_manifest(manifest, [key]), [document])
