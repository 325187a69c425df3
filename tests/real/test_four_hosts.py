"""PG-04 on four hosts that really booted: enrolled at their first start, and back after whatever happens to them."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from support.front import Busy
from support.hosts import AGENT, SESSION, Bed, Host, open_hosts
from support.sites import JOBS, pids

pytestmark = [pytest.mark.real, pytest.mark.timeout(300), pytest.mark.xdist_group("machines")]

WRITE = {
    "type": "unit.write",
    "version": "v1",
    "inputs": {"type": "object", "additionalProperties": False, "properties": {"path": {}, "text": {}}},
    "capabilities": {"os.kernel": "linux"},
    "steps": [
        {"id": "write", "kind": "file.render", "params": {"path": "${inputs.path}", "template": "${inputs.text}"}},
        {"id": "run", "kind": "command.exec_allowlisted", "params": {"profile": "noop_true"}},
    ],
}
SAID = """
import sqlite3
journal = sqlite3.connect("/var/lib/hostler/journal.db")
print(journal.execute("SELECT count(*) FROM tasks WHERE state = 'open'").fetchone()[0])
print(journal.execute("SELECT count(*) FROM outbox").fetchone()[0])
"""
JOB = {"command": ["/bin/sh", "-c", "while [ ! -e /scratch/go ]; do sleep 0.1; done"]}


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with open_hosts(4, definitions=[WRITE]) as made:
        yield made


def test_PG_04_four_hosts_enrol_at_their_first_boot_and_do_one_operation(bed: Bed) -> None:
    for name in bed.names:
        assert not bed[name].exists("/etc/hostler/enrol.token"), "a used token stays"
        assert bed[name].unit().restarts == 0
    assert len({bed.house.node(name)["node_id"] for name in bed.names}) == 4
    operation_id = bed.house.submit("unit.write@v1", {"path": "/srv/made", "text": "here\n"}, nodes=bed.names)
    assert bed.house.finished(operation_id)["status"] == "succeeded"
    assert [bed[name].read("/srv/made") for name in bed.names] == ["here\n"] * 4
    proved = Counter((each["chain"]["node_id"], each["step_id"]) for each in bed.house.receipts(operation_id))
    nodes = [bed.house.node(name)["node_id"] for name in bed.names]
    assert proved == Counter((node, step) for node in nodes for step in ("write", "run"))


def test_PG_04_a_killed_agent_is_back_by_itself_and_so_is_a_killed_session(bed: Bed) -> None:
    killed = [(bed["n1"], AGENT), (bed["n3"], SESSION)]
    before = [host.unit(unit) for host, unit in killed]
    for host, unit in killed:
        host.signal(signal.SIGKILL, unit)
    for (host, unit), was in zip(killed, before, strict=True):
        host.until(lambda h=host, u=unit, w=was: h.unit(u).pid not in (0, w.pid), "it was not started again")  # type: ignore[misc]
        assert host.unit(unit).restarts == was.restarts + 1
    bed.until_in_service("n1", "n3")
    bed.noop("n1", "n3")


def test_PG_04_a_rebooted_host_is_back_in_service(bed: Bed) -> None:
    host = bed["n2"]
    operation_id = bed.house.submit("unit.write@v1", {"path": "/srv/kept", "text": "here\n"}, nodes=("n2",))
    assert bed.house.finished(operation_id)["status"] == "succeeded"
    boot = host.run("systemctl", "show", "-P", "UserspaceTimestampMonotonic")
    host.reboot()
    assert host.run("systemctl", "show", "-P", "UserspaceTimestampMonotonic") != boot
    bed.until_in_service("n2")
    bed.noop("n2")
    host.until(lambda: host.exists("/srv/kept"), "what was written before the reboot is gone")
    assert host.read("/srv/kept") == "here\n"


def test_PG_04_an_agent_that_hangs_is_killed_by_the_watchdog_and_started_again(bed: Bed) -> None:
    host = bed["n1"]
    host.drop_in("[Service]\nWatchdogSec=3\nTimeoutAbortSec=1\nRestartSec=100ms\n")
    host.run("systemctl", "restart", AGENT)
    before = host.unit()
    host.signal(signal.SIGSTOP)
    host.until(lambda: host.unit().pid not in (0, before.pid), "it hangs on")
    assert host.unit().restarts == before.restarts + 1
    host.until(lambda: "Watchdog timeout" in host.journal("-u", AGENT), "it was not the watchdog")
    host.drop_in("")  # a busy machine may hold a good agent up for as long
    host.run("systemctl", "restart", AGENT)
    bed.until_in_service("n1")
    bed.noop("n1")


def test_PG_04_a_host_whose_power_was_cut_is_back_in_service_with_what_was_synced(bed: Bed) -> None:
    host = bed["n2"]
    host.put("/srv/synced", "kept")
    host.run("sync")
    host.put("/srv/unsynced", "lost" * 5000)
    host.power_cut()
    host.power_on()
    host.booted()
    bed.until_in_service("n2")
    assert host.exists("/srv/synced")
    assert not host.exists("/srv/unsynced"), "the power cut of these tests loses nothing, and proves nothing"
    bed.noop("n2")


def test_K7_a_power_cut_in_mid_operation_leaves_the_old_file_or_the_new_one_and_each_step_proved_once(bed: Bed) -> None:
    host, house, moments = bed["n2"], bed.house, random.Random(7)
    old = ""
    for number in range(12 if os.environ.get("HOSTLER_SLOW") else 2):
        new = f"{number} " * 5000
        operation_id = house.submit("unit.write@v1", {"path": "/srv/k7", "text": new}, nodes=("n2",))
        time.sleep(moments.uniform(0, 0.08))
        host.power_cut()
        host.power_on()
        host.booted()
        found = host.read("/srv/k7") if host.exists("/srv/k7") else ""
        assert found in (old, new)
        operation = house.finished(operation_id)
        assert operation["status"] == "succeeded", operation
        assert host.read("/srv/k7") == new
        assert Counter(each["step_id"] for each in house.receipts(operation_id)) == {"write": 1, "run": 1}
        old = new
    bed.until_in_service("n2")


def test_EF_07_PG_04_a_drained_agent_that_is_stopped_finishes_what_runs_and_starts_nothing_new(bed: Bed) -> None:
    host, house = bed["n3"], bed.house
    running = house.submit("node.smoke.sleep@v1", {"seconds": 2}, nodes=("n3",))
    house.until(lambda: bool(house.operation(running)["tasks"][0]["steps"]))
    house.cli("nodes", "drain", "n3")
    later = house.submit("node.smoke.noop@v1", nodes=("n3",))
    host.run("systemctl", "stop", AGENT)
    assert host.unit(AGENT).active == "inactive"
    host.until(lambda: host.unit(SESSION).active == "inactive", "its session goes on")  # stopped by it, not with it
    assert host.shows("Result") == "success"
    assert house.operation(running)["status"] == "succeeded"
    bed.until(lambda: house.node("n3")["connection"] == "lost", "the control plane has not noticed")
    host.run("systemctl", "start", AGENT)
    bed.until_in_service("n3")
    assert house.operation(later)["status"] not in ("succeeded", "failed")
    house.cli("nodes", "uncordon", "n3")
    assert house.finished(later)["status"] == "succeeded"


def test_PG_04_an_agent_that_is_stopped_does_not_go_before_its_reports_have_arrived(bed: Bed) -> None:
    host, house = bed["n4"], bed.house
    running = house.submit("node.smoke.sleep@v1", {"seconds": 3}, nodes=("n4",))
    house.until(lambda: bool(house.operation(running)["tasks"][0]["steps"]))
    bed.stall("n4")
    host.run("systemctl", "stop", "--no-block", AGENT)
    host.until(lambda: journal(host)[0] == 0, "the step does not end")
    assert journal(host)[1] > 0, "nothing was kept back"
    bed.flow("n4")
    host.until(lambda: host.unit().active == "inactive", "it is not stopped")
    assert journal(host) == (0, 0)
    assert house.operation(running)["status"] == "succeeded"
    host.run("systemctl", "start", AGENT)
    bed.until_in_service("n4")


def journal(host: Host) -> tuple[int, int]:
    """Open tasks, and reports that the control plane has not confirmed."""
    tasks, reports = map(int, host.run("python3", "-c", SAID).split())
    return tasks, reports


def test_TE_20_a_restart_of_the_unit_leaves_a_running_job_alone(bed: Bed) -> None:
    house = bed.house
    job_id, task = started_job(bed)
    host = host_of(bed, task)
    before = pids(task["attempt_uid"])
    host.run("systemctl", "restart", AGENT)
    bed.until_in_service(host.name)
    assert before
    assert pids(task["attempt_uid"])[0] == before[0], "it was started again"
    host.put(f"/var/lib/hostler/containers/scratch/{task['attempt_uid']}/go", "")
    house.until(lambda: house.client.call("GET", f"{JOBS}/{job_id}")["finished_at_ms"] > 0)
    assert house.client.call("GET", f"{JOBS}/{job_id}")["state"] == "succeeded"


def started_job(bed: Bed) -> tuple[str, dict[str, Any]]:
    """Its id and its one task, which runs."""
    file = bed.house.home / "job.yaml"
    resources = {"cpu": "300m", "memory": "64MiB"}
    file.write_text(yaml.safe_dump({"name": "waits", "resources": resources} | JOB))
    job_id = bed.house.cli("jobs", "submit", str(file)).strip()

    def tasks() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = bed.house.client.call("GET", f"{JOBS}/{job_id}/tasks")["items"]
        return found

    bed.until(lambda: any(pids(each["attempt_uid"]) for each in tasks() if each["attempt_uid"]), "no job runs")
    return job_id, tasks()[0]


def host_of(bed: Bed, task: dict[str, Any]) -> Host:
    named = {bed.house.node(name)["node_id"]: name for name in bed.names}
    return bed[named[task["node_id"]]]


def test_one_host_of_the_bed_is_cut_off_or_told_to_come_later_and_the_others_go_on(bed: Bed) -> None:
    """The bed itself: what U2 and the partitions of K rows stand on."""
    bed["n4"].cut()
    bed.throttle("n3", busy=Busy(status="UNAVAILABLE", error_code="", retry_after_s=0.2))
    bed.until(lambda: len(bed.refused("n3")) > 1, "nothing was refused")
    bed.noop("n1", "n2")
    bed.until(lambda: bed.house.node("n3")["connection"] != "connected", "it is held for connected")
    bed.throttle("n1", busy=Busy(close=True, retry_after_s=1.5))
    bed.until(lambda: len(bed.refused("n1")) > 1, "it has given up")
    first, second, *_ = bed.refused("n1")
    assert second - first > 1.4, "an agent that was told when to come again came before"
    bed.through()
    bed["n4"].restore()
    bed.until_in_service()
    bed.noop()


def test_nothing_that_happened_to_the_hosts_was_a_failure_of_the_control_plane(bed: Bed) -> None:
    told = bed.house.log("control").read_text().splitlines()
    assert [line for line in told if '"level":"error"' in line] == []
