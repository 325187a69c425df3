"""RN-09: every field of a specification has its place in CRI, and nothing that was not asked for gets one."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.containers import cri_spec
from hostler.agent.containers.cri_noted import Noted
from hostler.agent.containers.runtime import State
from hostler.agent.containers.spec import ATTEMPT, PHASE, Bind, ContainerSpec, Devices, Limits
from hostler.base.errors import HostlerError
from hostler.cri.v1 import api_pb2 as cri

SPEC = ContainerSpec(
    name="a1-main",
    image="sha256:0123",
    command=("/bin/train", "--fast"),
    environment={"A": "1", "B": "two words"},
    labels={ATTEMPT: "a1", PHASE: "main", "hostler.job": "/u/j"},
    limits=Limits(cpu_millis=2500, memory_bytes=1 << 30, shm_bytes=1 << 28, pids=77),
    devices=Devices(cdi=("nvidia.com/gpu=0",), nodes=("/dev/nvidia0",)),
    binds=(Bind("/data", "/mnt"), Bind("/out", "/out", read_only=False)),
    ports={"http": 31000, "actor": 31001},
    user="1000:2000",
    working_dir="/app",
    capabilities=("CAP_CHOWN", "kill"),
    read_only_root=True,
)


def changed(**fields: object) -> ContainerSpec:
    return dataclasses.replace(SPEC, **fields)  # type: ignore[arg-type]


def made(spec: ContainerSpec = SPEC) -> cri.ContainerConfig:
    return cri_spec.container_config(spec, unified=True, shm="/dev/shm/hostler/a1")


def back(config: cri.ContainerConfig, sandbox: cri.PodSandboxConfig) -> ContainerSpec:
    """The other way, by the words of CRI alone."""
    linux, walls = config.linux.resources, config.linux.security_context
    return ContainerSpec(
        name=config.metadata.name,
        image=config.image.image,
        command=tuple(config.command),
        environment={pair.key: pair.value for pair in config.envs},
        labels={key: value for key, value in config.labels.items() if key != cri_spec.NAME},
        limits=Limits(
            cpu_millis=linux.cpu_quota * 1000 // (linux.cpu_period or 1),
            memory_bytes=linux.memory_limit_in_bytes,
            shm_bytes=SPEC.limits.shm_bytes if config.mounts[-1].container_path == "/dev/shm" else 0,
            pids=int(linux.unified["pids.max"]),
        ),
        devices=Devices(tuple(d.name for d in config.CDI_devices), tuple(d.host_path for d in config.devices)),
        binds=tuple(Bind(m.host_path, m.container_path, m.readonly) for m in config.mounts[:-1]),
        ports={"actor": sandbox.port_mappings[1].host_port, "http": sandbox.port_mappings[0].container_port},
        host_network=walls.namespace_options.network == cri.NODE,
        user=f"{walls.run_as_user.value}:{walls.run_as_group.value}",
        working_dir=config.working_dir,
        capabilities=SPEC.capabilities if list(walls.capabilities.add_capabilities) == ["CHOWN", "KILL"] else (),
        no_new_privileges=walls.no_new_privs,
        read_only_root=walls.readonly_rootfs,
        privileged=walls.privileged,
    )


def test_RN_09_every_field_comes_back() -> None:
    assert back(made(), cri_spec.sandbox_config(SPEC, Path("/logs"))) == SPEC


def test_RN_09_every_field_changes_something() -> None:
    """A field that the mapping forgot would leave both messages as they are."""
    others = {
        "name": "a1-setup", "image": "x", "command": ("/x",), "environment": {}, "labels": {"x": "y"},
        "limits": Limits(1, 1, 1, 1), "devices": Devices(), "binds": (), "ports": {}, "host_network": True, "user": "5",
        "working_dir": "/x", "capabilities": (), "no_new_privileges": False, "read_only_root": False,
        "privileged": True,
    }  # fmt: skip
    fields = {field.name for field in dataclasses.fields(ContainerSpec)}
    assert fields - {"log_bytes"} == set(others)  # that one is kept by the runtime, which turns files away
    for name, value in others.items():
        other = changed(**{name: value})
        both = (made(other), cri_spec.sandbox_config(other, Path("/logs")))
        assert both != (made(), cri_spec.sandbox_config(SPEC, Path("/logs"))), name


def test_RN_09_no_limit_is_no_limit() -> None:
    linux = made(changed(limits=Limits())).linux.resources
    assert linux == cri.LinuxContainerResources()
    assert not cri_spec.container_config(SPEC, unified=False).linux.resources.unified


def test_RN_02_setup_and_main_share_the_sandbox_of_their_attempt() -> None:
    setup = changed(name="a1-setup", labels={**SPEC.labels, PHASE: "setup"})
    sandboxes = [cri_spec.sandbox_config(each, Path("/logs")) for each in (SPEC, setup)]
    assert sandboxes[0] == sandboxes[1]
    assert sandboxes[0].metadata.name == "a1"
    assert PHASE not in sandboxes[0].labels


def test_RN_10_the_node_s_network_needs_no_ports() -> None:
    sandbox = cri_spec.sandbox_config(changed(host_network=True), Path("/logs"))
    assert sandbox.linux.security_context.namespace_options.network == cri.NODE
    assert not sandbox.port_mappings


@pytest.mark.parametrize("host_network", [False, True])
def test_processes_of_the_node_are_never_seen(host_network: bool) -> None:
    spec = changed(host_network=host_network, privileged=True)
    options = [
        made(spec).linux.security_context.namespace_options,
        cri_spec.sandbox_config(spec, Path("/logs")).linux.security_context.namespace_options,
    ]
    assert [(each.pid, each.ipc) for each in options] == [(cri.CONTAINER, cri.POD)] * 2


def test_nothing_is_privileged_that_was_not_asked_to_be() -> None:
    assert not made().linux.security_context.privileged
    assert not cri_spec.sandbox_config(SPEC, Path("/logs")).linux.security_context.privileged
    kinds = [
        made().linux.security_context.seccomp.profile_type,
        cri_spec.sandbox_config(SPEC, Path("/logs")).linux.security_context.seccomp.profile_type,
    ]
    assert kinds == [cri.SecurityProfile.RuntimeDefault] * 2


def test_all_capabilities_are_dropped_but_those_that_are_kept() -> None:
    walls = made().linux.security_context.capabilities
    assert (list(walls.drop_capabilities), list(walls.add_capabilities)) == (["ALL"], ["CHOWN", "KILL"])
    assert list(made(changed(capabilities=())).linux.security_context.capabilities.drop_capabilities) == ["ALL"]


@pytest.mark.parametrize("name", ["SYS_ADMIN", "CAP_SYS_PTRACE", "net_admin", "ALL"])
def test_a_capability_beyond_the_default_set_is_refused(name: str) -> None:
    with pytest.raises(HostlerError) as refused:
        made(changed(capabilities=(name,)))
    assert refused.value.code == "container_failed"


def test_no_new_privileges_stands_unless_it_was_lifted() -> None:
    assert made().linux.security_context.no_new_privs
    assert not made(changed(no_new_privileges=False)).linux.security_context.no_new_privs


@pytest.mark.parametrize(
    ("user", "number", "name", "group"), [("", 0, "", 0), ("app", 0, "app", 0), ("7", 7, "", 0), ("7:8", 7, "", 8)]
)
def test_a_user_is_a_name_or_numbers(user: str, number: int, name: str, group: int) -> None:
    walls = made(changed(user=user)).linux.security_context
    assert (walls.run_as_user.value, walls.run_as_username, walls.run_as_group.value) == (number, name, group)
    assert walls.HasField("run_as_user") == bool(number)


@pytest.mark.parametrize(
    ("code", "reason", "state", "number"),
    [
        (0, "Completed", State.EXITED, 0),
        (3, "Error", State.EXITED, 0),
        (128, "Error", State.EXITED, 0),
        (137, "Error", State.KILLED, 9),
        (143, "Error", State.KILLED, 15),
        (192, "Error", State.KILLED, 64),
        (193, "Error", State.EXITED, 0),
        (255, "Error", State.EXITED, 0),
        (137, "OOMKilled", State.OOM, 9),
        (1, "OOMKilled", State.OOM, 0),
        (0, "OOMKilled", State.EXITED, 0),  # it lost a child and did its work all the same
    ],
)
def test_RN_08_ends_are_told_apart(code: int, reason: str, state: State, number: int) -> None:
    said = cri.ContainerStatus(
        state=cri.CONTAINER_EXITED, exit_code=code, reason=reason, started_at=2_000_000, finished_at=1_000_000
    )
    status = cri_spec.status_of(said, 99, "10.0.0.1")
    assert (status.state, status.exit_code, status.signal, status.pid) == (state, code, number, 0)
    assert (status.started_at_ms, status.finished_at_ms) == (2, 2), "a very short one may end before it began"


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (cri.CONTAINER_CREATED, State.CREATED),
        (cri.CONTAINER_RUNNING, State.RUNNING),
        (cri.CONTAINER_UNKNOWN, State.UNKNOWN),
    ],
)
def test_RN_08_what_has_not_ended_is_no_end(said: cri.ContainerState, state: State) -> None:
    status = cri_spec.status_of(cri.ContainerStatus(state=said, exit_code=7), 12, "")
    assert (status.state, status.ended, status.exit_code) == (state, False, 0)
    assert cri_spec.listed_state(cri.Container(state=said), Noted(), 0) is state


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("Unknown", "", State.LOST),
        ("StartError", "failed to start shim: signal: killed: unknown", State.LOST),
        ("StartError", 'failed to start containerd task "a": context canceled', State.LOST),
        ("StartError", "failed to create containerd task: task a: already exists", State.UNSTARTED),
        (
            "StartError",
            "failed to create containerd task: failed to create shim task: context canceled",
            State.UNSTARTED,
        ),
        ("StartError", "failed to create containerd task: OCI runtime create failed: signal: killed", State.UNSTARTED),
        (
            "StartError",
            "failed to create containerd task: OCI runtime create failed: namespace path: lstat /proc/0/ns/ipc",
            State.UNSTARTED,
        ),
        ("StartError", 'sandbox container "b" is not running', State.UNSTARTED),
        ("StartError", "OCI runtime create failed: exec: no such file or directory", State.EXITED),
        ("Error", "", State.EXITED),
    ],
)
def test_K3_what_the_runtime_lost_is_no_failure_of_the_command(reason: str, message: str, expected: State) -> None:
    said = cri.ContainerStatus(state=cri.CONTAINER_EXITED, exit_code=128, reason=reason, message=message)
    status = cri_spec.status_of(said, 0, "")
    assert (status.state, status.ended, status.signal) == (expected, True, 0)


def _ended(code: int, reason: str = "Error", **more: Any) -> cri.ContainerStatus:
    return cri.ContainerStatus(state=cri.CONTAINER_EXITED, exit_code=code, reason=reason, finished_at=9_000_000, **more)


@pytest.mark.parametrize("said", [_ended(255, "Unknown"), cri.ContainerStatus(state=cri.CONTAINER_UNKNOWN)])
def test_K3_an_end_that_containerd_has_forgotten_is_what_its_shim_told(said: cri.ContainerStatus) -> None:
    status = cri_spec.status_of(said, 0, "", Noted(ended_at_ms=5, exit_code=7))
    assert (status.state, status.exit_code, status.finished_at_ms) == (State.EXITED, 7, 5)
    status = cri_spec.status_of(said, 0, "", Noted(ended_at_ms=5, exit_code=143))
    assert (status.state, status.signal) == (State.KILLED, 15)


def test_K3_an_end_that_cri_has_missed_is_what_its_shim_told_once_cri_has_had_the_time() -> None:
    said, now_ms = cri.ContainerStatus(state=cri.CONTAINER_RUNNING, started_at=4_000_000), 5 + cri_spec.UNHEARD_MS + 1
    noted = Noted(ended_at_ms=5, exit_code=7)
    status = cri_spec.status_of(said, 12, "", noted, now_ms)
    assert (status.state, status.exit_code, status.finished_at_ms, status.pid) == (State.EXITED, 7, 5, 0)
    assert cri_spec.status_of(said, 12, "", noted, now_ms - 1).state is State.RUNNING
    assert cri_spec.status_of(said, 12, "", Noted(), now_ms).state is State.RUNNING


def test_P9_a_success_that_its_shim_has_told_is_one_before_cri_hears_of_it() -> None:
    """Nothing that CRI may add changes it; a failure may turn out to be for want of memory."""
    said = cri.ContainerStatus(state=cri.CONTAINER_RUNNING, started_at=4_000_000)
    status = cri_spec.status_of(said, 12, "", Noted(ended_at_ms=5), 5)
    assert (status.state, status.exit_code, status.started_at_ms, status.finished_at_ms) == (State.EXITED, 0, 4, 5)
    assert cri_spec.status_of(said, 12, "", Noted(ended_at_ms=5, exit_code=137), 5).state is State.RUNNING


def test_K3_what_containerd_cannot_tell_is_lost_once_nothing_of_it_is_there() -> None:
    said = cri.ContainerStatus(state=cri.CONTAINER_UNKNOWN)
    assert not cri_spec.status_of(said, 0, "").ended
    assert cri_spec.status_of(said, 0, "", Noted(gone=True)).state is State.LOST


@pytest.mark.parametrize(
    ("said", "noted", "expected"),
    [
        (_ended(137), Noted(), State.LOST),  # nobody has looked
        (_ended(137), Noted(cut=True, begun=True), State.LOST),
        (_ended(137), Noted(cut=True), State.UNSTARTED),
        (_ended(137, started_at=1), Noted(cut=True), State.KILLED),
        (_ended(1), Noted(cut=True), State.EXITED),  # a program can be that quick
        (_ended(1), Noted(cut=True, unbegun=True), State.UNSTARTED),
    ],
)
def test_K3_a_start_that_was_cut_off_is_begun_again_only_where_nothing_ran(
    said: cri.ContainerStatus, noted: Noted, expected: State
) -> None:
    assert cri_spec.status_of(said, 0, "", noted).state is expected


def test_K3_only_a_start_that_was_cut_off_can_end_as_runc_itself() -> None:
    assert cri_spec.may_be_unbegun(_ended(1), Noted(cut=True))
    for said, noted in ((_ended(1), Noted()), (_ended(1), Noted(cut=True, begun=True))):
        assert not cri_spec.may_be_unbegun(said, noted)
    assert not cri_spec.may_be_unbegun(_ended(1, started_at=1), Noted(cut=True))
