"""J5, TE-20, K3: containers that others run on the same containerd, with our labels, are left alone."""

from collections.abc import AsyncIterator, Iterator

import pytest

from hostler.agent.containers import cri_spec
from hostler.agent.containers.spec import NODE
from hostler.cri.v1 import api_pb2 as cri
from support import containerd as support_containerd
from support.runtimes import NODE_ID, Bed, bed_on

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("containers")]


@pytest.fixture(scope="module")
def daemon() -> Iterator[support_containerd.Containerd]:
    with support_containerd.containerd() as started:
        yield started


@pytest.fixture
async def bed(daemon: support_containerd.Containerd) -> AsyncIterator[Bed]:
    async with bed_on(daemon) as made:
        yield made


@pytest.mark.parametrize(
    ("namespace", "uid"), [("default", "web-0"), ("hostler", "5d0b5a3c-7c5e-4e5f-9d53-b1c0c7d1f5a2")]
)
async def test_J5_a_pod_of_kubernetes_with_our_labels_is_neither_listed_nor_taken_up(
    bed: Bed, daemon: support_containerd.Containerd, namespace: str, uid: str
) -> None:
    own = await bed.start("sleep 60")
    spec = bed.spec("sleep 60")
    config = cri_spec.sandbox_config(spec, daemon.place / "logs")
    config.metadata.namespace, config.metadata.uid = namespace, uid
    client = bed.runtime._client
    run = cri.RunPodSandboxRequest(config=config)
    pod = (await client.call(client.runtime.RunPodSandbox, run, "making a pod")).pod_sandbox_id
    try:
        asked = cri_spec.container_config(spec, unified=False)
        create = cri.CreateContainerRequest(pod_sandbox_id=pod, config=asked, sandbox_config=config)
        await client.call(client.runtime.CreateContainer, create, "making its container")
        assert [each.id for each in await bed.runtime.list({NODE: NODE_ID})] == [own]
        made = await bed.runtime.create(spec)  # the attempt that it pretends to be
        bed.names.append(made)
        assert {each.id for each in await bed.runtime.list({NODE: NODE_ID})} == {own, made}
    finally:
        gone = cri.RemovePodSandboxRequest(pod_sandbox_id=pod)
        await client.call(client.runtime.RemovePodSandbox, gone, "removing the pod")
