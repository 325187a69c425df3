"""What only containerd has: sandboxes, networks of their own, images of registries, devices, logs turned away."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import need
from hostler.agent.containers import devices, groups
from hostler.agent.containers.runtime import PullAuth
from hostler.agent.containers.spec import ATTEMPT, Devices, Limits
from hostler.base.errors import HostlerError
from support import containerd as support_containerd
from support.busybox import busybox_layer
from support.certs import make_server_certs
from support.ports import next_port
from support.registry import Registry, TokenServer, lying_registry, registry
from support.runtimes import Bed, bed_on, until

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("containers")]


@pytest.fixture(scope="module")
def daemon() -> Iterator[support_containerd.Containerd]:
    need("ip")
    with support_containerd.containerd() as started:
        yield started


@pytest.fixture
async def bed(daemon: support_containerd.Containerd) -> AsyncIterator[Bed]:
    async with bed_on(daemon) as made:
        yield made


@pytest.fixture(scope="module")
def private(
    tmp_path_factory: pytest.TempPathFactory, daemon: support_containerd.Containerd
) -> Iterator[tuple[Registry, TokenServer]]:
    place = tmp_path_factory.mktemp("registry")
    certs = make_server_certs(place)
    with TokenServer(certs, {"puller": "right"}).running() as tokens, registry(place, certs, tokens) as started:
        daemon.trust(started.name, certs.ca)
        yield started, tokens


def auth(password: str) -> PullAuth:
    return PullAuth(username="puller", password=password.encode)


async def test_RN_06_a_private_image_is_pulled_by_digest_with_its_credential(
    bed: Bed, private: tuple[Registry, TokenServer]
) -> None:
    held, _ = private
    name = f"{held.name}/team/private@{held.image('team/private', busybox_layer('private'))}"
    for wrong in (None, auth("wrong")):
        with pytest.raises(HostlerError) as denied:
            await bed.runtime.pull(name, wrong)
        assert denied.value.code == "source_denied", denied.value
        assert not await bed.runtime.has_image(name)
    image = await bed.runtime.pull(name, auth("right"))
    assert await bed.runtime.has_image(name)
    made = await bed.start("cat /etc/stamp", image=image)
    assert [line.text for line in await bed.output(made)] == ["private"]


async def test_RN_06_a_digest_that_the_registry_does_not_have_is_named(
    bed: Bed, private: tuple[Registry, TokenServer]
) -> None:
    held, _ = private
    with pytest.raises(HostlerError) as missing:
        await bed.runtime.pull(f"{held.name}/team/private@sha256:{'0' * 64}", auth("right"))
    assert missing.value.code == "image_missing", missing.value
    with pytest.raises(HostlerError) as tagged:
        await bed.runtime.pull(f"{held.name}/team/private:latest", auth("right"))
    assert tagged.value.code == "digest_required"
    with pytest.raises(HostlerError) as away:
        await bed.runtime.pull(f"localhost:1/team/private@sha256:{'0' * 64}")
    assert away.value.code == "source_unreachable"


async def test_RN_06_a_registry_that_lies_about_bytes_is_found_out(
    bed: Bed, daemon: support_containerd.Containerd
) -> None:
    with lying_registry() as name:
        daemon.trust(name)
        with pytest.raises(HostlerError) as lied:
            await bed.runtime.pull(f"{name}/team/a@sha256:{'a' * 64}")
    assert lied.value.code == "digest_mismatch", lied.value


async def test_RN_10_a_container_has_a_network_of_its_own_or_the_node_s(bed: Bed) -> None:
    show = "ip -o addr | grep -c ' eth0 '; ls /sys/class/net | tr '\\n' ' '"
    own = await bed.start(f"{show}; sleep 60", host_network=False)
    status = await bed.runtime.status(own)
    assert status.address.startswith(f"{support_containerd.SUBNET}.")
    assert Path(f"/proc/{status.pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    shared = await bed.start("sleep 60", host_network=True)
    status = await bed.runtime.status(shared)
    assert status.address == ""
    assert Path(f"/proc/{status.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink()


async def test_RN_10_a_port_of_the_node_leads_into_it(bed: Bed) -> None:
    """By the container's own address: the test's rules allow connections to loopback only, so curl asks."""
    need("curl")
    port = next_port()
    serve = f"mkdir -p /tmp/w; echo hello > /tmp/w/x; exec busybox httpd -f -p {port} -h /tmp/w"
    made = await bed.start(serve, host_network=False, ports={"http": port})
    address = (await bed.runtime.status(made)).address

    async def said() -> bool:
        command = ("curl", "-s", f"http://{address}:{port}/x")
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        return out == b"hello\n"

    assert await until(said)


@pytest.mark.parametrize("host_network", [False, True])
async def test_RN_02_processes_are_its_own_whatever_the_network(bed: Bed, host_network: bool) -> None:
    made = await bed.start("echo $$; grep Seccomp: /proc/self/status", host_network=host_network)
    assert [line.text for line in await bed.output(made)] == ["1", "Seccomp:\t2"]


async def test_RN_11_a_sandbox_that_a_crash_has_left_is_listed_and_removed(
    bed: Bed, daemon: support_containerd.Containerd
) -> None:
    """With all that was its container's: its logs, and its shared memory, which costs memory while it is there."""
    spec = bed.spec("true", command=("/bin/busybox", "true"), limits=Limits(shm_bytes=256 << 20))
    made = await bed.runtime.create(spec)
    bed.names.append(made)
    from hostler.cri.v1 import api_pb2 as cri

    client = bed.runtime._client  # as a crash between the two would leave it
    await client.call(client.runtime.RemoveContainer, cri.RemoveContainerRequest(container_id=made), "removing")
    (found,) = await bed.runtime.list({ATTEMPT: spec.labels[ATTEMPT]})
    assert found.name == spec.labels[ATTEMPT]
    own = [daemon.place / place / found.name for place in ("logs", "shm")]
    assert all(path.exists() for path in own)
    await bed.runtime.remove(found.id)
    assert await bed.runtime.list({ATTEMPT: spec.labels[ATTEMPT]}) == ()
    assert not any(path.exists() for path in own)
    assert not list((daemon.place / "shm").iterdir())


