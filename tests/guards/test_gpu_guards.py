# ruff: noqa: E501 - a table: one guard a line
"""Guards of hardware detection, the GPU checks and the fabric check, taken out once; a test must go red."""

import pytest

from support.mutant import Guard, outcome_without

H, S = "hostler.agent.hardware", "hostler.agent.steps"
DETECT, REPORTS = "tests/unit/agent/hardware/test_detect.py", "tests/unit/agent/hardware/test_reports.py"
KINDS = "tests/unit/agent/steps/test_gpu_kinds.py"
FABRIC, LINT = "tests/unit/agent/steps/test_network_fabric_verify.py", "tests/unit/catalog/test_lint.py"

GUARDS = {
    "only regular files are read": (f"{H}.tree", "if not stat.S_ISREG(os.fstat(fd).st_mode):", "if False:", f"{DETECT}::test_what_is_no_regular_file_is_not_read"),
    "os-release gives plain words": (f"{H}.software", "if _WORD.fullmatch(words[0]) else", "if words[0] else", f"{DETECT}::test_os_release_is_read_from_the_root_and_only_as_plain_words"),
    "an OpenCL processor is no GPU": (f"{H}.device_tools", "if _COMPUTES & {word(kind, \"type\") for kind in listing(kinds, \"type\")}:", "if True:", f"{REPORTS}::test_an_opencl_processor_is_no_gpu"),
    "an error in a column is a fault": (f"{H}.device_tools", "value.startswith((\"[\", \"ERR!\"))", "False", f"{REPORTS}::test_a_lost_nvidia_device_is_a_fault_and_what_is_not_supported_is_none"),
    "words are printable": (f"{H}.reports", "or not text.isprintable():", "or False:", f"{REPORTS}::test_what_is_not_in_its_form_is_no_report"),
    "a table is whole": (f"{H}.collective_tools", "if bounds is None or average is None or not rows:", "if False:", f"{REPORTS}::test_a_collective_test_that_is_not_whole_proves_nothing"),
    "ranks are named": (f"{H}.collective_tools", "if not ranks or ranks != set(range(len(ranks))):", "if False:", f"{REPORTS}::test_a_collective_test_that_is_not_whole_proves_nothing"),
    "results were validated": (f"{H}.collective_tools", "if not all(re.fullmatch(r\"[0-9]{1,18}\", cell) for cell in found):", "found = tuple(c if c.isdigit() else \"0\" for c in found)\n    if False:", f"{REPORTS}::test_a_collective_test_that_is_not_whole_proves_nothing"),
    "a node without a device has none": (f"{S}.gpu_check", "if node.gpus.count == 0:", "if False:", f"{KINDS}::test_SK_10_without_a_gpu_nothing_a_tool_prints_is_health[none-gpu.runtime.check]"),
    "the bus bounds what a tool claims": (f"{S}.gpu_check", "if min(answered, node.gpus.count) < wanted:", "if answered < wanted:", f"{KINDS}::test_a_tool_that_lists_more_than_the_bus_shows_proves_no_more"),
    "every device takes part": (f"{S}.gpu_check", "if every and answered < node.gpus.count:", "if False:", f"{KINDS}::test_SK_16_a_device_that_took_no_part_is_missed"),
    "only known tools are believed": (f"{S}.gpu_check", "if program not in self.readers:", "if False:", f"{KINDS}::test_what_an_unknown_program_prints_is_not_believed[gpu.driver.validate]"),
    "an output is whole": (f"{S}.gpu_check", "or len(finished.stdout) >= MOST_CHARACTERS:", "or False:", f"{KINDS}::test_an_output_that_is_not_whole_is_no_report"),
    "a fault fails": (f"{S}.gpu_devices", "if device.fault:", "if False:", f"{KINDS}::test_a_device_that_is_not_as_expected_is_named_with_the_reason"),
    "a silent device is missed": (f"{S}.gpu_devices", "if told and silent:", "if False:", f"{KINDS}::test_a_device_on_the_bus_that_the_tool_does_not_list_is_named"),
    "an untold driver proves nothing": (f"{S}.gpu_devices", "if not have:", "if False:", f"{KINDS}::test_a_tool_that_tells_no_driver_cannot_prove_one"),
    "the driver is new enough": (f"{S}.gpu_devices", "if have < numbers(params.minimum_driver):", "if False:", f"{KINDS}::test_a_device_that_is_not_as_expected_is_named_with_the_reason"),
    "wrong values fail": (f"{S}.gpu_fabric_verify", "if test.wrong:", "if False:", f"{KINDS}::test_SK_16_a_wrong_value_fails_at_any_speed"),
    "the bandwidth is reached": (f"{S}.gpu_fabric_verify", "if test.bus_bandwidth < params.minimum_bus_bandwidth:", "if False:", f"{KINDS}::test_SK_16_a_collective_test_is_judged_by_its_bandwidth"),
    "a container runtime is there": (f"{S}.gpu_container_runtime_check", "if node.container_runtime == \"other\":", "if False:", f"{KINDS}::test_SK_17_a_runtime_that_knows_no_device_is_not_ready"),
    "a port is active": (f"{S}.fabric_rules", "if not port.active:", "if False:", f"{FABRIC}::test_SK_11_a_port_that_is_not_as_required_is_named"),
    "an absent counter fails": (f"{S}.fabric_rules", "        if value is None:\n            yield", "        if value is None:\n            continue\n            yield", f"{FABRIC}::test_SK_11_a_port_that_is_not_as_required_is_named"),
    "enough ports": (f"{S}.fabric_rules", "if len(active) >= wanted:", "if True:", f"{FABRIC}::test_SK_11_too_few_active_ports_name_those_that_are_not"),
    "something is required": (f"{S}.network_fabric_verify", "if not (params.interfaces or params.rdma_ports or params.active_ports):", "if False:", f"{FABRIC}::test_a_verification_that_requires_nothing_does_not_succeed"),
    "device files are exactly those": ("hostler.catalog.effects", "if _DEVICES.fullmatch(path):", "if path.startswith(\"/dev/\"):", f"{LINT}::test_J2_effects_are_declared_and_never_so_wide_that_they_mean_everything"),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_of_hardware_a_test_fails(name: str) -> None:
    module, text, without, test = GUARDS[name]
    done = outcome_without(Guard(module, text, without), test)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
