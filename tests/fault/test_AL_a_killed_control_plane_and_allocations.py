"""AL-01..06, K2, P5: real agents, a control plane killed between the links: nothing is lost, no link runs twice."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from fault.matrix_cases import MAKE_DIRECTORY

from hostler.base.errors import HostlerError
from support.house import ORG, PROJECT, House, open_house

pytestmark = [pytest.mark.timeout(110), pytest.mark.xdist_group("house-al")]
LINKS = {
    "provision": "allocation.runtime.provision",
    "deprovision": "allocation.runtime.deprovision",
    "identity_revoke": "allocation.identity.revoke",
    "reclaim_verify": "node.reclaim.verify",
}
PATH = f"/api/v1/projects/{PROJECT}/allocations"


def profile(link: str, version: str = "v1") -> dict[str, Any]:
    """Makes one directory, which fails when it is done a second time."""
    inputs = LINKS if link == "provision" else (link,)
    properties = {name: {"type": "string"} for name in inputs}
    return {
        "type": LINKS[link],
        "version": version,
        "inputs": {"type": "object", "additionalProperties": False, "properties": properties},
        "capabilities": {"os.kernel": "linux"},
        "steps": [
            {
                "id": "one",
                "kind": "command.exec_allowlisted",
                "params": {"profile": "matrix_mkdir", "args": {"path": f"${{inputs.{link}}}"}},
                "timeout_seconds": 30,
            }
        ],
    }


PROFILES = [*map(profile, LINKS), profile("provision", "v2")]


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house(PROFILES, [MAKE_DIRECTORY]) as made:
        made.serve()
        made.enrol("a", pool=True)
        made.start("a")
        made.home.joinpath("open").mkdir()
        made.home.joinpath("open").chmod(0o777)
        yield made


def ask(house: House, name: str) -> str:
    inputs = {link: str(house.home / "open" / f"{name}-{link}") for link in LINKS}
    made = house.client.call("POST", PATH, body={"inputs": inputs, "org_id": ORG, "external_id": name})
    allocation_id: str = made["allocation_id"]
    return allocation_id


def shown(house: House, allocation_id: str) -> dict[str, Any]:
    found: dict[str, Any] = house.client.call("GET", f"{PATH}/{allocation_id}")
    return found


def begun(house: House, allocation_id: str) -> int:
    return len(shown(house, allocation_id)["nodes"][0]["links"])


def status(house: House) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode((house.home / "a" / "state" / "status.json").read_bytes())
    return found


def test_AL_a_control_plane_killed_between_the_links_loses_and_doubles_none(house: House) -> None:
    first = ask(house, "first")
    house.kill("control")
    house.serve()
    house.until(lambda: shown(house, first)["state"] == "active")
    assert ask(house, "first") == first, "asked again after a lost answer"
    with contextlib.suppress(HostlerError):
        house.client.call("POST", f"{PATH}/{first}/release")
    for number in (2, 3, 4):
        house.until(lambda number=number: begun(house, first) >= number, limit_s=40)
        house.kill("control")
        house.serve()
    house.until(lambda: shown(house, first)["state"] == "released", limit_s=40)
    (node,) = shown(house, first)["nodes"]
    assert [(link["link"], link["state"], link["tries"]) for link in node["links"]] == [
        (link, "succeeded", 1) for link in LINKS
    ]
    for link in node["links"]:
        # mkdir fails when it runs a second time: one receipt and success mean that it ran once
        assert Counter(receipt["status"] for receipt in house.receipts(link["operation_id"])) == {"succeeded": 1}
    assert sorted(path.name for path in (house.home / "open").iterdir()) == sorted(f"first-{link}" for link in LINKS)


def test_OP_09_the_agent_itself_is_bound_and_free_again(house: House) -> None:
    allocation_id = ask(house, "second")
    house.until(lambda: shown(house, allocation_id)["state"] == "active")
    house.kill("a")
    house.start("a")
    house.until(lambda: (status(house)["allocation"] or {}).get("allocation_id") == allocation_id)
    selector = {"allocation": allocation_id}
    body = {"operation_type": "node.smoke.noop", "version": "v1", "target_selector": selector}
    operations = f"/api/v1/projects/{PROJECT}/operations"
    made = house.client.call("POST", operations, body=body)
    assert house.finished(made["operation_id"])["status"] == "succeeded"
    output = house.cli("allocations", "show", allocation_id)
    assert "provision" in output
    assert "succeeded" in output
    house.cli("allocations", "release", allocation_id, "--watch")
    assert shown(house, allocation_id)["state"] == "released"
    house.restart("a")
    house.until(lambda: status(house)["allocation"] is None)
    assert house.node("a")["reclaim"] == "clean"


def test_AL_07_a_link_that_fails_on_a_real_node_locks_it_and_a_retry_frees_it(house: House) -> None:
    allocation_id = ask(house, "third")
    house.until(lambda: shown(house, allocation_id)["state"] == "active")
    in_the_way = house.home / "open" / "third-reclaim_verify"
    in_the_way.mkdir()
    house.client.call("POST", f"{PATH}/{allocation_id}/release")
    house.until(lambda: shown(house, allocation_id)["state"] == "failed")
    assert house.node("a")["health"] == "quarantined"
    in_the_way.rmdir()
    house.client.call("POST", f"{PATH}/{allocation_id}/retry")
    house.until(lambda: shown(house, allocation_id)["state"] == "released")
    assert (house.node("a")["health"], house.node("a")["project_id"]) == ("ok", "_pool")