async def test_RN_11_a_dead_sandbox_makes_way(bed: Bed) -> None:
    spec = bed.spec("exit 3")
    first = await bed.runtime.create(spec)
    from hostler.cri.v1 import api_pb2 as cri

    client = bed.runtime._client
    (listed,) = await bed.runtime._sandboxes.listed({ATTEMPT: spec.labels[ATTEMPT]})
    await client.call(client.runtime.StopPodSandbox, cri.StopPodSandboxRequest(pod_sandbox_id=listed.id), "stopping")
    again = await bed.runtime.create(replace(spec, name=f"{spec.name}-2"))
    bed.names += [first, again]
    await bed.runtime.start(again)
    assert (await bed.runtime.wait(again)).exit_code == 3


async def test_OB_07_a_log_that_is_turned_away_is_read_on(bed: Bed, daemon: support_containerd.Containerd) -> None:
    """Followed all the time, nothing is missing; afterwards two files of half the size are what is left."""
    line = "printf '%s ' $i; head -c 1000 /dev/zero | tr '\\0' y; echo"
    flood = f"i=0; while [ $i -lt 250 ]; do {line}; i=$((i+1)); sleep 0.02; done"
    made = await bed.start(flood, log_bytes=100_000)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(bed.output(made))
        await bed.runtime.wait(made)
    assert [int(line.text.split()[0]) for line in following.result()] == list(range(250))
    left = sorted((daemon.place / "logs").glob("*/*.log*"))
    assert left[-1].name.endswith(".1"), "it was never turned away"
    assert len(left) <= 2  # the newest one is made by what is said next, and that may have been all
    assert sum(path.stat().st_size for path in left) < 250_000
    cursor = following.result()[240].cursor
    assert [int(line.text.split()[0]) for line in await bed.output(made, cursor)] == list(range(241, 250))


async def test_RN_09_more_shared_memory_than_usual(bed: Bed, daemon: support_containerd.Containerd) -> None:
    limits = Limits(shm_bytes=256 << 20, memory_bytes=300 << 20)
    made = await bed.start("dd if=/dev/zero of=/dev/shm/x bs=1M count=100 2>&1 | tail -1; ls /dev/shm", limits=limits)
    assert [line.text for line in await bed.output(made)][-1] == "x"
    assert list((daemon.place / "shm").iterdir())
    await bed.runtime.remove(made)
    assert not list((daemon.place / "shm").iterdir())


async def test_RN_09_devices_by_cdi_are_refused_by_a_containerd_that_knows_none(bed: Bed) -> None:
    if tuple(map(int, (await bed.runtime.available()).split()[1].split(".")[:2])) >= (1, 7):
        return
    with pytest.raises(HostlerError) as refused:
        await bed.runtime.create(bed.spec("true", devices=Devices(cdi=("vendor.com/gpu=0",))))
    assert refused.value.code == "container_failed"
    assert "1.7" in str(refused.value)


async def test_K8_a_device_that_is_made_anew_is_missed(bed: Bed) -> None:
    node = Path(f"/dev/hostler-test-{os.getpid()}")
    os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    try:
        made = await bed.start("sleep 60", devices=Devices(nodes=(str(node),)))
        pid = (await bed.runtime.status(made)).pid
        assert devices.lost(pid, (str(node),)) == {}
        done = await bed.runtime.exec(made, ("/bin/busybox", "sh", "-c", f"echo x > {node}"), 5)
        assert done.exit_code == 0, done
        if not groups.unified():
            group = groups.of_process(pid, "devices")
            assert group is not None
            (group / "devices.deny").write_text("c 1:3 rwm")
            assert "control group" in devices.lost(pid, (str(node),))[str(node)]
            (group / "devices.allow").write_text("c 1:3 rwm")
        node.unlink()
        assert "no such device" in devices.lost(pid, (str(node),))[str(node)]
        os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 5))
        assert "anew" in devices.lost(pid, (str(node),))[str(node)]
        await bed.runtime.stop(made, 0)
        assert devices.lost(pid, (str(node),)) == {}
    finally:
        node.unlink(missing_ok=True)
