"""RN-09: every field of a specification has its place in the Engine's API, and nothing else gets one."""

import dataclasses
from typing import Any

import pytest

from hostler.agent.containers import docker_spec
from hostler.agent.containers.docker_spec import Inspected
from hostler.agent.containers.runtime import Found, State
from hostler.agent.containers.spec import (
    ATTEMPT,
    MAIN_PHASE,
    NODE,
    PHASE,
    SETUP_PHASE,
    Bind,
    ContainerSpec,
    Devices,
    Limits,
)
from hostler.base.errors import HostlerError

SPEC = ContainerSpec(
    name="a1-main",
    image="sha256:0123",
    command=("/bin/train", "--fast"),
    environment={"A": "1", "B": "two=words"},
    labels={ATTEMPT: "a1"},
    limits=Limits(cpu_millis=2500, memory_bytes=1 << 30, shm_bytes=1 << 28, pids=77),
    devices=Devices(cdi=("nvidia.com/gpu=0",), nodes=("/dev/nvidia0",)),
    binds=(Bind("/data", "/mnt"), Bind("/out", "/out", read_only=False)),
    ports={"http": 31000},
    user="1000:2000",
    working_dir="/app",
    capabilities=("CAP_CHOWN",),
    read_only_root=True,
    log_bytes=1000,
)


def changed(**fields: Any) -> ContainerSpec:
    return dataclasses.replace(SPEC, **fields)


