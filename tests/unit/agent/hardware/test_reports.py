"""SK-10, SK-15..17: tools' output in its documented form is read; anything else is no report."""

import contextlib
import random
from pathlib import Path

import pytest

from hostler.agent.hardware import collective_tools, container_tools, device_tools
from hostler.agent.hardware.reports import MOST_DEVICES, Unreadable, address

TOOLS = Path(__file__).resolve().parents[3] / "fixtures" / "tools"
QUERY = "--query-gpu=index,uuid,pci.bus_id,name,driver_version,memory.total,ecc.errors.uncorrected.volatile.total"
SMI = (QUERY, "--format=csv,noheader,nounits")


def printed(name: str) -> str:
    return (TOOLS / name).read_text()


def test_nvidia_smi_is_read_by_the_columns_that_were_asked_for() -> None:
    first, second = device_tools.nvidia_smi(SMI, printed("nvidia-smi-h100.csv"))
    assert (first.index, first.pci, first.driver) == ("0", "0000:17:00.0", "535.161.08")
    assert (first.name, first.memory_bytes, first.uncorrected_errors) == ("NVIDIA H100 80GB HBM3", 81559 << 20, 0)
    assert (second.index, second.pci, second.fault) == ("1", "0000:3d:00.0", "")


def test_the_seed_s_own_profile_is_read_too() -> None:
    """seed 004 §4.7: utilization.gpu,memory.used,memory.total as csv,noheader, with units."""
    argv = ("--query-gpu=utilization.gpu,memory.used,memory.total", "--format=csv,noheader")
    devices = device_tools.nvidia_smi(argv, printed("nvidia-smi-seed.csv"))
    assert [(one.index, one.memory_bytes, one.driver) for one in devices] == [
        ("0", 81559 << 20, ""),
        ("1", 81559 << 20, ""),
    ]


def test_a_lost_nvidia_device_is_a_fault_and_what_is_not_supported_is_none() -> None:
    _, lost = device_tools.nvidia_smi(SMI, printed("nvidia-smi-lost.csv"))
    assert (lost.pci, lost.fault) == ("0000:3d:00.0", "[GPU is lost], [Unknown Error]")
    assert (lost.memory_bytes, lost.uncorrected_errors, lost.name) == (None, None, "")
    (plain,) = device_tools.nvidia_smi(SMI, "0, GPU-1, 00000000:01:00.0, A, 535.1, [N/A], [N/A]\n")
    assert (plain.memory_bytes, plain.uncorrected_errors, plain.fault) == (None, None, "")
    assert device_tools.nvidia_smi(SMI, "No devices were found\n") == ()


def test_a_header_is_no_device() -> None:
    argv = ("--query-gpu=index,name", "--format=csv")
    assert [one.name for one in device_tools.nvidia_smi(argv, "index, name\n0, NVIDIA L4\n")] == ["NVIDIA L4"]


def test_the_amd_tools_are_read() -> None:
    rocm = device_tools.rocm_smi((), printed("rocm-smi.json"))
    amd = device_tools.amd_smi((), printed("amd-smi.json"))
    for devices in (rocm, amd):
        assert [(one.index, one.pci, one.driver) for one in devices] == [
            ("0", "0000:0c:00.0", "6.7.0"),
            ("1", "0000:22:00.0", "6.7.0"),
        ]
    assert rocm[0].memory_bytes == 206141652992
    assert [one.uuid for one in amd] == ["0x8C42E11A5D2F6F8B", ""]
    inner = printed("amd-smi.json").partition("[")[2].rpartition("]")[0]
    assert device_tools.amd_smi((), f"[{inner}]") == amd  # before 6.4 it was a bare list
    assert device_tools.rocm_smi((), "WARNING: AMD GPU device(s) is/are in a low-power state\n\n{}") == ()


