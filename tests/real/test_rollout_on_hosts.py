"""Versions, good and bad, rolled out to four booted hosts (LC-10..16, LC-21, API-20; U1, U2).

The house's own update key signs, the control plane serves the packages at its short-lived addresses, and everything is
done as an operator types it. All four hosts run the same good version between the tests.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import need_slow
from support.host_fleet import FIRST, REGIONS, Fleet, open_fleet
from support.hosts import Busy
from support.house import FINAL

pytestmark = [pytest.mark.real, pytest.mark.timeout(500), pytest.mark.xdist_group("machines")]

BASE = "/var/lib/hostler-agent"
LIMIT_S = 120.0  # from the order on the node to its return (LC-16)
TRIAL_S = 90.0  # what the shipped profile gives a version
CHECKS = {"version_reported", "service_healthy", "renewal_works", "schedulable"}


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with open_fleet() as made:
        yield made


def bodies(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["body"] for event in events]


def stops_at_the_canary(fleet: Fleet, kind: str, check: str, words: str, *options: str) -> float:
    """A rollout of a bad version, from its order to what everybody is told of it. → seconds until the return."""
    bad, house = fleet.publish(kind), fleet.house
    before = {name: host.unit() for name, host in fleet.bed.hosts.items()}
    rollout_id = fleet.create(bad, *options)
    canary = fleet.canary(rollout_id)
    others = [name for name in fleet.bed.names if name != canary]
    with fleet.watched() as seen, fleet.at_work(*others) as ends:
        found = fleet.still(rollout_id, LIMIT_S + 60)
        fleet.until(lambda: fleet.version(canary) == fleet.runs, "the canary has not returned")
        fleet.bed.until_in_service(canary)

    # the rollout stands still, and says where, which check, and why
    assert (found["state"], found["wave"], found["error_code"]) == ("paused", 0, "upgrade_rolled_back"), found
    assert (found["failed_node"], found["failures"], found["turning_back"]) == (canary, 1, False) or found[
        "turning_back"
    ]
    assert f"node {canary} ({check}): " in found["reason"]
    assert words in found["reason"]
    shown = house.cli("rollouts", "show", rollout_id)
    for word in (f"node {canary} ({check})", words, "upgrade_rolled_back"):
        assert word in shown, shown

    # the canary came back by itself, in time, and everybody else never left
    rows = fleet.members(rollout_id)
    assert rows[canary]["state"] == "rolled_back"
    assert (rows[canary]["failed_check"], rows[canary]["error_code"]) == (check, "upgrade_rolled_back")
    assert words in rows[canary]["reason"]
    assert rows[canary]["finished_at_ms"] >= rows[canary]["started_at_ms"] > 0
    told = fleet.bed[canary].path(f"{BASE}/returned.json").read_text()
    assert bad in told
    for name in others:
        assert (rows[name]["state"], rows[name]["run_id"], rows[name]["tries"]) == ("pending", "", 0)
        assert fleet.bed[name].unit() == before[name], "it was restarted"
        assert {each.reported for each in seen[name]} == {fleet.runs}
        assert not fleet.bed[name].exists(f"{BASE}/trial.json")
    assert ends, "nothing was done meanwhile"
    assert set(ends) == {"succeeded"}

    # the version that a node runs is what its agent says, and nobody else (LC-02)
    assert any(each.desired == bad for each in seen[canary])
    if kind in ("crash_loops", "hangs", "cannot_poll"):
        assert {each.reported for each in seen[canary]} == {fleet.runs}

    # EV-06, EV-09, EV-08, and the rollout's own
    fleet.until(lambda: bool(fleet.events("agent.rollback.completed", rollout_id=rollout_id)), "nobody told (EV-09)")
    types = [event["type"] for event in fleet.events("agent", rollout_id=rollout_id) if "upgrade" in event["type"]]
    assert types == ["agent.upgrade.started", "agent.upgrade.failed"]
    (back,) = bodies(fleet.events("agent.rollback.completed", rollout_id=rollout_id))
    assert (back["from_version"], back["to_version"]) == (bad, fleet.runs)
    assert words in back["reason"]
    (paused,) = [b for b in bodies(fleet.events("rollout", rollout_id=rollout_id)) if b.get("what") == "paused"]
    assert paused["automatic"] is True
    assert (paused["failed_check"], paused["error_code"]) == (check, "upgrade_rolled_back")
    (run,) = house.client.call("GET", "/api/v1/admin/agent-runs", rollout_id=rollout_id)["items"]
    assert run["state"] == "rolled_back"
    operation = house.operation(run["operation_id"])
    house.cli("rollouts", "abort", rollout_id, "--reason", "a bad version")
    assert fleet.show(rollout_id)["finished_at_ms"] > 0
    seconds: float = (operation["finished_at_ms"] - operation["started_at_ms"]) / 1000
    print(f"{kind}: back after {seconds:.1f} s")
    assert seconds < LIMIT_S
    return seconds


# -- every run of the tests -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def job(fleet: Fleet) -> tuple[str, dict[str, int]]:
    """One task on every host, from before the bad version until after the good one; its id and its processes."""
    job_id = fleet.job_on_each()
    return job_id, fleet.pids(job_id)


def test_LC_16_LC_21_TE_20_a_version_that_crashes_stops_at_the_canary(
    fleet: Fleet, job: tuple[str, dict[str, int]]
) -> None:
    job_id, began = job
    options = ("--safety", "force")
    seconds = stops_at_the_canary(fleet, "crash_loops", "version_reported", "3 starts of it failed", *options)
    assert seconds < 60
    assert fleet.pids(job_id) == began, "a process was started again"


def test_LC_15_LC_12_TE_20_a_good_version_reaches_all_in_waves(fleet: Fleet, job: tuple[str, dict[str, int]]) -> None:
    job_id, began = job
    version, fetched = fleet.publish(), len(fleet.delivery.fetched)
    rollout_id = fleet.create(version, "--safety", "force", "--by", "")
    with fleet.watched() as seen:
        found = fleet.succeeded(rollout_id, version)
    check_waves(fleet, rollout_id, found, "")
    for name in fleet.bed.names:
        assert {each.reported for each in seen[name]} <= {FIRST, version}
        assert {each.desired for each in seen[name]} >= {version}
        fleet.until(lambda name=name: fleet.state_of(name) == ("Current", "in_sync"), "it drifts")  # type: ignore[misc]
    paths = [path for path in fleet.delivery.fetched[fetched:] if version in path]
    assert len(paths) == 4, "one for each node, and nothing for a node that has it staged"
    assert all(path.startswith("/packages/v1/") for path in paths)

    assert fleet.pids(job_id) == began, "a process was started again"
    assert fleet.let_end(job_id) == "succeeded"


def check_waves(fleet: Fleet, rollout_id: str, found: dict[str, Any], *boundaries: str) -> None:
    """LC-15, LC-21, EV-06, EV-07: four checks on every node, and nobody before the turn of its wave."""
    rows = fleet.members(rollout_id)
    assert tuple(wave["boundary"] for wave in found["wave_list"]) == ("canary", *boundaries)
    for name, row in rows.items():
        assert (row["state"], row["error_code"], row["agent_version"]) == ("succeeded", "", fleet.runs)
        assert row["wave"] == 0 or row["boundary"] in ("", REGIONS[name])
    for wave in range(1, found["waves"]):
        over = max(row["finished_at_ms"] for row in rows.values() if row["wave"] == wave - 1)
        assert all(row["started_at_ms"] >= over for row in rows.values() if row["wave"] == wave)
    runs = fleet.house.client.call("GET", "/api/v1/admin/agent-runs", rollout_id=rollout_id)["items"]
    assert [set(run["checks"]) for run in runs] == [CHECKS] * 4
    for run in runs:
        told = [e["type"] for e in fleet.events("agent", run_id=run["run_id"]) if e["type"] != "agent.run_changed"]
        assert told == ["agent.upgrade.started", "agent.upgrade.completed"]
    started = [b["wave"] for e in fleet.events("rollout.wave_started") if (b := e["body"])["rollout_id"] == rollout_id]
    assert started == list(range(found["waves"]))


# -- with HOSTLER_SLOW=1 ----------------------------------------------------------------------------------------------


@pytest.fixture
def slow() -> None:
    need_slow("it waits for the ends of trials")


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    ("kind", "check", "words"),
    [
        ("cannot_renew", "renewal_works", "renew its certificate"),
        ("cannot_poll", "version_reported", "hold its session"),
        ("hangs", "version_reported", "did not start"),
    ],
)
def test_LC_16_LC_21_U1_a_version_that_is_bad_in_another_way_stops_at_the_canary(
    fleet: Fleet, kind: str, check: str, words: str
) -> None:
    stops_at_the_canary(fleet, kind, check, words)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    "busy", [Busy(status="UNAVAILABLE", error_code="", retry_after_s=3), Busy(status="RESOURCE_EXHAUSTED")]
)
def test_U2_LC_16_a_control_plane_that_is_too_busy_during_a_trial_has_nothing_rolled_back(
    fleet: Fleet, busy: Busy
) -> None:
    """For longer than the trial lasts; the rollout goes on when it takes calls again."""
    version = fleet.publish()
    rollout_id = fleet.create(version)
    canary = fleet.canary(rollout_id)
    host = fleet.bed[canary]
    fleet.until(lambda: host.exists(f"{BASE}/trial.json"), "there is no trial")
    fleet.bed.throttle(canary, busy=busy)
    try:
        end = time.monotonic() + TRIAL_S + 15
        while time.monotonic() < end:
            assert host.exists(f"{BASE}/trial.json"), host.journal("-u", "hostler-trial.service")
            assert fleet.show(rollout_id)["state"] == "running"
            time.sleep(0.5)
    finally:
        fleet.bed.through(canary)
    fleet.succeeded(rollout_id, version)
    assert not fleet.events("agent.rollback.completed", rollout_id=rollout_id)


@pytest.mark.usefixtures("slow")
def test_DM_07_a_control_plane_that_is_killed_in_mid_rollout_goes_on_where_it_was(fleet: Fleet) -> None:
    """Once while the canary is on trial, once while a wave is."""
    version = fleet.publish()
    rollout_id = fleet.create(version)
    for wave in (0, 1):

        def is_on_trial(wave: int = wave) -> bool:
            names = [name for name, row in fleet.members(rollout_id).items() if row["wave"] == wave]
            return any(fleet.bed[name].exists(f"{BASE}/trial.json") for name in names)

        fleet.until(is_on_trial, f"nobody of wave {wave} is on trial", 120, lambda: fleet.show(rollout_id))
        fleet.house.kill("control")
        time.sleep(5)
        fleet.house.serve()
    found = fleet.succeeded(rollout_id, version)
    check_waves(fleet, rollout_id, found, "eu", "us")


@pytest.mark.usefixtures("slow")
def test_API_20_a_rollout_is_resumed_when_the_one_host_that_failed_was_mended(fleet: Fleet) -> None:
    """What fails is the host's own doing: a unit that was changed there, which its report shows, too (LC-04)."""
    version = fleet.publish()
    name = fleet.would_be_canary(version)
    host = fleet.bed[name]
    refuse = f"/bin/sh -c '! readlink {BASE}/current | grep -q {version}'"
    host.drop_in(f"[Service]\nExecStartPre={refuse}\n")
    fleet.until(lambda: fleet.node(name)["agent"]["badge"] == "Config drift", "the drift is not seen")
    rollout_id = fleet.create(version)
    found = fleet.still(rollout_id)
    assert (found["state"], found["failed_node"]) == ("paused", name), fleet.told(found)
    assert "did not start" in found["reason"]
    host.run("rm", "/etc/systemd/system/hostler-agent.service.d/test.conf")
    host.run("systemctl", "daemon-reload")
    fleet.house.cli("rollouts", "resume", rollout_id, "--retry-failed", "--reason", "the drop-in is gone")
    fleet.succeeded(rollout_id, version)
    assert fleet.members(rollout_id)[name]["tries"] == 2


