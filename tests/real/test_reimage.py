"""LC-07, OD-27: a host that a run has installed anew. Real cloud-init boots a bare Debian with the run's own document.

What is bare is the disk: no agent, no curl, no index of packages. Everything else is as the documents say it.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import grpc.aio
import msgspec
import pytest

from hostler.pki.keys import FileSigner
from hostler.pki.trust import TrustStore
from hostler.pki.trust_files import load_trust
from support.fake_node import FakeNode
from support.hosts import AGENT, Host
from support.reimaging import INSTALLER, Run, Site, open_site

pytestmark = [pytest.mark.real, pytest.mark.timeout(300), pytest.mark.xdist_group("machines")]

IDENTITY = "/var/lib/hostler/identity"
CHECKS = {"version_reported", "service_healthy", "renewal_works", "schedulable"}
# every place on the host where its user data may have been kept
READABLE = "find /etc /run /tmp /var -xdev -type f -perm /go+r -exec grep -lF -e {} -e {} \\{{\\}} + || true"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with open_site(2) as made:
        yield made


def identity_of(site: Site, host: Host) -> FakeNode:
    """Whoever keeps a copy of a host's old disk can be this node, if it is let."""
    trust = load_trust(site.house.home / "pki/trust.json")
    node = msgspec.json.decode(host.path(f"{IDENTITY}/node.json").read_bytes())
    return FakeNode(
        node_id=node["node_id"],
        signer=FileSigner.from_pem(host.path(f"{IDENTITY}/node.key").read_bytes()),
        certificate=host.path(f"{IDENTITY}/certificate.pem").read_bytes(),
        ca_pems=TrustStore(trust, 0).keyset.ca_certificates,
        address=f"127.0.0.1:{site.house.ports.node}",
        trust_domain=trust.trust_domain,
    )


async def speaks(node: FakeNode) -> None:
    async with asyncio.timeout(10), node.session():
        pass


def check_ended_well(site: Site, run: Run, name: str, version: str) -> dict[str, Any]:
    over = site.ended(run, name)
    host = site.bed[name]
    assert (over["state"], set(over["checks"])) == ("succeeded", CHECKS), (over, host.journal("-u", INSTALLER))
    node = site.house.node(name)
    assert node["agent_version"] == version
    site.bed.until_in_service(name)
    site.bed.noop(name)
    return node


def test_LC_07_a_bare_host_boots_into_a_fresh_enrolled_agent_and_the_old_identity_is_out(site: Site) -> None:
    version, host = site.publish(), site.bed["n1"]
    old = identity_of(site, host)
    run = site.started("n1", "--to", version)
    site.install("n1", run.user_data).booted()
    node = check_ended_well(site, run, "n1", version)
    assert node["node_id"] != old.node_id
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        asyncio.run(speaks(old))
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "revoked" in str(caught.value.details())
    assert not host.exists("/etc/hostler/enrol.token")
    assert not host.exists("/var/cache/hostler-install")
    readable = host.run("/bin/sh", "-c", READABLE.format(run.token, run.token.rpartition(".")[2]))
    assert readable == "", "others may read what was the token"
    assert "ssh" not in run.user_data.lower()
    print(host.journal("-o", "short-monotonic", "--no-hostname")[:60000])
    host.reboot()
    site.bed.until_in_service("n1")
    assert host.shows("LoadState", INSTALLER) == "not-found", "it was begun again"