def test_the_intel_tool_is_read_in_both_forms() -> None:
    named = device_tools.xpu_smi(("discovery", "-j"), printed("xpu-smi.json"))
    dumped = device_tools.xpu_smi(("discovery", "--dump", "1,2,8,11"), printed("xpu-smi.csv"))
    assert [(one.index, one.pci) for one in named] == [(one.index, one.pci) for one in dumped]
    assert [one.driver for one in dumped] == ["1.3.27642"] * 2
    assert device_tools.xpu_smi((), '{"device_list": []}') == ()
    bad = '{"device_list": [{"device_id": 0, "device_state": "Wedged"}]}'
    assert device_tools.xpu_smi((), bad)[0].fault == "Wedged"


def test_an_opencl_processor_is_no_gpu() -> None:
    """Recorded: clinfo without a platform, and with pocl, which computes on the processor."""
    assert device_tools.clinfo((), printed("clinfo-none.json")) == ()
    assert device_tools.clinfo((), printed("clinfo-cpu.json")) == ()
    gpu = printed("clinfo-cpu.json").replace("CL_DEVICE_TYPE_CPU", "CL_DEVICE_TYPE_GPU")
    assert [one.index for one in device_tools.clinfo((), gpu)] == ["0"]


@pytest.mark.parametrize(
    ("tool", "argv", "text"),
    [
        ("nvidia-smi", SMI, "0, GPU-1\n"),
        ("nvidia-smi", SMI, "0, GPU-1, nonsense, A, 535.1, 1, 0\n"),
        ("nvidia-smi", SMI, "0, GPU-1, 00000000:01:00.0, A, 535.1, lots, 0\n"),
        ("nvidia-smi", SMI, "0, GPU-1, 00000000:01:00.0, A, 535.1, 1, -1\n"),
        ("nvidia-smi", SMI, "0, GPU-1, 00000000:01:00.0, \x1b[2J, 535.1, 1, 0\n"),
        ("nvidia-smi", SMI, "Tue Mar  5 22:42:15 2024\n+-----+\n"),
        ("nvidia-smi", ("-L",), "GPU 0: NVIDIA H100\n"),
        ("rocm-smi", (), "no json"),
        ("rocm-smi", (), "[]"),
        ("rocm-smi", (), '{"card0": 1}'),
        ("rocm-smi", (), '{"healthy": {}}'),
        ("rocm-smi", (), '{"card0": {"VRAM Total Memory (B)": "-1"}}'),
        ("rocm-smi", (), '{"card0": {"Card Series": ["x"]}}'),
        ("amd-smi", (), "{}"),
        ("amd-smi", (), '[{"asic": {}}]'),
        ("amd-smi", (), '[{"gpu": true}]'),
        ("amd-smi", (), "[" + ",".join(['{"gpu": 1}'] * (MOST_DEVICES + 1)) + "]"),
        ("xpu-smi", (), '{"error": "Level Zero Initialization Error", "errno": 7}'),
        ("xpu-smi", (), '{"device_list": {}}'),
        ("xpu-smi", ("discovery", "--dump", "1"), "Device ID,Device Name\n0\n"),
        ("clinfo", (), "{}"),
        ("clinfo", (), '{"platforms": [], "devices": [{"online": [{}]}]}'),
        ("clinfo", (), "x" * 100),
    ],
)
def test_what_is_not_in_its_form_is_no_report(tool: str, argv: tuple[str, ...], text: str) -> None:
    with pytest.raises(Unreadable):
        device_tools.READERS[tool](argv, text)


@pytest.mark.parametrize("name", ["nccl-tests.txt", "rccl-tests.txt"])
def test_a_collective_test_is_read_whole(name: str) -> None:
    test = collective_tools.collective((), printed(name))
    assert (test.ranks, test.rows, test.wrong) == (2, 3, 0)
    assert test.bus_bandwidth == (180.803 if name.startswith("nccl") else 121.5)


def test_wrong_values_are_counted_wherever_they_are_told() -> None:
    text = printed("nccl-tests.txt")
    wrong = text.replace("137.27      0 ", "137.27      7 ").replace("values : 0 OK", "values : 2 FAILED")
    assert collective_tools.collective((), wrong).wrong == 7 + 2 + 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# Out of bounds values : 0 OK\n", ""),
        ("# Avg bus bandwidth", "# bandwidth"),
        ("180.803", "nan"),
        ("180.803", "-1"),
        ("137.27      0 ", "137.27    N/A "),  # not validated
        ("137.27      0 ", "inf      0 "),
        ("#  Rank", "#  rank"),
        ("Rank  0 ", "Rank  5 "),
    ],
)
def test_a_collective_test_that_is_not_whole_proves_nothing(before: str, after: str) -> None:
    text = printed("nccl-tests.txt")
    assert before in text
    with pytest.raises(Unreadable):
        collective_tools.collective((), text.replace(before, after))