@pytest.mark.usefixtures("slow")
def test_API_20_LC_16_a_fixed_version_follows_a_bad_one_which_has_to_be_given_up_first(fleet: Fleet) -> None:
    bad, fixed = fleet.publish("crash_loops"), fleet.publish()
    rollout_id = fleet.create(bad)
    assert fleet.still(rollout_id)["state"] == "paused"
    with pytest.raises(AssertionError, match="rollout_open"):
        fleet.create(fixed)
    fleet.house.cli("rollouts", "abort", rollout_id, "--reason", "it crashes")
    fleet.succeeded(fleet.create(fixed), fixed)


@pytest.mark.usefixtures("slow")
def test_LC_10_a_node_is_upgraded_in_place_repaired_and_reconciled(fleet: Fleet) -> None:
    version, name = fleet.publish(), "n2"
    run = fleet.run_ended(fleet.bring(name, "in_place_upgrade", version), "succeeded")
    assert (set(run["checks"]), run["from_version"], fleet.version(name)) == (CHECKS, fleet.runs, version)
    for scenario in ("repair_reinstall", "drift_reconcile"):
        host = fleet.bed[name]
        before, pid = fleet.node(name)["agent"]["badge"], host.unit().pid
        assert before == "Current"
        slot = host.run("readlink", "-f", f"{BASE}/current").strip()
        module = host.run("find", slot, "-path", "*/hostler/agent/main.py").strip()
        plain = host.read(module)
        host.put(module, plain + "\n# changed on the host\n")
        fleet.until(lambda: fleet.node(name)["agent"]["badge"] == "Config drift", "the drift is not seen")
        assert fleet.node(name)["agent"]["drift_state"] == "config_drift"
        run = fleet.run_ended(fleet.bring(name, scenario), "succeeded")
        assert set(run["checks"]) == CHECKS
        assert host.unit().pid != pid, "it was not started anew"
        assert fleet.version(name) == version
        slot = host.run("readlink", "-f", f"{BASE}/current").strip()
        assert host.read(host.run("find", slot, "-path", "*/hostler/agent/main.py").strip()) == plain
        fleet.until(lambda: fleet.node(name)["agent"]["badge"] == "Current", "the drift stays")
    rollout_id = fleet.create(version)
    fleet.succeeded(rollout_id, version)
    assert fleet.members(rollout_id).keys() == set(fleet.bed.names) - {name}, "it has the version already"


