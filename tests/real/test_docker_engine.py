"""What the Docker Engine does by itself: images of registries."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from hostler.agent.containers.docker import Docker
from hostler.agent.containers.runtime import PullAuth
from hostler.agent.containers.spec import ATTEMPT, PHASE, Devices, Limits
from hostler.base.errors import HostlerError
from support import dockerd as support_dockerd
from support.busybox import busybox_layer
from support.certs import make_server_certs
from support.registry import TokenServer, lying_registry, registry
from support.runtimes import NODE_ID, Bed

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("containers")]


@pytest.fixture(scope="module")
def daemon() -> Iterator[support_dockerd.Dockerd]:
    with support_dockerd.dockerd() as started:
        yield started


@pytest.fixture
async def bed(daemon: support_dockerd.Dockerd) -> AsyncIterator[Bed]:
    made = Bed(Docker(daemon.socket, NODE_ID), support_dockerd.IMAGE, daemon.restart)
    yield made
    await made.clear()


async def test_RN_06_a_private_image_is_pulled_by_digest_with_its_credential(
    bed: Bed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The Engine trusts whatever stands on loopback, so nothing of this machine's has to be changed."""
    place = tmp_path_factory.mktemp("registry")
    certs = make_server_certs(place)
    with TokenServer(certs, {"puller": "right"}).running() as tokens, registry(place, certs, tokens) as held:
        name = f"{held.name}/team/private@{held.image('team/private', busybox_layer('private'))}"
        for wrong in (None, PullAuth(username="puller", password=b"wrong".__bytes__)):
            with pytest.raises(HostlerError) as denied:
                await bed.runtime.pull(name, wrong)
            assert denied.value.code == "source_denied", denied.value
            assert not await bed.runtime.has_image(name)
        right = PullAuth(username="puller", password=b"right".__bytes__)
        image = await bed.runtime.pull(name, right)
        assert await bed.runtime.has_image(name)
        made = await bed.start("cat /etc/stamp", image=image)
        assert [line.text for line in await bed.output(made)] == ["private"]
        with pytest.raises(HostlerError) as missing:
            await bed.runtime.pull(f"{held.name}/team/private@sha256:{'0' * 64}", right)
        assert missing.value.code == "image_missing", missing.value
    with pytest.raises(HostlerError) as away:
        await bed.runtime.pull(f"localhost:1/team/private@sha256:{'0' * 64}")
    assert away.value.code == "source_unreachable", away.value


async def test_RN_06_a_registry_that_lies_about_bytes_is_found_out(bed: Bed) -> None:
    with lying_registry() as name, pytest.raises(HostlerError) as lied:
        await bed.runtime.pull(f"{name}/team/a@sha256:{'a' * 64}")
    assert lied.value.code == "digest_mismatch", lied.value


async def test_a_stranger_s_container_of_the_same_name_is_not_taken_for_ours(bed: Bed) -> None:
    spec = bed.spec("true")
    bed.names.append(await bed.runtime.create(replace(spec, labels={"of": "somebody else"})))
    with pytest.raises(HostlerError) as refused:
        await bed.runtime.create(spec)
    assert refused.value.code == "container_failed"


async def test_J5_what_only_carries_our_labels_is_not_taken_for_ours(bed: Bed, daemon: support_dockerd.Dockerd) -> None:
    """A container inherits the labels of its image: whoever wrote that would have the agent stop and remove it."""
    ours = bed.spec("sleep 60")
    runtime, wanted = bed.runtime, {ATTEMPT: ours.labels[ATTEMPT]}
    bed.names.append(await runtime.create(ours))
    images = {"a stranger": ours.labels, "hostler-x": {**ours.labels, PHASE: "y"}}
    for name, labels in images.items():
        bed.names.append(await runtime.create(replace(ours, name=name.replace(" ", "-"), labels=labels)))
    assert [one.name for one in await runtime.list(wanted)] == [ours.name]
    other = Docker(daemon.socket, "nod_another")
    assert await other.list(wanted) == (), "of another node that shares the engine"
    await other.close()


async def test_RN_09_shared_memory_is_as_large_as_asked(bed: Bed) -> None:
    made = await bed.start("df -k /dev/shm | tail -1", limits=Limits(shm_bytes=96 << 20, memory_bytes=128 << 20))
    (line,) = await bed.output(made)
    assert line.text.split()[1] == str(96 * 1024)


async def test_RN_09_devices_by_cdi_are_refused_by_an_engine_that_knows_none(bed: Bed) -> None:
    if int((await bed.runtime.available()).split(".")[0]) >= 25:
        return
    with pytest.raises(HostlerError) as refused:
        await bed.runtime.create(bed.spec("true", devices=Devices(cdi=("vendor.com/gpu=0",))))
    assert refused.value.code == "container_failed"
