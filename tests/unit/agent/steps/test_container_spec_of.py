"""RN-09: what a container is asked to be, for each profile of security, and that nothing is left to an image."""

from typing import Any

import msgspec
import pytest

from hostler.agent.containers import spec
from hostler.agent.containers.device_book import Given
from hostler.agent.containers.workload import TaskFacts
from hostler.agent.steps.container_spec_of import CAPABILITIES, Decided, spec_of
from hostler.catalog.params.container import ContainerRun

LABELS = {
    getattr(spec, name)
    for name in ("TASK", "ATTEMPT", "STEP", "OPERATION", "JOB", "ORG", "PROJECT", "NODE", "PORTS", "PHASE", "ENVELOPE")
} | {spec.DEVICES}
FACTS = TaskFacts(
    job_id="op", job="/a/b", parent="", namespace="/a/b", task_id="t", attempt_uid="att_1", attempt_number=1,
    task_index=0, num_tasks=1, org_id="o", project_id="p", node_id="n", node_address="10.0.0.7", ports={"web": 20_001},
)  # fmt: skip


def decided(runtime: str = "docker", **params: Any) -> Decided:
    return Decided(
        params=msgspec.convert({"job": "/a/b", "command": ["x"], "setup": ["y"]} | params, ContainerRun),
        facts=FACTS, runtime=runtime, envelope_digest="e", step_id="run", image="i", mounts=(), bundle="",
        given=(Given("gpu", "0", "nvidia.com/gpu=0", (), ("/dev/nvidia0",)),),
        socket_directory="/s", scratch="/x", aliases=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        ("restricted", ("65534:65534", (), True, True, False)),
        ("default", ("", CAPABILITIES, True, False, False)),
        ("privileged", ("", CAPABILITIES, False, False, True)),
    ],
)
def test_RN_09_each_security_profile_is_written_out(security: str, expected: tuple[Any, ...]) -> None:
    made = spec_of(decided(security=security), spec.MAIN_PHASE)
    found = (made.user, made.capabilities, made.no_new_privileges, made.read_only_root, made.privileged)
    assert found == expected


def test_no_default_capability_reaches_beyond_a_container() -> None:
    assert not {"NET_RAW", "MKNOD", "SYS_CHROOT", "SETFCAP", "SYS_ADMIN", "AUDIT_WRITE"} & set(CAPABILITIES)


@pytest.mark.parametrize("phase", [spec.SETUP_PHASE, spec.MAIN_PHASE])
def test_TE_20_every_label_is_said_always_so_that_an_image_says_none(phase: str) -> None:
    made = spec_of(decided(), phase)
    assert set(made.labels) == LABELS
    assert (made.labels[spec.PHASE], made.labels[spec.PORTS], made.labels[spec.DEVICES]) == (
        phase, '{"web":20001}', "gpu=0",
    )  # fmt: skip


def test_RN_07_the_phases_differ_in_name_command_and_ports_alone() -> None:
    setup, main = spec_of(decided(), spec.SETUP_PHASE), spec_of(decided(), spec.MAIN_PHASE)
    assert (setup.name, main.name) == ("hostler-att_1-setup", "hostler-att_1")
    assert (setup.command, main.command) == (("y",), ("x",))
    assert (setup.ports, main.ports) == ({}, {"web": 20_001})
    assert (setup.binds, setup.devices, setup.limits, setup.environment) == (
        main.binds, main.devices, main.limits, main.environment,
    )  # fmt: skip
    assert main.devices.cdi == ("nvidia.com/gpu=0",)


def test_a_plain_process_keeps_no_capability_and_gets_a_path() -> None:
    made = spec_of(decided("process"), spec.MAIN_PHASE)
    assert (made.capabilities, made.working_dir) == ((), "/scratch")
    assert "PATH" in made.environment
    assert "PATH" not in spec_of(decided(), spec.MAIN_PHASE).environment
