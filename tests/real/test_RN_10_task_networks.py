"""RN-10, OD-12: who reaches whom between tasks on real containerd, each in a network of its own or in the node's."""

from collections.abc import AsyncIterator, Iterator

import pytest

from support import containerd as support_containerd
from support.ports import next_port
from support.runtimes import Bed, bed_on, until

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("containers")]
SERVE = "mkdir -p /tmp/w; echo {word} > /tmp/w/x; exec busybox httpd -f -p {bind} -h /tmp/w"
ASK = "printf 'GET /x HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 3 {host} {port} | tail -n 1"


@pytest.fixture(scope="module")
def daemon() -> Iterator[support_containerd.Containerd]:
    with support_containerd.containerd() as started:
        yield started


@pytest.fixture
async def bed(daemon: support_containerd.Containerd) -> AsyncIterator[Bed]:
    async with bed_on(daemon) as made:
        yield made


async def serves(bed: Bed, word: str, bind: str, *, host_network: bool = False) -> tuple[str, str]:
    """The container and its address, once it answers to itself."""
    made = await bed.start(SERVE.format(word=word, bind=bind), host_network=host_network)
    local = f"127.0.0.1:{bind.rpartition(':')[2]}"
    await until(lambda: said(bed, made, local))
    return made, (await bed.runtime.status(made)).address


async def said(bed: Bed, container: str, address: str) -> str:
    """What a server says to that container; "" where it is not reached."""
    host, _, port = address.rpartition(":")
    ask = ASK.format(host=host, port=port)
    done = await bed.runtime.exec(container, ("/bin/busybox", "sh", "-c", ask), 10)
    return done.stdout.decode().strip()


async def test_RN_10_isolated_tasks_reach_each_other_by_address_and_not_each_other_s_loopback(bed: Bed) -> None:
    first, at_first = await serves(bed, "first", "8080")
    second, at_second = await serves(bed, "second", "8080")  # the same port: no network is shared
    assert at_first != at_second
    assert await said(bed, first, f"{at_second}:8080") == "second"
    assert await said(bed, second, f"{at_first}:8080") == "first"
    assert await said(bed, second, "127.0.0.1:8080") == "second"
    private, at_private = await serves(bed, "private", "127.0.0.1:8081")
    assert await said(bed, private, "127.0.0.1:8081") == "private"
    for address in (f"{at_private}:8081", "127.0.0.1:8081"):
        assert await said(bed, first, address) == "", "what listens on a task's loopback is its own"


async def test_RN_10_only_a_task_in_the_node_s_network_reaches_the_node_s_loopback(bed: Bed) -> None:
    port = next_port()
    node, none = await serves(bed, "node", f"127.0.0.1:{port}", host_network=True)
    assert none == "", "its address is the node's"
    other = await bed.start("sleep 60", host_network=True)
    isolated, address = await serves(bed, "isolated", "8080")
    assert await said(bed, other, f"127.0.0.1:{port}") == "node"
    for host in ("127.0.0.1", f"{support_containerd.SUBNET}.1"):
        assert await said(bed, isolated, f"{host}:{port}") == "", "the bridge leads to no loopback"
    assert await said(bed, node, f"{address}:8080") == "isolated"