@pytest.mark.usefixtures("slow")
def test_LC_14_a_run_waits_for_a_busy_node_and_a_drain_ends_with_it(fleet: Fleet) -> None:
    version, house, job_id = fleet.publish(), fleet.house, fleet.job_on_each()
    began, before = fleet.pids(job_id), [fleet.version(name) for name in ("n1", "n2")]
    idle = fleet.bring("n1", "in_place_upgrade", version, "idle")
    drain = fleet.bring("n2", "in_place_upgrade", version, "drain")
    for run_id, word in ((idle, "node_busy"), (drain, "draining")):
        fleet.until(lambda r=run_id, w=word: fleet.run(r)["waiting_for"] == w, word, 60, lambda r=run_id: fleet.run(r))  # type: ignore[misc]
        assert fleet.run(run_id)["state"] == "waiting"
    assert (house.node("n1")["scheduling"], house.node("n2")["scheduling"]) == ("schedulable", "draining")
    later = house.submit("node.smoke.noop@v1", nodes=("n2",))
    fleet.run_ended(fleet.bring("n3", "in_place_upgrade", version, "force"), "succeeded")
    assert fleet.pids(job_id) == began
    assert [fleet.version(name) for name in ("n1", "n2", "n3")] == [*before, version]
    assert house.operation(later)["status"] not in FINAL, "a node that drains took new work"
    assert fleet.let_end(job_id) == "succeeded", "its work was cut short"
    for run_id in (idle, drain):
        fleet.run_ended(run_id, "succeeded")
    assert (house.node("n1")["scheduling"], house.node("n2")["scheduling"]) == ("schedulable",) * 2
    assert house.finished(later)["status"] == "succeeded"
    fleet.succeeded(fleet.create(version), version)


