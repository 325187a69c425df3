"""A node's resolver configuration from enrolment to rollback, and its capabilities, over real processes."""

import contextlib
import json
import sqlite3
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from hostler.agent.main import main
from hostler.catalog.load import load_profiles
from hostler.catalog.resolver import ResolverConfig, Rule
from hostler.cli.demo_files import builtin_profiles, program
from support.house import FINAL, House, open_house
from support.resolving import KIND

pytestmark = [pytest.mark.timeout(110), pytest.mark.xdist_group("house-resolver")]

SHIPPED = load_profiles(builtin_profiles()).configs["default"]
# the shipped one, with one answer changed everywhere
OTHER = ResolverConfig(
    hardware_profiles=tuple(
        Rule(match=rule.match, overrides=rule.overrides | {KIND: "rocm_smi_health"})
        for rule in SHIPPED.hardware_profiles
    )
)
NEEDS_SYSTEMD = {
    "type": "unit.systemd",
    "version": "v1",
    "inputs": {"type": "object", "additionalProperties": False, "properties": {}},
    "capabilities": {"host.init": "systemd"},
    "steps": [{"id": "one", "kind": "command.exec_allowlisted", "params": {"profile": "noop_true"}}],
}


@pytest.fixture
def house() -> Iterator[House]:
    with open_house([NEEDS_SYSTEMD]) as made:
        made.serve()
        made.enrol("a")
        (made.home / "a/root/run").mkdir()
        yield made


def resolved(house: House, *more: str) -> tuple[int, dict[str, Any]]:
    arguments = [program("hostler-agent"), "resolve", KIND, "--json", "--config", str(house.home / "a/agent.toml")]
    done = subprocess.run([*arguments, *more], check=False, capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def apply(house: House, version: int, content: ResolverConfig) -> dict[str, Any]:
    inputs = {"version": version, "digest": content.digest()}
    return house.finished(house.submit("node.resolver.apply@v1", inputs))


def test_RD_01_RD_03_RD_04_RD_05_from_enrolment_over_an_update_to_a_rollback(
    house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    nvidia = ("--capability", "gpu.vendor=nvidia")
    status, said = resolved(house, *nvidia)  # RD-05: the node has not even run yet
    assert (status, said["active"]["origin"], said["active"]["version"]) == (0, "enrolment", 1)
    assert (said["resolved_profile"], said["hardware_match"]) == ("nvidia_smi_health", "1:gpu.vendor=nvidia")
    assert [rule[0] for rule in said["rules"] if rule[2]] == [said["hardware_match"]]
    assert resolved(house, *nvidia) == (status, said)  # RS-09
    asked = ["resolve", "--config", str(house.home / "a/agent.toml")]
    assert main([*asked, "artifact.verify"]) == 1
    assert main([*asked, KIND, "--capability", "nonsense"]) == 2
    assert main([*asked, KIND, "--capability", "gpu.vendor=amd"]) == 0
    assert ":gpu.vendor=amd" in capsys.readouterr().out

    house.start("a")
    house.publish(2, {"default": OTHER})
    updated = apply(house, 2, OTHER)
    assert updated["status"] == "succeeded", (updated["tasks"], house.logs())
    _, said = resolved(house, *nvidia)
    assert (said["active"]["origin"], said["resolved_profile"]) == ("task", "rocm_smi_health")

    (receipt,) = house.receipts(updated["operation_id"])
    asked = "SELECT correlation_id FROM audit_logs WHERE action = 'operation.submit' AND resource_name LIKE ?"
    with contextlib.closing(sqlite3.connect(house.home / "control" / "control.db")) as db:
        ((correlation_id,),) = db.execute(asked, (f"%{updated['operation_id']}",)).fetchall()
    assert receipt["correlation_id"] == correlation_id == updated["correlation_id"] != ""
    assert receipt["files_after"][0]["sha256"] == OTHER.digest()

    replayed = apply(house, 1, SHIPPED)
    assert (replayed["status"], replayed["error_code"]) == ("failed", "catalog_rollback")
    house.publish(3)
    assert apply(house, 3, SHIPPED)["status"] == "succeeded"
    _, said = resolved(house, *nvidia)
    assert (said["active"]["version"], said["active"]["digest"]) == (3, SHIPPED.digest())
    assert said["resolved_profile"] == "nvidia_smi_health"


def test_RD_02_an_edited_configuration_is_drift_that_everybody_sees_and_nobody_uses(house: House) -> None:
    (path,) = (house.home / "a/state/resolver").glob("*.json")
    path.write_bytes(path.read_bytes().replace(b"nvidia_smi_health", b"noop_true"))
    status, said = resolved(house)
    assert (status, said["error_code"], said["rules"]) == (1, "config_drift", [])
    house.start("a")
    assert house.node("a")["drift"] == "config_drift"
    assert "config_drift" in house.cli("nodes", "get", "a")
    assert apply(house, 1, SHIPPED)["status"] == "succeeded"
    assert resolved(house)[0] == 0
    house.until(lambda: house.node("a")["drift"] == "", "a")


def test_CG_01_CG_04_an_operation_waits_for_a_capability_and_goes_when_it_comes(house: House) -> None:
    house.start("a")
    operation_id = house.submit("unit.systemd@v1")
    (task,) = house.operation(operation_id)["tasks"]
    assert (task["status"], task["waiting_for"]) == ("queued", "capability_missing: host.init")
    assert "capability_missing: host.init" in house.cli("operations", "get", operation_id)
    assert house.receipts(operation_id) == []

    (house.home / "a/root/run/systemd/system").mkdir(parents=True)
    assert house.finished(operation_id, limit_s=30)["status"] == "succeeded"  # the slow look is a minute apart

    (house.home / "a/root/run/systemd/system").rmdir()
    house.until(lambda: house.node("a")["capabilities"]["host.init"] != "systemd", "a")
    (task,) = house.operation(house.submit("unit.systemd@v1"))["tasks"]
    assert (task["status"] in FINAL, task["waiting_for"]) == (False, "capability_missing: host.init")


def test_RD_05_without_a_catalog_a_node_enrols_and_connects_and_resolves_nothing() -> None:
    with open_house() as house:
        (house.home / "catalog.json").touch()  # as if it had been published: nothing is
        house.serve()
        house.enrol("a")
        house.start("a")
        status, said = resolved(house, "--capability", "gpu.vendor=nvidia")
        assert (status, said["active"], said["error_code"]) == (1, None, "no_resolver")
        assert house.node("a")["drift"] == ""
