"""U1: what the bad agents of later tests do on a host that is given one: each fails as it says, and only so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import need_slow
from support.agent_packages import KINDS, version_of
from support.hosts import AGENT, CONTAINERS, SESSION, Bed, open_hosts

pytestmark = [pytest.mark.real, pytest.mark.timeout(300), pytest.mark.xdist_group("machines")]

VERSION = "0.8.0"
SOURCES = Path(__file__).parents[2] / "agent"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_U1_what_makes_an_agent_bad_fits_its_source(kind: str) -> None:
    change = KINDS[kind]
    made = change.done((SOURCES / change.file).read_text())
    compile(made, change.file, "exec")


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    need_slow("five bad agents take a minute")
    with open_hosts(len(KINDS), settings=CONTAINERS, minters=lambda home: "certificate_seconds = 60\n") as made:
        for name, kind in zip(made.names, sorted(KINDS), strict=True):
            made[name].put("/root/next.deb", version_of(VERSION, kind))
            made[name].run("systemd-run", "--unit=upgrade", "dpkg", "-i", "/root/next.deb")
        yield made


def host_with(bed: Bed, kind: str) -> str:
    name = f"n{sorted(KINDS).index(kind) + 1}"
    told = lambda: bed[name].run("dpkg-query", "-W", "-f", "${Version}", "hostler-agent")  # noqa: E731
    bed[name].until(lambda: told().startswith(VERSION), "it is not installed")
    return name


def test_U1_one_crashes_whenever_it_is_started(bed: Bed) -> None:
    host = bed[host_with(bed, "crash_loops")]
    host.until(lambda: host.unit().restarts >= 2, "it was not started again")
    assert host.shows("ExecMainStatus") == "1"


def test_U1_one_hangs_before_it_is_ready_and_one_is_slow(bed: Bed) -> None:
    hangs, slow = bed[host_with(bed, "hangs")], host_with(bed, "slow_start")
    bed[slow].until(lambda: bed[slow].unit().active == "activating", "it is not slow")
    bed[slow].until(lambda: bed[slow].unit().active == "active", "it is too slow")
    bed.until_in_service(slow)
    bed.until(lambda: bed.house.node(slow)["agent_version"] == VERSION, "another version runs")
    assert hangs.unit().active == "activating"
    assert hangs.unit().pid != 0


def test_U1_one_finds_no_control_plane(bed: Bed) -> None:
    name = host_with(bed, "cannot_poll")
    host = bed[name]
    bed.until(lambda: bed.house.node(name)["connection"] == "lost", "it has found one")
    host.until(lambda: "this agent finds nobody" in host.journal("-u", AGENT), "it does not try")
    assert (host.unit(AGENT).active, host.unit(SESSION).active) == ("active", "active")
    host.until(lambda: "certificate.renewed" in host.journal("-u", AGENT), "it does not renew")


def test_U1_one_cannot_renew(bed: Bed) -> None:
    name = host_with(bed, "cannot_renew")
    bed.until(lambda: bed.house.node(name)["agent_version"] == VERSION, "another version runs")
    host = bed[name]
    host.until(lambda: "this agent cannot renew" in host.journal("-u", AGENT), "it does not try")
    assert host.unit().active == "active"


def test_U1_a_good_one_puts_them_all_right_again(bed: Bed) -> None:
    for name in bed.names:
        bed[name].run("systemctl", "stop", "upgrade.service", status=None)  # one still waits for what hangs
        bed[name].put("/root/good.deb", version_of("0.8.1"))
        bed[name].run("systemd-run", "--unit=repair", "dpkg", "-i", "/root/good.deb")
    for name in bed.names:
        good = lambda n=name: bed.house.node(n)["agent_version"] == "0.8.1"  # noqa: E731
        bed.until(good, "another version runs", 120)  # five installations at once
    bed.until_in_service()
    bed.noop()
