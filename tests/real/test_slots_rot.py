"""U1, U3, K7, EV-09: booted hosts whose slots rot outside of a trial, or whose trial nobody can read any more."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from conftest import need_slow
from hostler.agent.upgrade.launch import MOST_LOOSE_STARTS
from support.agent_releases import open_releases
from support.hosts import AGENT, Bed, Host, open_hosts
from support.updating import BASE, FIRST, SHORT_S, TRIAL, Updater

pytestmark = [pytest.mark.real, pytest.mark.timeout(900), pytest.mark.xdist_group("machines")]

PACKAGED = "/usr/lib/hostler-agent/"
SITE = "lib/python3.11/site-packages"
LIMIT_S = 180  # of what takes half a minute on a machine that has nothing else to do
PLANT = f"""set -e
slot={BASE}/slots/$1
mkdir -p {BASE}/slots
cp -a /usr/lib/hostler-agent $slot
ln -sfn /usr/bin/python3 $slot/bin/python3
mkdir $slot/units
cp /usr/lib/systemd/system/hostler-*.service $slot/units/
digest=$(sha256sum $slot/manifest.json)
printf '{{"manifest_sha256":"%s"}}' ${{digest%% *}} >{BASE}/slots/.$1.ready.json
ln -sfn slots/$1 {BASE}/current
sync
systemctl restart hostler-agent.service
"""


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    need_slow("each fallback takes as many starts as it takes")
    with open_hosts(1) as made:
        yield made


@pytest.fixture(scope="module")
def updater(bed: Bed) -> Iterator[Updater]:
    with open_releases(bed) as releases:
        yield Updater(bed, releases)


def planted(bed: Bed, slot: str) -> str:
    """The host runs that slot, which is as a stage and a trial leave one; → its directory."""
    host = bed["n1"]
    host.run("sh", "-c", PLANT, "plant", slot, timeout_s=LIMIT_S)
    until_runs(bed, f"/slots/{slot}/")
    assert host.run("readlink", f"{BASE}/current").strip() == f"slots/{slot}"
    return f"{BASE}/slots/{slot}"


def processes(host: Host) -> list[str]:
    """The words of each; a host needs no `ps`."""
    command = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null; echo; done"
    return host.run("sh", "-c", command).splitlines()


def until_runs(bed: Bed, place: str) -> None:
    """Both processes are of that place, and the control plane has its node."""
    host = bed["n1"]

    def up() -> bool:
        lines = [line for line in processes(host) if "bin/hostler-agent" in line]
        found = [any(place in line and word in line for line in lines) for word in (" run ", " session ")]
        return all(found) and bed.house.node("n1")["connection"] == "connected"

    host.until(up, f"{place} does not run", LIMIT_S)
    bed.until_in_service("n1")
    bed.noop("n1")


def record(bed: Bed, name: str) -> dict[str, Any]:
    path = bed["n1"].path(f"{BASE}/{name}.json")
    found: dict[str, Any] = msgspec.json.decode(path.read_bytes()) if path.exists() else {}
    return found


def is_reported_bad(bed: Bed, version: str) -> bool:
    """By the node's own report, as the control plane has it."""
    node_id = bed.house.node("n1")["node_id"]
    lifecycle = bed.house.client.call("GET", f"/api/v1/admin/nodes/{node_id}/agent-lifecycle")
    slots = (lifecycle["report"] or {}).get("slots", [])
    return any((slot["version"], slot["state"]) == (version, "bad") for slot in slots)


def check_left(bed: Bed, slot: str) -> None:
    """For good: the link is gone, and the node tells of a return that no task had asked for."""
    host = bed["n1"]
    host.until(lambda: slot in record(bed, "book").get("bad", {}), "the slot was not left", LIMIT_S)
    host.until(lambda: not host.exists(f"{BASE}/current"), "the link is still there")
    assert record(bed, "returned")["error_code"] == "slot_damaged"
    until_runs(bed, PACKAGED)
    bed.until(lambda: is_reported_bad(bed, "0.1.0"), "it does not say so", LIMIT_S)
    host.run("systemctl", "restart", AGENT)
    until_runs(bed, PACKAGED)


def test_U1_a_slot_whose_libraries_rot_gives_way_to_the_package_and_is_left(bed: Bed) -> None:
    home, host = planted(bed, "one"), bed["n1"]
    host.run("rm", "-r", f"{home}/{SITE}/msgspec")
    host.signal(9)
    until_runs(bed, PACKAGED)  # its StartLimit is off: systemd tries until the launcher has another
    assert int(host.shows("NRestarts")) >= MOST_LOOSE_STARTS
    check_left(bed, "one")


def test_K7_half_written_files_after_a_power_cut_bring_the_package_back(bed: Bed) -> None:
    home, host = planted(bed, "two"), bed["n1"]
    for name in ("daemon.py", "config.py"):
        host.run("truncate", "--size=100", f"{home}/{SITE}/hostler/agent/{name}")
    host.run("sh", "-c", f"rm -f {home}/{SITE}/hostler/agent/__pycache__/*; sync")
    host.power_cut()
    host.power_on()
    host.booted()
    until_runs(bed, PACKAGED)
    check_left(bed, "two")


def test_U1_a_slot_of_which_only_the_session_is_broken_is_left(bed: Bed) -> None:
    """The agent itself starts: what is gone is loaded by the process that faces the network."""
    home, host = planted(bed, "three"), bed["n1"]
    host.run("rm", "-r", f"{home}/{SITE}/grpc")
    host.run("systemctl", "restart", AGENT)
    check_left(bed, "three")


def test_U1_a_slot_that_is_whole_is_tried_again_at_the_next_start(bed: Bed) -> None:
    """Nobody could read the configuration; whichever version comes to start when it is mended, this one is not lost."""
    planted(bed, "four")
    host, plain = bed["n1"], bed["n1"].read("/etc/hostler/agent.toml")
    host.put("/etc/hostler/agent.toml", "this is no TOML")
    host.signal(9)
    host.until(lambda: host.unit().restarts >= 7, "it is not tried again", LIMIT_S)
    host.put("/etc/hostler/agent.toml", plain)
    until_runs(bed, PACKAGED)
    host.run("systemctl", "restart", AGENT)
    until_runs(bed, "/slots/four/")
    host.run("rm", f"{BASE}/current")
    host.run("systemctl", "restart", AGENT)


@pytest.mark.parametrize("how", ["unreadable", "unreadable, and the power is cut", "gone, and the power is cut"])
def test_U3_a_trial_that_nobody_can_read_ends_with_the_version_before(updater: Updater, how: str) -> None:
    host, before = updater.host, updater.runs
    version = updater.staged("hangs")
    operation_id = updater.activate(version, 600)
    host.until(lambda: host.exists(f"{BASE}/before"), "nothing was switched")
    host.until(lambda: any(f"/slots/{version}-" in line for line in processes(host)), "it is not started")
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


def test_U1_a_watcher_whose_slot_has_rotted_is_replaced_by_that_of_the_package(updater: Updater) -> None:
    home, host = planted(updater.bed, f"{FIRST}-five"), updater.host
    version = updater.staged("hangs")
    operation_id = updater.activate(version, SHORT_S)
    host.until(lambda: host.exists(f"{BASE}/before"), "nothing was switched")
    host.run("rm", f"{home}/{SITE}/hostler/agent/trial_run.py")
    host.run("sh", "-c", f"rm -f {home}/{SITE}/hostler/agent/__pycache__/trial_run.*")
    host.run("systemctl", "kill", "--signal=KILL", TRIAL)
    assert "did not start" in updater.returned(version, operation_id)
