"""SK-10, SK-15..17: the abstract kinds run what was resolved, judge it, and never call a node without a GPU healthy.

Machines and outputs are recorded or written down (`tests/fixtures`): nothing here says anything of a real device.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.host.host import Host
from hostler.agent.steps.contract import StepContext, Truth
from hostler.agent.steps.table import step_kind
from hostler.base.errors import HostlerError
from hostler.catalog.command_profile import command_profile_from
from hostler.catalog.kinds import ABSTRACT, KINDS
from hostler.catalog.load import load_profiles
from support.commands import ME, host_in
from support.gpu_tools import profile, tool
from support.hardware import plant
from support.steps import Told, context_of

DRIVER, RUNTIME = "gpu.driver.validate", "gpu.runtime.check"
FABRIC, CONTAINER = "gpu.fabric.verify", "gpu.container_runtime.check"
SHIPPED = load_profiles(Path(__file__).resolve().parents[4] / "profiles")


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    root = tmp_path / "root"
    root.mkdir()
    async with host_in(tmp_path, root=root) as made:
        yield made


def context(host: Host, kind: str, path: Path, /, **params: Any) -> StepContext:
    command = command_profile_from(profile("p", path, run_as=ME))
    made = context_of(KINDS[kind].params(**params), host, Told())
    return replace(made, command=command, hardware_match="1:gpu.vendor=nvidia")


async def failure(kind: str, step: StepContext) -> tuple[str, str]:
    with pytest.raises(HostlerError) as failed:
        await step_kind(kind).apply(step)
    return failed.value.code, failed.value.message


def test_every_abstract_kind_is_here() -> None:
    assert {name for name, kind in KINDS.items() if kind.abstract} == ABSTRACT
    assert all(step_kind(name).name == name for name in ABSTRACT)


# -- devices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [DRIVER, RUNTIME])
@pytest.mark.parametrize(
    ("machine", "program", "recorded"),
    [
        ("nvidia_h100", "nvidia-smi", "nvidia-smi-h100.csv"),
        ("amd_mi300x", "rocm-smi", "rocm-smi.json"),
        ("amd_mi300x", "amd-smi", "amd-smi.json"),
        ("intel_max", "xpu-smi", "xpu-smi.json"),
    ],
)
async def test_SK_10_SK_15_each_vendor_s_report_gives_typed_results(
    host: Host, tmp_path: Path, kind: str, machine: str, program: str, recorded: str
) -> None:
    plant(machine, host.root)
    step = context(host, kind, tool(tmp_path / "bin", program, recorded), minimum_devices=2)
    outcome = await step_kind(kind).apply(step)
    assert [device["index"] for device in outcome.outputs["devices"]] == ["0", "1"]
    assert outcome.outputs["resolved_profile"] == "p"
    assert set(outcome.outputs) == set(KINDS[kind].outputs)
    assert (outcome.changed, outcome.exit_status) == (False, 0)


@pytest.mark.parametrize("kind", sorted(ABSTRACT))
@pytest.mark.parametrize("machine", ["", "none", "tpu_v5e", "roce"])
async def test_SK_10_without_a_gpu_nothing_a_tool_prints_is_health(
    host: Host, tmp_path: Path, kind: str, machine: str
) -> None:
    """Issue item 7: absent hardware is never presented as present."""
    if machine:
        plant(machine, host.root)
    program, recorded = {
        FABRIC: ("all_reduce_perf", "nccl-tests.txt"),
        CONTAINER: ("nvidia-ctk", "nvidia-ctk-cdi-list.txt"),
    }.get(kind, ("nvidia-smi", "nvidia-smi-h100.csv"))
    code, message = await failure(kind, context(host, kind, tool(tmp_path / "bin", program, recorded)))
    assert (code, message) == ("no_device", "the PCI bus of this node shows no GPU")


@pytest.mark.parametrize("kind", sorted(ABSTRACT))
async def test_SK_10_the_shipped_fallback_does_not_report_health_on_this_machine(host: Host, kind: str) -> None:
    """The real profiles, on a root without a GPU: not installed here, or an honest empty answer."""
    commands = {one.id: one for one, _ in SHIPPED.commands}
    name = SHIPPED.configs["default"].hardware_profiles[-1].overrides[kind]
    made = context_of(KINDS[kind].params(), host, Told())
    step = replace(made, command=replace_user(commands[name]), hardware_match="4:*")
    code, _ = await failure(kind, step)
    assert code in {"command_not_found", "no_device", "report_invalid", "sandbox_unavailable", "exit_status"}


def replace_user(command: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(command, run_as=ME)


@pytest.mark.parametrize(
    ("params", "recorded", "code", "names"),
    [
        ({"minimum_devices": 3}, "nvidia-smi-h100.csv", "no_device", "at least 3"),
        ({}, "nvidia-smi-lost.csv", "device_unhealthy", "device 1 at 0000:3d:00.0 does not answer: [GPU is lost]"),
        ({"driver_series": "550"}, "nvidia-smi-h100.csv", "driver_mismatch", "device 0 at 0000:17:00.0 has driver 535"),
        ({"driver_series": "53"}, "nvidia-smi-h100.csv", "driver_mismatch", "series 53"),
        ({"minimum_driver": "535.162"}, "nvidia-smi-h100.csv", "driver_mismatch", "older than 535.162"),
    ],
)
async def test_a_device_that_is_not_as_expected_is_named_with_the_reason(
    host: Host, tmp_path: Path, params: dict[str, Any], recorded: str, code: str, names: str
) -> None:
    plant("nvidia_h100", host.root)
    path = tool(tmp_path / "bin", "nvidia-smi", recorded)
    for kind in (DRIVER, RUNTIME):
        found, message = await failure(kind, context(host, kind, path, **params))
        assert found == code
        assert names in message


@pytest.mark.parametrize("good", [{"driver_series": "535"}, {"driver_series": "535.161"}, {"minimum_driver": "535.54"}])
async def test_the_expected_driver_passes(host: Host, tmp_path: Path, good: dict[str, str]) -> None:
    plant("nvidia_h100", host.root)
    path = tool(tmp_path / "bin", "nvidia-smi", "nvidia-smi-h100.csv")
    assert (await step_kind(DRIVER).apply(context(host, DRIVER, path, **good))).outputs["driver"] == "535.161.08"


async def test_a_tool_that_tells_no_driver_cannot_prove_one(host: Host, tmp_path: Path) -> None:
    plant("intel_max", host.root)
    path = tool(tmp_path / "bin", "xpu-smi", "xpu-smi.json")
    code, message = await failure(DRIVER, context(host, DRIVER, path, driver_series="1.3"))
    assert (code, message) == (
        "driver_mismatch",
        "device 0 at 0000:29:00.0 does not tell the version of its driver",
    )


async def test_a_device_on_the_bus_that_the_tool_does_not_list_is_named(host: Host, tmp_path: Path) -> None:
    plant("nvidia_h100", host.root)
    path = tool(tmp_path / "bin", "nvidia-smi", "nvidia-smi-h100.csv")
    listed = path.parent / "nvidia-smi.out"
    listed.write_text(listed.read_text().splitlines()[0] + "\n")
    code, message = await failure(DRIVER, context(host, DRIVER, path))
    assert (code, "0000:3d:00.0" in message) == ("device_unhealthy", True)
    assert (await step_kind(DRIVER).apply(context(host, DRIVER, path, every_device=False))).outputs["driver"]


async def test_a_tool_that_lists_more_than_the_bus_shows_proves_no_more(host: Host, tmp_path: Path) -> None:
    plant("nvidia_h100", host.root)
    shutil.rmtree(host.root / "sys/bus/pci/devices/0000:3d:00.0")
    path = tool(tmp_path / "bin", "nvidia-smi", "nvidia-smi-h100.csv")
    code, message = await failure(DRIVER, context(host, DRIVER, path, minimum_devices=2))
    assert (code, "2 devices answer and 1 are on the PCI bus" in message) == ("no_device", True)


async def test_memory_errors_and_missing_memory_are_faults_of_one_device(host: Host, tmp_path: Path) -> None:
    plant("nvidia_h100", host.root)
    path = tool(tmp_path / "bin", "nvidia-smi", "nvidia-smi-h100.csv")
    code, message = await failure(RUNTIME, context(host, RUNTIME, path, minimum_memory_bytes=1 << 40))
    assert (code, "device 0 at 0000:17:00.0 has" in message) == ("device_unhealthy", True)
    listed = path.parent / "nvidia-smi.out"
    listed.write_text(listed.read_text().replace("81559, 0\n1", "81559, 3\n1"))
    code, message = await failure(RUNTIME, context(host, RUNTIME, path))
    assert (code, "3 uncorrected memory errors" in message) == ("device_unhealthy", True)
    await step_kind(RUNTIME).apply(context(host, RUNTIME, path, maximum_uncorrected_errors=3))


async def test_a_driver_without_its_runtime_library_is_not_ready(host: Host, tmp_path: Path) -> None:
    plant("nvidia_h100", host.root)
    shutil.rmtree(host.root / "usr/lib")
    path = tool(tmp_path / "bin", "nvidia-smi", "nvidia-smi-h100.csv")
    assert (await failure(RUNTIME, context(host, RUNTIME, path)))[0] == "runtime_missing"
    await step_kind(RUNTIME).apply(context(host, RUNTIME, path, compute_runtime=False))


async def test_an_exit_code_is_told_as_the_manual_tells_it(host: Host, tmp_path: Path) -> None:
    plant("nvidia_h100", host.root)
    path = tool(tmp_path / "bin", "nvidia-smi", "", status=9)
    code, message = await failure(DRIVER, context(host, DRIVER, path))
    assert (code, message) == ("exit_status", f"{path} ended with exit code 9: the driver is not loaded")


@pytest.mark.parametrize("kind", sorted(ABSTRACT))
async def test_what_an_unknown_program_prints_is_not_believed(host: Host, tmp_path: Path, kind: str) -> None:
    plant("nvidia_h100", host.root)
    path = tool(tmp_path / "bin", "all-good", "nvidia-smi-h100.csv")
    code, message = await failure(kind, context(host, kind, path))
    assert (code, "all-good" in message) == ("report_invalid", True)


async def test_an_output_that_is_not_whole_is_no_report(host: Host, tmp_path: Path) -> None:
    """The beginning of a long one is gone; what is left may look whole."""
    plant("nvidia_h100", host.root)
    path = tool(tmp_path / "bin", "nvidia-smi", "nvidia-smi-h100.csv")
    row = (path.parent / "nvidia-smi.out").read_text().splitlines()[0] + "\n"
    (path.parent / "nvidia-smi.out").write_text(row * 700)
    assert await failure(DRIVER, context(host, DRIVER, path)) == (
        "report_invalid",
        f"the output of {path} was not captured, or not whole",
    )


# -- fabric and containers -------------------------------------------------------------------------


async def test_SK_16_a_collective_test_is_judged_by_its_bandwidth(host: Host, tmp_path: Path) -> None:
    plant("nvidia_h100", host.root)
    path = tool(tmp_path / "bin", "all_reduce_perf", "nccl-tests.txt")
    step = context(host, FABRIC, path, minimum_devices=2, minimum_bus_bandwidth=180)
    outcome = await step_kind(FABRIC).apply(step)
    assert outcome.outputs == {"resolved_profile": "p", "ranks": 2, "sizes": 3, "bus_bandwidth": 180.803}
    code, message = await failure(FABRIC, context(host, FABRIC, path, minimum_bus_bandwidth=181))
    assert (code, message) == (
        "bandwidth_low",
        "180.803 GB/s on the bus between 2 devices, at least 181 GB/s are required",
    )


async def test_SK_16_a_wrong_value_fails_at_any_speed(host: Host, tmp_path: Path) -> None:
    plant("nvidia_h100", host.root)
    path = tool(tmp_path / "bin", "all_reduce_perf", "nccl-tests.txt")
    listed = path.parent / "all_reduce_perf.out"
    listed.write_text(listed.read_text().replace("137.27      0 ", "137.27      1 "))
    code, message = await failure(FABRIC, context(host, FABRIC, path))
    assert (code, "1 wrong values" in message) == ("bandwidth_low", True)


async def test_SK_16_a_device_that_took_no_part_is_missed(host: Host, tmp_path: Path) -> None:
    plant("nvidia_h100", host.root)
    path = tool(tmp_path / "bin", "all_reduce_perf", "nccl-tests.txt")
    listed = path.parent / "all_reduce_perf.out"
    lines = [line for line in listed.read_text().splitlines() if "Rank  1" not in line]
    listed.write_text("\n".join(lines))
    assert (await failure(FABRIC, context(host, FABRIC, path)))[0] == "device_unhealthy"
    await step_kind(FABRIC).apply(context(host, FABRIC, path, every_device=False))


async def test_SK_16_the_test_is_told_how_many_devices_the_bus_shows(host: Host, tmp_path: Path) -> None:
    plant("nvidia_h100", host.root)
    commands = {one.id: one for one, _ in SHIPPED.commands}
    step = replace(context(host, FABRIC, tmp_path / "x"), command=commands["nccl_allreduce_test"])
    from hostler.agent.steps.gpu_check import resolved

    assert resolved(step)[1][-2:] == ("-g", "2")


@pytest.mark.parametrize(
    ("machine", "program", "recorded", "names"),
    [
        ("nvidia_h100", "nvidia-ctk", "nvidia-ctk-cdi-list.txt", ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]),
        ("amd_mi300x", "amd-ctk", "amd-ctk-cdi-list.txt", ["amd.com/gpu=0", "amd.com/gpu=1"]),
        ("intel_max", "containerd", "containerd-nvidia.toml", ["cdi", "nvidia"]),
    ],
)
async def test_SK_17_containers_can_be_given_the_devices(
    host: Host, tmp_path: Path, machine: str, program: str, recorded: str, names: list[str]
) -> None:
    plant(machine, host.root)
    step = context(host, CONTAINER, tool(tmp_path / "bin", program, recorded), minimum_devices=2)
    outcome = await step_kind(CONTAINER).apply(step)
    assert (outcome.outputs["devices"], outcome.outputs["names"]) == (2, names)
    assert set(outcome.outputs) == set(KINDS[CONTAINER].outputs)


async def test_SK_17_a_runtime_that_knows_no_device_is_not_ready(host: Host, tmp_path: Path) -> None:
    plant("nvidia_h100", host.root)
    plain = tool(tmp_path / "bin", "containerd", "containerd-plain.toml")
    assert (await failure(CONTAINER, context(host, CONTAINER, plain)))[0] == "runtime_missing"
    empty = tool(tmp_path / "bin", "nvidia-ctk", "")
    assert (await failure(CONTAINER, context(host, CONTAINER, empty)))[0] == "no_device"
    full = tool(tmp_path / "bin", "nvidia-ctk", "nvidia-ctk-cdi-list.txt")
    (host.root / "run/containerd/containerd.sock").unlink()
    assert (await failure(CONTAINER, context(host, CONTAINER, full)))[0] == "runtime_missing"


# -- plan, probe, cancel, timeout ------------------------------------------------------------------


async def test_a_plan_names_the_resolved_profile_and_the_rule_and_runs_nothing(host: Host, tmp_path: Path) -> None:
    path = tool(tmp_path / "bin", "nvidia-smi", "nvidia-smi-h100.csv")
    step = context(host, DRIVER, path)
    (change,) = (await step_kind(DRIVER).plan(step)).changes
    assert (change.action, change.target) == ("check", str(path))
    assert change.detail == "p by rule 1:gpu.vendor=nvidia; changes nothing"
    assert not (tmp_path / "spool").exists()


async def test_a_step_that_nobody_resolved_is_refused(host: Host, tmp_path: Path) -> None:
    step = replace(context(host, DRIVER, tmp_path / "x"), command=None)
    assert (await failure(DRIVER, step))[0] == "no_resolver"


@pytest.mark.parametrize("kind", sorted(ABSTRACT))
async def test_a_check_that_was_cut_off_looks_again(host: Host, tmp_path: Path, kind: str) -> None:
    probe = await step_kind(kind).probe(context(host, kind, tmp_path / "x"))
    assert probe.truth is Truth.NOT_DONE


async def test_a_check_ends_by_cancel_and_by_its_deadline(host: Host, tmp_path: Path) -> None:
    plant("nvidia_h100", host.root)
    slow = tmp_path / "bin" / "all_reduce_perf"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    slow.chmod(0o755)
    cancelled = asyncio.Event()
    cancelled.set()
    step = replace(context(host, FABRIC, slow), cancelled=cancelled)
    assert (await failure(FABRIC, step))[0] == "canceled"
    late = context(host, FABRIC, slow)
    timed = command_profile_from(profile("p", slow, run_as=ME, timeout_seconds=1))
    assert (await failure(FABRIC, replace(late, command=timed)))[0] == "timeout"
