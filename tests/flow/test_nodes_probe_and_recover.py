"""API-21, LC-20, AL-11, SK-23: nodes that are probed and brought back, with real agents and the real command line."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import need_root
from hostler.control.kernel.allocation_states import POOL
from support.house import House, open_house
from support.tenancy import machine_root

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("house-recover")]


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    need_root()
    with open_house() as made:
        made.serve()
        for name, pool in (("free", True), ("owned", False)):
            made.enrol(name, pool=pool)
            machine_root(made.home / name / "root")
            made.start(name)
        yield made


def ended(house: House, operation_id: str) -> dict[str, Any]:
    """An operation of the pool, once it has ended."""
    path = f"/api/v1/projects/{POOL}/operations/{operation_id}"
    house.until(lambda: house.client.call("GET", path)["status"] in ("succeeded", "failed"))
    found: dict[str, Any] = house.client.call("GET", path)
    return found


def probe(house: House) -> dict[str, Any]:
    return ended(house, json.loads(house.cli("nodes", "probe", "free", "--output", "json"))["operation_id"])


def recover(house: House, node: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        house.cli("nodes", "recover", node, "--reason", "looked at it", "--output", "json")
    )
    return found


def test_API_21_a_free_node_is_probed_without_an_allocation_and_cleared_when_it_is_mended(house: House) -> None:
    assert house.node("free")["reclaim"] == "unverified"
    first = probe(house)
    assert (first["operation_type"], first["status"]) == ("node.baseline.take", "succeeded"), house.logs()
    assert house.node("free")["reclaim"] == "clean"
    assert (second := probe(house))["status"] == "succeeded", house.logs()
    assert second["operation_type"] == "node.reclaim.probe"

    left = house.home / "free/root/etc/cron.d/come-back"
    left.parent.mkdir(exist_ok=True)
    left.write_text("* * * * * root /tmp/x\n")
    found = probe(house)
    assert (found["error_code"], "come-back" in found["error_message"]) == ("residue_found", True), found
    assert house.node("free")["health"] == "quarantined"

    left.unlink()
    left.parent.rmdir()
    (done,) = recover(house, "free")["did"]
    assert (done["what"], ended(house, done["operation_id"])["status"]) == ("node_probed", "succeeded"), house.logs()
    assert house.node("free")["health"] == "ok"
    assert "needs nothing" in house.cli("nodes", "recover", "free", "--reason", "again")


def test_LC_17_a_task_that_runs_is_asked_about_although_every_slot_is_taken(house: House) -> None:
    house.configure("owned", parallel=1)
    house.restart("owned")
    operation_id = house.submit("node.smoke.sleep@v1", {"seconds": 20}, nodes=("owned",))
    house.until(lambda: house.operation(operation_id)["status"] == "running")
    told = recover(house, "owned")
    (done,) = told["did"]
    assert done["what"] == "task_probed"
    (task,) = house.finished(done["operation_id"])["tasks"]
    (step,) = task["steps"]
    assert (step["status"], step["outputs"]["state"], step["outputs"]["container"]) == ("succeeded", "running", "none")
    assert house.operation(operation_id)["status"] == "running", "a probe changes nothing"
    house.client.call("POST", f"/api/v1/projects/{task_project(house)}/operations/{operation_id}/cancel")
    assert house.finished(operation_id)["status"] == "canceled"


def task_project(house: House) -> str:
    return str(house.node("owned")["project_id"])
