"""LC-07, OD-27: a host that a run has installed anew. Real cloud-init boots a bare Debian with the run's own document.

What is bare is the disk: no agent, no curl, no index of packages. The commands are those of docs/lifecycle.md.
"""

import asyncio
import re
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import grpc.aio
import msgspec
import pytest

from conftest import need, need_slow
from hostler.pki.keys import FileSigner
from hostler.pki.trust import TrustStore
from hostler.pki.trust_files import load_trust
from hostler.v1 import node_pb2, node_pb2_grpc
from support.fake_node import FakeNode
from support.hosts import Host
from support.maas import AUTHORIZATION, open_maas
from support.reimaging import INSTALLER, Run, Site, documented, open_site

pytestmark = [pytest.mark.real, pytest.mark.timeout(900), pytest.mark.xdist_group("machines")]

IDENTITY = "/var/lib/hostler/identity"
CACHE = "/var/cache/hostler-install"
TOKEN = "/etc/hostler/enrol.token"
CHECKS = {"version_reported", "service_healthy", "renewal_works", "schedulable"}
LIMIT_S = 200.0  # a machine that is busy with other tests
SLOW = "each boots a host anew"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with open_site(1) as made:
        yield made


def identity_of(site: Site, host: Host) -> FakeNode:
    """Whoever keeps a copy of a host's old disk is this node, if it is let."""
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


def is_served(node: FakeNode) -> bool:
    """By the control plane's own word; a session would be a second one of that node."""

    async def ask() -> None:
        async with node.channel() as channel:
            await node_pb2_grpc.NodeServiceStub(channel).Check(node_pb2.CheckRequest(), timeout=20)

    try:
        asyncio.run(ask())
    except grpc.aio.AioRpcError as err:
        if err.code() is grpc.StatusCode.PERMISSION_DENIED and "is revoked" in str(err.details()):
            return False
        raise
    return True


def check_ended_well(site: Site, run: Run, version: str) -> dict[str, Any]:
    """→ the node."""
    over, host = site.ended(run, "n1"), site.bed["n1"]
    assert (over["state"], set(over["checks"])) == ("succeeded", CHECKS), (over, said(host))
    host.booted()
    site.bed.until_in_service("n1")
    node = site.house.node("n1")
    assert node["agent_version"] == version
    site.bed.noop("n1")
    assert not host.exists(TOKEN)
    assert not host.exists(CACHE)
    return node


def said(host: Host, unit: str = INSTALLER) -> str:
    """Since it booted, if it has."""
    return host.journal("-b", "-u", unit) if host.leader and host.exists("/run/systemd/journal/stdout") else ""


def check_nothing_installed(host: Host) -> None:
    assert host.run("dpkg-query", "--show", "hostler-agent", status=1) == ""
    for left in ("/etc/hostler", "/usr/lib/hostler-agent", "/var/lib/hostler", CACHE):
        assert not host.exists(left), left


def test_LC_07_a_bare_host_boots_into_a_fresh_enrolled_agent_and_the_old_identity_is_out(site: Site) -> None:
    version, host = site.publish(), site.bed["n1"]
    old = identity_of(site, host)
    assert is_served(old)
    run = site.started("n1", version)
    site.install("n1", run.user_data)
    node = check_ended_well(site, run, version)
    assert node["node_id"] != old.node_id
    assert not is_served(old)
    assert is_served(identity_of(site, host))
    assert "ssh" not in run.user_data.lower()
    assert len(re.findall("hst1_", msgspec.json.encode(run.facts).decode())) == 1
    check_no_copy_is_readable(host, run)
    host.reboot()
    site.bed.until_in_service("n1")
    assert said(host) == "", "it was begun again"


def check_no_copy_is_readable(host: Host, run: Run) -> None:
    """cloud-init keeps what it was given in several places; the token is spent, and still nobody's to read."""
    told = run.user_data.split('TOLD = """\n')[1].splitlines()[0]
    words = ["-e", run.token, "-e", told]
    kept = host.run("grep", "-rlF", "--exclude-dir=proc", *words, "/etc", "/run", "/var", "/tmp", status=None).split()
    assert any(path.endswith("/user-data.txt") for path in kept), "looked in the wrong places"
    modes = {path: host.run("stat", "--format=%a %U", path).split() for path in kept if not path.startswith("/proc")}
    assert {path for path, (mode, owner) in modes.items() if int(mode, 8) & 0o077 or owner != "root"} == set()


