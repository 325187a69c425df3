"""RS-01, PF-05, issue item 7: one definition on three kinds of hardware, over HTTP, stream and real processes.

The machines are written down (`tests/fixtures/hardware`), and so is what their tools print; the third has nothing.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.gpu_tools import vendor_tools
from support.hardware import plant
from support.house import House, open_house

pytestmark = [pytest.mark.timeout(90), pytest.mark.xdist_group("house-rs")]

TOOLS = {
    "nvidia_driver_validate": ("nvidia-smi", "nvidia-smi-h100.csv"),
    "nvidia_smi_health": ("nvidia-smi", "nvidia-smi-h100.csv"),
    "nvidia_container_runtime_check": ("nvidia-ctk", "nvidia-ctk-cdi-list.txt"),
    "nccl_allreduce_test": ("all_reduce_perf", "nccl-tests.txt"),
    "rocm_driver_validate": ("amd-smi", "amd-smi.json"),
    "rocm_smi_health": ("rocm-smi", "rocm-smi.json"),
    "amd_container_runtime_check": ("amd-ctk", "amd-ctk-cdi-list.txt"),
    "rccl_allreduce_test": ("all_reduce_perf", "rccl-tests.txt"),
    # a tool that claims devices wherever it runs
    "generic_gpu_driver_validate": ("nvidia-smi", "nvidia-smi-h100.csv"),
    "generic_gpu_fabric_verify": ("all_reduce_perf", "nccl-tests.txt"),
}
MACHINES = {"n": "nvidia_h100", "m": "amd_mi300x", "z": "none"}


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with vendor_tools(TOOLS) as tools, open_house(commands=tools) as made:
        made.serve()
        for name, machine in MACHINES.items():
            made.enrol(name)
            plant(machine, made.home / name / "root")
            made.start(name)
        yield made


def run(house: House, ref: str, node: str) -> dict[str, Any]:
    return house.finished(house.submit(ref, {"minimum_devices": 2}, nodes=(node,)))


def steps_of(operation: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {step["step_id"]: step for step in operation["tasks"][0]["steps"]}


@pytest.mark.parametrize(
    ("node", "profiles", "rule"),
    [
        ("n", ["nvidia_driver_validate", "nvidia_smi_health", "nvidia_container_runtime_check"], "gpu.vendor=nvidia"),
        ("m", ["rocm_driver_validate", "rocm_smi_health", "amd_container_runtime_check"], "gpu.vendor=amd"),
    ],
)
def test_PF_05_the_same_definition_resolves_to_what_the_hardware_needs(
    house: House, node: str, profiles: list[str], rule: str
) -> None:
    operation = run(house, "gpu.host.verify@v1", node)
    assert operation["status"] == "succeeded", (operation, house.logs())
    steps = steps_of(operation)
    assert [steps[name]["resolved_profile"] for name in ("driver", "runtime", "containers")] == profiles
    assert all(step["hardware_match"].endswith(rule) for step in steps.values())
    receipts = house.receipts(operation["operation_id"])
    assert [receipt["resolved_profile"] for receipt in receipts] == profiles


def test_SK_16_a_collective_test_runs_by_vendor(house: House) -> None:
    found = {node: steps_of(run(house, "gpu.collective.test@v1", node))["collective"] for node in ("n", "m")}
    assert found["n"]["resolved_profile"] == "nccl_allreduce_test"
    assert found["m"]["resolved_profile"] == "rccl_allreduce_test"


@pytest.mark.parametrize(
    ("ref", "step", "profile"),
    [
        ("gpu.host.verify@v1", "driver", "generic_gpu_driver_validate"),
        ("gpu.collective.test@v1", "collective", "generic_gpu_fabric_verify"),
    ],
)
def test_PF_05_without_a_gpu_the_check_fails_and_names_its_profile(
    house: House, ref: str, step: str, profile: str
) -> None:
    """Even where a tool claims otherwise."""
    operation = run(house, ref, "z")
    failed = steps_of(operation)[step]
    assert (operation["status"], failed["error_code"]) == ("failed", "no_device"), operation
    assert failed["resolved_profile"] == profile
    assert failed["hardware_match"].endswith(":*")


def test_RS_08_nodes_tell_what_they_are(house: House) -> None:
    told = {name: house.node(name)["capabilities"] for name in MACHINES}
    assert {name: each["gpu.vendor"] for name, each in told.items()} == {"n": "nvidia", "m": "amd", "z": "other"}
    assert told["z"]["gpu.count"] == "0"
    assert told["m"]["fabric.type"] == "roce"


def test_SK_11_the_operators_definition_names_the_port_that_is_not_ready(house: House) -> None:
    wanted = [{"device": "bnxt_re0", "link_layer": "ethernet", "gid": "roce_v2"}]
    good = house.finished(house.submit("network.fabric.ready@v1", {"rdma_ports": wanted}, nodes=("m",)))
    assert good["status"] == "succeeded", (good, house.logs())
    state = house.home / "m/root/sys/class/infiniband/bnxt_re0/ports/1/state"
    _write(state, "1: DOWN\n")
    bad = house.finished(house.submit("network.fabric.ready@v1", {"rdma_ports": wanted}, nodes=("m",)))
    _write(state, "4: ACTIVE\n")
    assert steps_of(bad)["fabric"]["error_code"] == "fabric_not_ready"
    assert "port bnxt_re0/1 is DOWN" in steps_of(bad)["fabric"]["error_message"]


def _write(path: Path, text: str) -> None:
    path.write_text(text)