@pytest.mark.usefixtures("slow")
def test_LC_08_a_run_that_people_do_closes_itself_when_they_have_typed_what_it_printed(
    fleet: Fleet, tmp_path: Path
) -> None:
    """They prove the digest where they have `hostler`, compare it where they fetch, and install on the host."""
    version, host = fleet.publish(), fleet.bed["n4"]
    run_id = fleet.bring("n4", "in_place_upgrade", version, mode="manual_install")
    assert fleet.run(run_id)["state"] == "awaiting_operator"
    action = fleet.run(run_id)["next_action"]
    *fetched, install = action["commands"]
    name, *proof = action["check_command"].replace("trust.json", str(fleet.house.home / "pki/trust.json")).split()
    assert name == "hostler"
    assert version in fleet.house.cli(*proof)
    for command in fetched:
        env = {"PATH": os.environ["PATH"], "CURL_CA_BUNDLE": str(fleet.delivery.ca)}
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
    (package,) = tmp_path.glob("*.deb")
    host.put(f"/root/{package.name}", package)
    host.run("sh", "-c", f"cd /root && {install}", timeout_s=120)
    run = fleet.run_ended(run_id, "succeeded")
    assert set(run["checks"]) == CHECKS
    assert (fleet.version("n4"), host.exists(f"{BASE}/current")) == (version, False)
    fleet.until(lambda: fleet.state_of("n4") == ("Current", "in_sync"), "it drifts")
    fleet.succeeded(fleet.create(version), version)