def test_I5_a_second_host_with_the_same_document_is_given_nothing_and_its_token_is_an_alarm(site: Site) -> None:
    """The package's address has ended with the run; whoever has the agent already is told by the token."""
    need_slow(SLOW)
    version = site.publish()
    run = site.started("n1", version)
    site.install("n1", run.user_data)
    node = check_ended_well(site, run, version)
    twin = site.install("n1", run.user_data)
    twin.until(lambda: "package_url_expired" in said(twin), "nobody refused it", LIMIT_S)
    twin.booted()
    check_nothing_installed(twin)
    site.house.configure("thief")
    home = site.house.home / "thief"
    (home / "token").write_text(run.token)
    (home / "token").chmod(0o600)
    with pytest.raises(AssertionError, match="enrolment_token_used"):
        site.house.do("hostler-agent", "enroll", "--config", f"{home}/agent.toml", "--token-file", f"{home}/token")
    (alarm,) = site.events("node.enrolment_token_reused")
    assert alarm["node_id"] == node["node_id"]
    assert site.house.node("n1")["node_id"] == node["node_id"]


def test_LC_09_bootstrap_install_of_a_host_with_no_agent_goes_the_same_way(site: Site) -> None:
    need_slow(SLOW)
    version = site.publish()
    site.bed["n1"].destroy()
    run = site.started("n1", version, "--scenario", "bootstrap_install")
    site.install("n1", run.user_data)
    check_ended_well(site, run, version)


def test_OD_27_the_bytes_that_maas_was_sent_boot_the_host(site: Site) -> None:
    need_slow(SLOW)
    need("curl")
    version, home = site.publish(), site.house.home
    form, run_id = site.document("-o deploy-form", "n1", version)
    (home / "maas.header").write_text(AUTHORIZATION)
    with open_maas("q7xk3b") as maas:
        deploy = [word.replace("https://maas.example.com", maas.url) for word in documented("maas.header")]
        deploy = [word.replace("SYSTEM_ID", "q7xk3b") for word in deploy]
        done = subprocess.run(deploy, cwd=form.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert msgspec.json.decode(done.stdout)["status_name"] == "Deploying"
        assert (maas.deployed["q7xk3b"]["osystem"], maas.deployed["q7xk3b"]["distro_series"]) == ("debian", "bookworm")
    run = Run(run_id, maas.user_data["q7xk3b"].decode())
    site.install("n1", run.user_data)
    check_ended_well(site, run, version)


def test_LC_12_a_package_with_another_digest_is_not_installed_and_the_next_boot_tries_again(site: Site) -> None:
    need_slow(SLOW)
    version = site.publish()
    run = site.started("n1", version)
    package = site.house.home / "control/packages" / run.facts["sha256"]
    good = package.read_bytes()
    package.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    host = site.install("n1", run.user_data)
    host.until(lambda: "is not the signed package" in said(host), "it was not refused", LIMIT_S)
    host.booted()
    check_nothing_installed(host)
    assert host.shows("ActiveState", INSTALLER) == "failed"
    assert site.run(run)["state"] == "awaiting_operator"
    package.write_bytes(good)
    host.power_off()
    host.power_on()
    check_ended_well(site, run, version)


def test_LC_07_a_control_plane_that_is_away_while_the_host_boots_is_waited_for(site: Site) -> None:
    need_slow(SLOW)
    version = site.publish()
    run = site.started("n1", version)
    site.house.stop("control")
    host = site.install("n1", run.user_data)
    host.until(lambda: "tried again" in said(host), "it was not tried", LIMIT_S)
    check_nothing_installed(host)
    site.house.serve()
    check_ended_well(site, run, version)


MOMENTS = {
    "cloud-init has begun": "/var/lib/cloud/instances/*/boothooks/part-001",
    "the package is fetched": f"{CACHE}/hostler-agent_*.deb",
    "it is unpacked": "/usr/lib/hostler-agent/*",
    "the agent enrols": f"{IDENTITY}/node.key",
    "it has enrolled": f"{IDENTITY}/node.json",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_K7_a_first_boot_that_a_power_cut_ended_is_gone_on_with(site: Site, moment: str) -> None:
    need_slow(SLOW)
    version = site.publish()
    run = site.started("n1", version)
    host = site.install("n1", run.user_data)
    place = MOMENTS[moment].lstrip("/")
    host.until(lambda: any(host.path("/").glob(place)), f"not seen: {moment}", LIMIT_S)
    host.power_cut()
    host.power_on()
    check_ended_well(site, run, version)


def test_LC_12_an_address_that_has_ended_installs_nothing_and_the_run_says_why(site: Site) -> None:
    need_slow(SLOW)
    version = site.publish()
    config = site.house.home / "control.toml"
    config.write_text(f"{config.read_text()}reimage_seconds = 60\nverify_seconds = 60\n")
    site.house.stop("control")
    site.house.serve()
    run = site.started("n1", version)
    time.sleep(61)
    host = site.install("n1", run.user_data)
    host.until(lambda: "[package_url_expired]" in said(host), "it was not refused", LIMIT_S)
    check_nothing_installed(host)
    over = site.ended(run, "n1")
    assert (over["state"], over["error_code"]) == ("failed", "upgrade_timed_out")
    assert "before its token ended" in over["error_message"]
