"""SK-11: links and RDMA ports are as required, or the port that is not is named. RDMA ports are written down here."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.hardware import rdma
from hostler.agent.host import links as links_module
from hostler.agent.host.host import Host
from hostler.agent.host.links import Link, links
from hostler.agent.steps.contract import StepContext, Truth
from hostler.agent.steps.fabric_rules import interface, prerequisites
from hostler.agent.steps.network_fabric_verify import KIND
from hostler.base.errors import HostlerError
from hostler.catalog.params.network import FabricVerify, Interface
from support.commands import host_in
from support.hardware import plant
from support.steps import Told, context_of

PORT = {"device": "mlx5_0", "link_layer": "ethernet", "minimum_rate": 100, "gid": "roce_v2"}


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    root = tmp_path / "root"
    root.mkdir()
    async with host_in(tmp_path, root=root) as made:
        yield made


def context(host: Host, told: Told | None = None, **params: Any) -> StepContext:
    return context_of(msgspec.convert(params, FabricVerify), host, told or Told())


async def failure(step: StepContext) -> tuple[str, str]:
    with pytest.raises(HostlerError) as failed:
        await KIND.apply(step)
    return failed.value.code, failed.value.message


async def test_SK_11_a_port_as_required_gives_typed_results(host: Host) -> None:
    plant("roce", host.root)
    told = Told()
    port = PORT | {"maximum_counters": {"symbol_error": 0, "out_of_sequence": 7}}
    step = context(host, told, rdma_ports=[port], active_ports=1, interfaces=[{"name": "lo", "minimum_mtu": 1500}])
    outcome = await KIND.apply(step)
    assert outcome.outputs["results"] == [
        {"name": "interface lo", "ok": True, "detail": "up, MTU 65536"},
        {"name": "port mlx5_0/1", "ok": True, "detail": "active, ethernet, 100 Gb/s"},
        {"name": "RDMA ports", "ok": True, "detail": "1 active"},
    ]
    assert told.lines[1] == "port mlx5_0/1 is ready: active, ethernet, 100 Gb/s"
    assert not outcome.changed


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"device": "mlx5_1"}, "port mlx5_1/1 is DOWN, its link Disabled"),
        ({"device": "mlx5_7"}, "port mlx5_7/1 is not there"),
        ({"port": 2}, "port mlx5_0/2 is not there"),
        ({"link_layer": "infiniband"}, "port mlx5_0/1 speaks ethernet, not infiniband"),
        ({"minimum_rate": 400}, "port mlx5_0/1 runs at 100 Gb/s, at least 400 are required"),
        ({"maximum_counters": {"out_of_sequence": 6}}, "port mlx5_0/1 has counted 7 out_of_sequence, at most 6"),
        ({"maximum_counters": {"port_rcv_errors": 0}}, "port mlx5_0/1 has no counter port_rcv_errors"),
    ],
)
async def test_SK_11_a_port_that_is_not_as_required_is_named(host: Host, changes: dict[str, Any], says: str) -> None:
    plant("roce", host.root)
    code, message = await failure(context(host, rdma_ports=[PORT | changes]))
    assert code == "fabric_not_ready"
    assert message.startswith(says)


@pytest.mark.parametrize(("gid", "says"), [("roce_v2", "has no GID of type roce_v2"), ("any", "has no GID")])
async def test_SK_11_a_port_without_its_gid_is_not_ready(host: Host, gid: str, says: str) -> None:
    gids = plant("roce", host.root) / "sys/class/infiniband/mlx5_0/ports/1/gids"
    for index in ("0", "3"):
        (gids / index).unlink()
    assert (await failure(context(host, rdma_ports=[PORT | {"gid": gid}])))[1] == f"port mlx5_0/1 {says}"
    await KIND.apply(context(host, rdma_ports=[PORT | {"gid": "none"}]))


async def test_SK_11_too_few_active_ports_name_those_that_are_not(host: Host) -> None:
    plant("roce", host.root)
    code, message = await failure(context(host, active_ports=2))
    assert code == "fabric_not_ready"
    assert message == "RDMA ports 1 active, at least 2 are required: mlx5_1/1 is DOWN"


async def test_SK_11_a_machine_without_rdma_has_no_port(host: Host) -> None:
    plant("none", host.root)
    assert (await failure(context(host, active_ports=1)))[1].endswith("at least 1 are required: this node has 0")


async def test_every_fault_is_logged_and_the_first_one_is_the_error(host: Host) -> None:
    told = Told()
    step = context(host, told, interfaces=[{"name": "nope0"}], active_ports=1, peer_memory=True)
    code, message = await failure(step)
    assert (code, message) == ("fabric_not_ready", "interface nope0 is not there (and 2 more of 3)")
    assert len([line for line in told.lines if "is not ready" in line]) == 3


@pytest.mark.parametrize(
    ("link", "says"),
    [
        (None, "is not there"),
        (Link(name="e0", up=False, state="DOWN", mtu=9000), "is down as configured"),
        (Link(name="e0", up=True, state="LOWERLAYERDOWN", mtu=9000), "has no link, its state is LOWERLAYERDOWN"),
        (Link(name="e0", up=True, state="UP", mtu=1500), "has an MTU of 1500, at least 9000 is required"),
    ],
)
def test_a_link_that_is_not_as_required_says_why(link: Link | None, says: str) -> None:
    seen = interface(Interface(name="e0", minimum_mtu=9000), link)
    assert (seen.ok, seen.detail) == (False, says)


def test_prerequisites_are_typed_and_named() -> None:
    params = FabricVerify(active_ports=1, peer_memory=True, minimum_locked_bytes=1 << 30, minimum_free_hugepages=8)
    short = prerequisites(params, peer_memory=False, lockable=65536, hugepages=-1)
    assert [(one.name, one.ok) for one in short] == [
        ("peer memory", False),
        ("locked memory", False),
        ("hugepages", False),
    ]
    full = prerequisites(params, peer_memory=True, lockable=1 << 31, hugepages=8)
    assert all(one.ok for one in full)


async def test_a_verification_that_requires_nothing_does_not_succeed(host: Host) -> None:
    for empty in ({}, {"peer_memory": True}, {"active_ports": 0}):
        assert (await failure(context(host, **empty)))[0] == "fabric_not_ready"


@pytest.mark.parametrize("name", ["", "-rf", "a/b", "../x", "lo;id", "lo\n", "x" * 16])
def test_names_of_interfaces_are_names(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"interfaces": [{"name": name}]}, FabricVerify)


async def test_peers_are_reached_or_named(host: Host) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    peer = {"host": "127.0.0.1", "port": port}
    async with server:
        outcome = await KIND.apply(context(host, interfaces=[{"name": "lo"}], peers=[peer]))
    assert outcome.outputs["results"][1]["detail"] == "accepts connections"
    code, message = await failure(context(host, interfaces=[{"name": "lo"}], peers=[peer]))
    assert (code, message.startswith(f"peer 127.0.0.1:{port} cannot be reached")) == ("fabric_not_ready", True)


async def test_a_plan_names_what_will_be_looked_at_and_looks_at_nothing(host: Host) -> None:
    step = context(host, interfaces=[{"name": "lo"}], rdma_ports=[PORT], peers=[{"host": "a", "port": 1}])
    changes = (await KIND.plan(step)).changes
    assert [change.target for change in changes] == ["interface lo", "port mlx5_0/1", "peer a:1"]
    assert {change.action for change in changes} == {"check"}


async def test_it_only_looks_so_it_looks_again(host: Host) -> None:
    assert (await KIND.probe(context(host, active_ports=1))).truth is Truth.NOT_DONE


async def test_a_cancel_ends_it_and_so_does_its_time(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    step = context(host, interfaces=[{"name": "lo"}])
    step.cancelled.set()
    assert (await failure(step))[0] == "canceled"
    sleeping = ("/bin/sh", "-c", "exec /bin/sleep 60")
    monkeypatch.setattr(links_module, "_COMMAND", sleeping)
    assert (await failure(context(host, interfaces=[{"name": "lo"}], timeout_seconds=0.2)))[0] == "timeout"


@pytest.mark.parametrize("printed", ["", "no json", '[{"name": "lo"}]', '{"a": 1}'])
async def test_what_the_helper_does_not_say_is_not_guessed(printed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "_COMMAND", ("/bin/echo", printed))
    with pytest.raises(HostlerError) as failed:
        await links([])
    assert failed.value.code == "file_error"


def test_an_agent_that_never_verifies_a_fabric_carries_no_netlink_library() -> None:
    import subprocess
    import sys

    code = "import sys, hostler.agent.steps.network_fabric_verify; print('pyroute2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert rdma.ports(Path("/nonexistent")) == ()
