"""RN-09: devices by CDI where a specification names them, else by their nodes; none is given twice."""

import json
from pathlib import Path

import pytest

from hostler.agent.containers.cdi import cdi_devices, parse
from hostler.agent.containers.device_book import DeviceBook, found, label_of
from hostler.base.errors import HostlerError

NVIDIA = """\
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
- name: 1
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia1
      hostPath: /dev/host/nvidia1
- name: GPU-2f1c
  containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}
- name: all
  containerEdits: {deviceNodes: [{path: /dev/nvidia0}, {path: /dev/nvidia1}]}
"""


def machine(root: Path, *nodes: str, **specs: str) -> Path:
    for node in nodes:
        (root / node).parent.mkdir(parents=True, exist_ok=True)
        (root / node).touch()
    for name, text in specs.items():
        (root / "etc/cdi").mkdir(parents=True, exist_ok=True)
        (root / "etc/cdi" / name.replace("_", ".")).write_text(text)
    return root


def test_RN_09_a_cdi_specification_names_devices_once_and_by_number(tmp_path: Path) -> None:
    devices = cdi_devices(machine(tmp_path, nvidia_yaml=NVIDIA))
    assert [one.qualified for one in devices] == ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]
    assert [one.nodes for one in devices] == [("/dev/nvidia0",), ("/dev/host/nvidia1",)]


def test_RN_09_json_is_read_as_well_and_names_without_numbers_stand_for_themselves(tmp_path: Path) -> None:
    text = json.dumps({"kind": "google.com/tpu", "devices": [{"name": "b"}, {"name": "a"}, {"name": "all"}]})
    assert [one.qualified for one in cdi_devices(machine(tmp_path, t_json=text))] == [
        "google.com/tpu=a",
        "google.com/tpu=b",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "kind: 3", "kind: x", "kind: a/b\ndevices: 7",
        "kind: a/b\ndevices: [3, {name: [1]}, {name: a/b}]",
        "kind: a/b\ndevices: [{name: '../x'}, {name: true}, {name: ''}]", "!!python/object/apply:os.system [x]",
        "kind: 'a/b c'\ndevices: [{name: '0'}]",
    ],
)  # fmt: skip
def test_a_specification_that_makes_no_sense_names_nothing(text: str) -> None:
    assert list(parse(text, "x.yaml")) == []


def test_RN_09_without_a_specification_device_nodes_stand_for_devices(tmp_path: Path) -> None:
    root = machine(tmp_path, "dev/nvidia10", "dev/nvidia2", "dev/nvidiactl", "dev/nvidia-uvm", "dev/accel0", "dev/null")
    gpus = [one for one in found(root) if one.kind == "gpu"]
    assert [one.name for one in gpus] == ["2", "10"]
    assert gpus[0].nodes == ("/dev/nvidia2", "/dev/nvidiactl", "/dev/nvidia-uvm")
    assert gpus[0].own == ("/dev/nvidia2",)
    assert [one.nodes for one in found(root) if one.kind == "tpu"] == [("/dev/accel0",)]


def test_RN_09_where_a_specification_names_them_their_nodes_are_not_given_besides(tmp_path: Path) -> None:
    given = found(machine(tmp_path, "dev/nvidia0", "dev/nvidia1", nvidia_yaml=NVIDIA))
    assert [(one.cdi, one.nodes) for one in given] == [("nvidia.com/gpu=0", ()), ("nvidia.com/gpu=1", ())]
    assert given[0].own == ("/dev/nvidia0",)


def book(root: Path) -> DeviceBook:
    return DeviceBook(lambda: found(root))


def test_RN_09_no_device_is_given_twice_while_it_is_held(tmp_path: Path) -> None:
    devices = book(machine(tmp_path, "dev/nvidia0", "dev/nvidia1", "dev/nvidia2"))
    first = devices.take("a", "gpu", 2)
    assert devices.take("a", "gpu", 2) == first
    with pytest.raises(HostlerError) as refused:
        devices.take("b", "gpu", 2)
    assert refused.value.code == "devices_exhausted"
    assert devices.take("b", "gpu", 1)[0].name == "2"
    devices.free("a")
    assert devices.take("c", "gpu", 2) == first


def test_TE_20_what_stands_on_a_container_is_held_by_the_next_agent(tmp_path: Path) -> None:
    root = machine(tmp_path, "dev/nvidia0", "dev/nvidia1")
    label = label_of(book(root).take("a", "gpu", 1))
    after = book(root)
    assert [one.name for one in after.hold("a", label)] == ["0"]
    assert after.take("b", "gpu", 1)[0].name == "1"


def test_fewer_than_asked_for_is_no_matter_of_waiting(tmp_path: Path) -> None:
    with pytest.raises(HostlerError) as refused:
        book(machine(tmp_path, "dev/nvidia0")).take("a", "gpu", 2)
    assert refused.value.code == "incompatible"
