"""U1, U3, K7, EV-09: booted hosts whose slots rot outside of a trial, or whose trial nobody can read any more."""

from collections.abc import Iterator
from typing import Any

import pytest
from real.test_self_update import BASE, SHORT_S, TRIAL, Updater

from conftest import need_slow
from support.agent_releases import open_releases
from support.hosts import AGENT, open_hosts

pytestmark = [pytest.mark.real, pytest.mark.timeout(400), pytest.mark.xdist_group("machines")]

PACKAGE = "0.1.0"
SITE = "lib/python3.11/site-packages"


@pytest.fixture(scope="module")
def updater() -> Iterator[Updater]:
    with open_hosts(1) as bed, open_releases(bed) as releases:
        yield Updater(bed, releases)


@pytest.fixture
def slow() -> None:
    need_slow("it waits for the ends of trials")


def runs_a_slot(updater: Updater) -> tuple[str, str]:
    """A version that has stood its trial; → it, and its directory."""
    version = updater.staged()
    updater.kept(version, updater.activate(version))
    slot = updater.host.run("readlink", f"{BASE}/current").strip()
    return version, f"{BASE}/{slot}"


def until_runs(updater: Updater, version: str) -> None:
    """Five failed starts take their time where the machine is busy."""
    updater.host.until(lambda: updater.version() == version, f"version {version} does not run", 150)
    updater.check_one_agent(version)


def evidence(updater: Updater) -> list[dict[str, Any]]:
    """Of the node's own report, as the control plane has it."""
    node_id = updater.house.node("n1")["node_id"]
    lifecycle = updater.house.client.call("GET", f"/api/v1/admin/nodes/{node_id}/agent-lifecycle")
    found: list[dict[str, Any]] = (lifecycle["report"] or {}).get("evidence", [])
    return found


def check_left(updater: Updater, version: str, slot: str, now: str) -> None:
    """For good: the link leads elsewhere, and the node tells of a return that no task had asked for."""
    host = updater.host
    host.until(lambda: slot in updater.record("book")["bad"], "the slot was not left", 120)
    told = updater.record("returned")
    assert (told["version"], told["to_version"], told["error_code"]) == (version, now, "slot_damaged")
    updater.runs = now
    updater.check_one_agent(now)
    updater.host.run("systemctl", "restart", AGENT)
    updater.check_one_agent(now)


def test_U1_a_slot_whose_libraries_rot_gives_way_to_the_package_and_is_left(updater: Updater) -> None:
    version, home = runs_a_slot(updater)
    host = updater.host
    host.run("rm", "-r", f"{home}/{SITE}/msgspec")
    host.signal(9)
    until_runs(updater, PACKAGE)  # its StartLimit is off: systemd tries until the launcher has another
    updater.bed.until(lambda: any(each["kind"] == "slot" for each in evidence(updater)), "it does not say so")
    check_left(updater, version, home.rpartition("/")[2], PACKAGE)
    assert not host.exists(f"{BASE}/current")


@pytest.mark.usefixtures("slow")
def test_K7_half_written_files_after_a_power_cut_bring_the_version_before_back(updater: Updater) -> None:
    before, _ = runs_a_slot(updater)
    version, home = runs_a_slot(updater)
    host = updater.host
    for name in ("daemon.py", "config.py"):
        host.run("truncate", "--size=100", f"{home}/{SITE}/hostler/agent/{name}")
    host.run("sh", "-c", f"rm {home}/{SITE}/hostler/agent/__pycache__/*; sync")
    updater.power_cut()
    until_runs(updater, before)
    check_left(updater, version, home.rpartition("/")[2], before)


@pytest.mark.usefixtures("slow")
def test_U1_a_slot_of_which_only_the_session_is_broken_is_left(updater: Updater) -> None:
    """The agent itself starts: what is gone is loaded by the process that faces the network."""
    version, home = runs_a_slot(updater)
    host = updater.host
    host.run("rm", "-r", f"{home}/{SITE}/grpc")
    host.run("systemctl", "restart", AGENT)
    host.until(lambda: updater.record("book")["bad"], "the slot was not left", 120)
    told = updater.record("returned")
    check_left(updater, version, home.rpartition("/")[2], told["to_version"])


@pytest.mark.usefixtures("slow")
def test_U1_a_slot_that_is_whole_is_tried_again_at_the_next_start(updater: Updater) -> None:
    """Nobody could read the configuration; whichever version comes to start when it is mended, this one is not lost."""
    version, _ = runs_a_slot(updater)
    host, plain = updater.host, updater.host.read("/etc/hostler/agent.toml")
    host.put("/etc/hostler/agent.toml", "this is no TOML")
    host.signal(9)
    host.until(lambda: host.unit().restarts >= 7, "it is not tried again", 60)
    host.put("/etc/hostler/agent.toml", plain)
    updater.bed.until_in_service("n1")
    host.run("systemctl", "restart", AGENT)
    if updater.version() != version:  # within a minute of its start: the count stands until it is stopped in order
        host.run("systemctl", "restart", AGENT)
    updater.check_one_agent(version)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("how", ["unreadable", "unreadable, and the power is cut", "gone, and the power is cut"])
def test_U3_a_trial_that_nobody_can_read_ends_with_the_version_before(updater: Updater, how: str) -> None:
    host, before = updater.host, updater.runs
    version = updater.staged("hangs")
    operation_id = updater.activate(version, 600)
    host.until(lambda: host.exists(f"{BASE}/before"), "nothing was switched")
    host.until(lambda: f"/slots/{version}-" in host.run("ps", "-e", "-o", "args"), "it is not started")
    if how.startswith("gone"):
        host.run("sh", "-c", f"systemctl kill --signal=STOP {TRIAL}; rm {BASE}/trial.json; sync")
    else:
        host.put(f"{BASE}/trial.json", b"\0" * 300)
        host.run("sync")
    if "power" in how:
        updater.power_cut()
    host.until(lambda: host.exists(f"{BASE}/returned.json") and not host.exists(f"{BASE}/before"), "it stays", 120)
    operation = updater.ended(operation_id)
    (task,) = operation["tasks"]
    assert (operation["status"], task["error_code"]) == ("failed", "upgrade_rolled_back"), operation
    told = updater.record("returned")
    assert (told["version"], told["to_version"]) == (version, before)
    assert "cannot be read" in told["reason"]
    updater.check_one_agent(before)


@pytest.mark.usefixtures("slow")
def test_U1_a_watcher_whose_slot_has_rotted_is_replaced_by_that_of_the_package(updater: Updater) -> None:
    _, home = runs_a_slot(updater)
    host = updater.host
    version = updater.staged("hangs")
    operation_id = updater.activate(version, SHORT_S)
    host.until(lambda: host.exists(f"{BASE}/before"), "nothing was switched")
    host.run("rm", f"{home}/{SITE}/hostler/agent/trial_run.py")
    host.run("sh", "-c", f"rm -f {home}/{SITE}/hostler/agent/__pycache__/trial_run.*")
    host.run("systemctl", "kill", "--signal=KILL", TRIAL)
    assert "did not start" in updater.returned(version, operation_id)