def back(said: dict[str, Any]) -> ContainerSpec:
    """The other way, by the words of the API alone; the name is in the address of the call."""
    host = said["HostConfig"]
    return ContainerSpec(
        name=SPEC.name,
        image=said["Image"],
        command=(*said["Entrypoint"], *said["Cmd"]),
        environment=dict(pair.split("=", 1) for pair in said["Env"]),
        labels=said["Labels"],
        limits=Limits(host["NanoCpus"] // 1_000_000, host["Memory"], host["ShmSize"], host["PidsLimit"]),
        devices=Devices(tuple(host["DeviceRequests"][0]["DeviceIDs"]), tuple(d["PathOnHost"] for d in host["Devices"])),
        binds=tuple(Bind(m["Source"], m["Target"], m["ReadOnly"]) for m in host["Mounts"]),
        ports={"http": int(host["PortBindings"]["31000/tcp"][0]["HostPort"])},
        host_network=host["NetworkMode"] == "host",
        user=said["User"],
        working_dir=said["WorkingDir"],
        capabilities=tuple(f"CAP_{name}" for name in host["CapAdd"]),
        no_new_privileges="no-new-privileges" in host["SecurityOpt"],
        read_only_root=host["ReadonlyRootfs"],
        privileged=host["Privileged"],
        log_bytes=int(host["LogConfig"]["Config"]["max-size"]) * int(host["LogConfig"]["Config"]["max-file"]),
    )


@pytest.mark.parametrize(
    ("name", "labels", "own"),
    [
        ("hostler-a1", {}, True),
        ("hostler-a1-setup", {PHASE: SETUP_PHASE}, True),
        ("hostler-a1", {PHASE: SETUP_PHASE}, False),
        ("hostler-a2", {}, False),
        ("a1", {}, False),
        ("web", {}, False),
        ("hostler-", {ATTEMPT: ""}, False),
        ("hostler-a1", {NODE: "nod_2"}, False),
        ("hostler-a1", {NODE: ""}, False),
    ],
)
def test_J5_a_container_is_ours_by_its_name_and_node_and_not_by_labels_alone(
    name: str, labels: dict[str, str], own: bool
) -> None:
    """An image may bring any label; a name is given by whoever makes the container."""
    said = {ATTEMPT: "a1", PHASE: MAIN_PHASE, NODE: "nod_1"} | labels
    assert docker_spec.is_own(Found(id="1", name=name, labels=said, state=State.RUNNING), "nod_1") is own


def test_RN_09_every_field_comes_back() -> None:
    assert back(docker_spec.body(SPEC)) == SPEC


def test_RN_09_no_limit_is_no_limit() -> None:
    host = docker_spec.body(changed(limits=Limits()))["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (0, 0, 0, None)
    assert "ShmSize" not in host


def test_memory_has_no_swap_behind_it() -> None:
    host = docker_spec.body(SPEC)["HostConfig"]
    assert host["MemorySwap"] == host["Memory"] == 1 << 30


def test_RN_10_the_node_s_network_needs_no_ports() -> None:
    said = docker_spec.body(changed(host_network=True))
    assert (said["HostConfig"]["NetworkMode"], said["HostConfig"]["PortBindings"], said["ExposedPorts"]) == (
        "host",
        {},
        {},
    )


@pytest.mark.parametrize("host_network", [False, True])
def test_processes_and_memory_of_the_node_are_never_seen(host_network: bool) -> None:
    host = docker_spec.body(changed(host_network=host_network, privileged=True))["HostConfig"]
    assert (host["PidMode"], host["IpcMode"]) == ("", "private")


def test_nothing_is_privileged_that_was_not_asked_to_be() -> None:
    host = docker_spec.body(SPEC)["HostConfig"]
    assert host["Privileged"] is False
    assert host["SecurityOpt"] == ["no-new-privileges"], "and seccomp stays the engine's own"


def test_all_capabilities_are_dropped_but_those_that_are_kept() -> None:
    host = docker_spec.body(SPEC)["HostConfig"]
    assert (host["CapDrop"], host["CapAdd"]) == (["ALL"], ["CHOWN"])


def test_a_capability_beyond_the_default_set_is_refused() -> None:
    with pytest.raises(HostlerError) as refused:
        docker_spec.body(changed(capabilities=("SYS_ADMIN",)))
    assert refused.value.code == "container_failed"


def said(status: str, **state: Any) -> Inspected:
    import msgspec

    times = {"StartedAt": "2026-11-22T10:00:00.5Z", "FinishedAt": "2026-11-22T10:00:00.25Z", "Status": status}
    return msgspec.convert({"Id": "x", "State": times | state}, Inspected)


@pytest.mark.parametrize(
    ("code", "oom", "state", "number"),
    [
        (0, False, State.EXITED, 0),
        (3, False, State.EXITED, 0),
        (137, False, State.KILLED, 9),
        (137, True, State.OOM, 9),
        (0, True, State.EXITED, 0),
        (255, False, State.EXITED, 0),
    ],
)
def test_RN_08_ends_are_told_apart(code: int, oom: bool, state: State, number: int) -> None:
    status = docker_spec.status_of(said("exited", ExitCode=code, OOMKilled=oom, Pid=0))
    assert (status.state, status.exit_code, status.signal) == (state, code, number)
    assert status.started_at_ms == status.finished_at_ms == 1_795_341_600_500


def test_RN_08_one_that_could_not_be_removed_has_ended() -> None:
    status = docker_spec.status_of(said("dead", ExitCode=3, Pid=0))
    assert (status.state, status.exit_code) == (State.EXITED, 3)
    assert docker_spec.state_of("dead") is State.EXITED


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("created", State.CREATED),
        ("running", State.RUNNING),
        ("paused", State.RUNNING),
        ("removing", State.UNKNOWN),
        ("a new word", State.UNKNOWN),
    ],
)
def test_RN_08_what_has_not_ended_is_no_end(word: str, state: State) -> None:
    status = docker_spec.status_of(said(word, ExitCode=7, Pid=5))
    assert (status.state, status.ended, status.exit_code, status.finished_at_ms) == (state, False, 0, 0)
    assert docker_spec.state_of(word) is state


@pytest.mark.parametrize(
    ("stamp", "wanted"),
    [
        ("", 0), ("0001-01-01T00:00:00Z", 0), ("1970-01-01T00:00:01Z", 1000), ("1970-01-01T00:00:01.5Z", 1500),
        ("1970-01-01T00:00:00.123456789Z", 123),
    ],
)  # fmt: skip
def test_times_are_read(stamp: str, wanted: int) -> None:
    assert docker_spec.milliseconds(stamp) == wanted