def test_a_table_without_rows_proves_nothing() -> None:
    lines = [line for line in printed("nccl-tests.txt").splitlines() if line.startswith("#")]
    with pytest.raises(Unreadable):
        collective_tools.collective((), "\n".join(lines))


def test_cdi_devices_are_counted_once_each() -> None:
    nvidia = container_tools.cdi((), printed("nvidia-ctk-cdi-list.txt"))
    assert (nvidia.devices, nvidia.names) == (2, ("nvidia.com/gpu=0", "nvidia.com/gpu=1"))
    amd = container_tools.cdi((), printed("amd-ctk-cdi-list.txt"))
    assert (amd.devices, amd.names) == (2, ("amd.com/gpu=0", "amd.com/gpu=1"))
    only_ids = container_tools.cdi((), "nvidia.com/gpu=GPU-1\nnvidia.com/gpu=GPU-2\n")
    assert only_ids.devices == 2
    assert container_tools.cdi((), "INFO[0000] Found 0 CDI devices\n").devices == 0
    assert container_tools.cdi((), "nvidia.com/gpu=all\n").devices == 0
    for text in ("everything is fine\n", "nvidia.com/gpu=$(id)\n", "=\n"):
        with pytest.raises(Unreadable):
            container_tools.cdi((), text)


def test_containerd_s_configuration_tells_its_handlers() -> None:
    assert container_tools.containerd((), printed("containerd-nvidia.toml")).names == ("cdi", "nvidia")
    assert container_tools.containerd((), printed("containerd-plain.toml")).names == ()
    for text in ("not toml", "version = 2\n", 'disabled_plugins = ["cri"]\n' + printed("containerd-plain.toml")):
        with pytest.raises(Unreadable):
            container_tools.containerd((), text.replace("version = 3\n", ""))


@pytest.mark.parametrize(
    ("text", "expected"), [("", ""), ("0000:3D:00.0", "0000:3d:00.0"), ("00000000:17:00.0", "0000:17:00.0")]
)
def test_addresses_are_written_as_sysfs_writes_them(text: str, expected: str) -> None:
    assert address(text) == expected


RECORDED = {
    "nvidia-smi": ("nvidia-smi-h100.csv", SMI),
    "rocm-smi": ("rocm-smi.json", ()),
    "amd-smi": ("amd-smi.json", ()),
    "xpu-smi": ("xpu-smi.csv", ("discovery", "--dump", "1,2,8,11")),
    "clinfo": ("clinfo-cpu.json", ()),
    "all_reduce_perf": ("nccl-tests.txt", ()),
    "nvidia-ctk": ("nvidia-ctk-cdi-list.txt", ()),
    "containerd": ("containerd-nvidia.toml", ()),
}
READERS = {**device_tools.READERS, **collective_tools.READERS, **container_tools.READERS}
EVIL = [
    "",
    "\0",
    "[" * 5000,
    "{" * 5000,
    "9" * 6000,
    "1e999",
    "-1",
    "\x1b[2J",
    '"',
    "\u0661",
    "\r",
    "=",
    "\n\n",
    "nan",
    "null",
]


@pytest.mark.parametrize("name", RECORDED)
def test_garbled_output_is_read_or_refused_and_nothing_else(name: str) -> None:
    recorded, argv = RECORDED[name]
    text, chance = printed(recorded), random.Random(name)
    tried = [evil * times for evil in EVIL for times in (1, 3)] + [f"a = {evil}" for evil in EVIL]
    for _ in range(300):
        start, length = chance.randrange(len(text)), chance.randrange(12)
        tried.append(text[:start] + chance.choice(EVIL) + text[start + length :])
    for garbled in tried:
        with contextlib.suppress(Unreadable):
            READERS[name](argv, garbled)
