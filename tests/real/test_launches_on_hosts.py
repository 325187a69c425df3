"""LC-17, LC-18, LC-20 on a booted host: launches that were interrupted, with the control plane there to ask.

The node has one place for containers, so that a second job is taken and waits. Nobody calls the kernel here: the
control plane asks by its own clock, and people type `hostler operations`.
"""

import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import need_slow
from support.hosts import AGENT, CONTAINERS, Bed, open_hosts
from support.sites import JOBS, pids

pytestmark = [pytest.mark.real, pytest.mark.timeout(300), pytest.mark.xdist_group("machines")]

AGES = (3, 30)
OLD_S = 5
RECENT = "recent_seconds = 600"
LAUNCHES = f"\n[launches]\nask_after_seconds = {list(AGES)}\n{RECENT}\n"
WAITS = "echo begun >> /scratch/begun; while [ ! -e /scratch/go ]; do sleep 0.1; done"
SCRATCH = "/var/lib/hostler/containers/scratch"
PLAIN: dict[str, Any] = {
    "type": "job.plain",
    "version": "v1",
    "inputs": {"type": "object", "additionalProperties": False, "properties": {}},
    "capabilities": {"workload.runtimes": "process"},
    "steps": [
        {
            "id": "run",
            "kind": "container.run",
            "params": {"job": "/ann/plain", "command": ["/bin/sh", "-c", WAITS], "runtime": "process"},
            "reusable": False,
            "timeout_seconds": 600,
        }
    ],
}


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    settings = CONTAINERS + "max_containers = 1\n"
    with open_hosts(1, settings=settings, definitions=[PLAIN], minters=lambda home: LAUNCHES) as made:
        yield made


def submit(bed: Bed, name: str) -> str:
    file = bed.house.home / f"{name}.yaml"
    resources = {"cpu": "100m", "memory": "32MiB"}
    file.write_text(yaml.safe_dump({"name": name, "resources": resources, "command": ["/bin/sh", "-c", WAITS]}))
    return bed.house.cli("jobs", "submit", str(file)).strip()


def job(bed: Bed, job_id: str) -> str:
    state: str = bed.house.client.call("GET", f"{JOBS}/{job_id}")["state"]
    return state


def task(bed: Bed, operation_id: str) -> dict[str, Any]:
    found: dict[str, Any] = bed.house.operation(operation_id)["tasks"][0]
    return found


def process(bed: Bed, operation_id: str) -> int:
    """Of the task's command, once there is one."""
    bed.until(lambda: bool(pids(task(bed, operation_id)["attempt_uid"])), "it does not run")
    return pids(task(bed, operation_id)["attempt_uid"])[0]


def begun(bed: Bed, operation_id: str) -> int:
    """How often."""
    return len(bed["n1"].read(f"{SCRATCH}/{task(bed, operation_id)['attempt_uid']}/begun").splitlines())


def let_end(bed: Bed, operation_id: str) -> None:
    bed["n1"].put(f"{SCRATCH}/{task(bed, operation_id)['attempt_uid']}/go", "")


def answers(bed: Bed, operation_id: str) -> list[tuple[str, str]]:
    """What the node said of its task each time it was asked, and what we held it for then."""
    found = bed.house.client.pages("/api/v1/events", type="task.probed", page_size=1000)
    return [(e["body"]["found"], e["body"]["was"]) for e in found if e["operation_id"] == operation_id]


def copy_store(bed: Bed, target: Path) -> None:
    with sqlite3.connect(bed.house.home / "control/control.db") as source, sqlite3.connect(target) as copy:
        source.backup(copy)


def put_back(bed: Bed, copy: Path) -> None:
    place = bed.house.home / "control"
    for path in place.glob("control.db*"):
        path.unlink()
    shutil.copy(copy, place / "control.db")


@pytest.mark.parametrize("how", ["killed", "cut_off"])
def test_LC_17_K2_an_agent_that_goes_between_start_and_report_goes_on_with_what_it_started(bed: Bed, how: str) -> None:
    """Nothing of the launch was heard when the agent or its cable went; the control plane was there all the time."""
    host, house = bed["n1"], bed.house
    bed.noop()
    bed.mute("n1")
    operation_id = submit(bed, f"went-{how}")
    pid = process(bed, operation_id)
    assert (task(bed, operation_id)["status"], answers(bed, operation_id)) == ("assigned", [])
    agent = host.unit().pid
    if how == "killed":
        host.signal(signal.SIGKILL)
        host.until(lambda: host.unit().pid not in (0, agent), "it was not started again")
    else:
        host.cut()
        bed.until(lambda: house.node("n1")["connection"] == "lost", "the control plane has not noticed")
        host.restore()
    assert task(bed, operation_id)["status"] == "assigned"
    bed.through("n1")  # what it had said before is lost with its connections
    bed.until_in_service("n1")
    bed.until(lambda: job(bed, operation_id) == "running", "it is not seen to run")
    assert (process(bed, operation_id), begun(bed, operation_id)) == (pid, 1), "it was started again"
    let_end(bed, operation_id)
    bed.until(lambda: job(bed, operation_id) == "succeeded", "it does not end")
    assert task(bed, operation_id)["attempt_number"] == 1


def test_LC_17_LC_18_a_launch_that_waits_on_its_node_is_asked_about_at_its_ages_and_no_more(bed: Bed) -> None:
    need_slow("it waits for the second age")
    first = submit(bed, "sits")
    process(bed, first)
    second = submit(bed, "queues")
    bed.until(lambda: len(answers(bed, second)) == len(AGES), "it is not asked about", AGES[-1] + 30)
    assert answers(bed, second) == [("waiting", "assigned")] * len(AGES)
    bed.noop()
    assert len(answers(bed, second)) == len(AGES)
    assert answers(bed, first) == [], "what runs was asked about"
    assert task(bed, second)["status"] == "assigned", "a node that says 'waiting' has not begun"
    for each in (first, second):
        process(bed, each)
        let_end(bed, each)
        bed.until(lambda i=each: job(bed, i) == "succeeded", "it does not end")  # type: ignore[misc]


def test_LC_17_LC_20_a_launch_that_a_restored_store_has_not_heard_of_is_found_running(bed: Bed, tmp_path: Path) -> None:
    """The copy is of the moment between the order and the report, which the node sends once: only asking helps."""
    need_slow("it waits for the second age")
    house = bed.house
    first = submit(bed, "ends")
    process(bed, first)
    second = submit(bed, "stalls")
    bed.until(lambda: answers(bed, second) == [("waiting", "assigned")], "it was not asked about")
    copy_store(bed, tmp_path / "copy.db")
    let_end(bed, first)
    pid = process(bed, second)
    bed.until(lambda: (job(bed, first), job(bed, second)) == ("succeeded", "running"), "nothing was reported")
    house.kill("control")
    put_back(bed, tmp_path / "copy.db")
    house.serve()
    bed.until_in_service()
    assert house.node("n1")["hold"] == "", "the copy is as old as a rollback"

    bed.until(lambda: job(bed, second) == "running", "nobody asked", AGES[-1] + 20)
    assert answers(bed, second) == [("waiting", "assigned"), ("running", "assigned")]
    assert (process(bed, second), begun(bed, second)) == (pid, 1), "it was started again"

    # what the copy holds for running is not asked about by itself, and is on request (LC-20)
    assert (job(bed, first), answers(bed, first)) == ("running", [])
    said = house.cli("operations", "probe", first)
    assert "did: node n1 is asked what became of task" in said
    bed.until(lambda: job(bed, first) == "succeeded", "its end was not told once more")
    let_end(bed, second)
    bed.until(lambda: job(bed, second) == "succeeded", "it does not end")
    actions = [line["action"] for line in house.client.pages("/api/v1/admin/audit-logs", page_size=200)]
    assert "operation.probe" in actions


@contextmanager
def serving(bed: Bed, recent: str) -> Iterator[None]:
    """A control plane that waits fifteen seconds for a task to be taken."""
    config = bed.house.home / "control.toml"
    plain = config.read_text()
    assert plain.count(RECENT) == 1
    try:
        serve(bed, "start_within_seconds = 15\n" + plain.replace(RECENT, recent))
        yield
    finally:
        serve(bed, plain)


def serve(bed: Bed, config: str) -> None:
    (bed.house.home / "control.toml").write_text(config)
    bed.house.stop("control")
    bed.house.serve()
    bed.until_in_service()


def given_up(bed: Bed) -> tuple[str, int]:
    """An operation that ended unclear while its node could not be heard, and its process there, which lives."""
    bed.noop()  # a session that has just been opened has more to say before it is sent work
    bed.mute("n1")
    try:
        operation_id = bed.house.submit("job.plain@v1", nodes=("n1",))
        pid = process(bed, operation_id)
        operation = bed.house.finished(operation_id)
        assert (operation["status"], operation["error_code"]) == ("failed", "expired")
    finally:
        bed.through("n1")
    bed.until_in_service("n1")
    bed.noop()
    return operation_id, pid


def stays_failed(bed: Bed, operation_id: str, pid: int) -> None:
    host, house = bed["n1"], bed.house
    operation = house.operation(operation_id)
    assert house.operation(operation_id)["status"] == "failed", "a late word took an end back"
    assert pids(task(bed, operation_id)["attempt_uid"])[0] == pid, "the container is not healthy any more"
    assert "needs nothing" in house.cli("operations", "probe", operation_id)
    bed.until(lambda: time.time() > operation["finished_at_ms"] / 1000 + OLD_S + 1, "it is not old")
    assert f"ended over {OLD_S} s ago, so it stays failed" in house.cli("operations", "recover", operation_id)
    assert begun(bed, operation_id) == 1
    assert answers(bed, operation_id) == []
    let_end(bed, operation_id)
    host.until(lambda: not pids(task(bed, operation_id)["attempt_uid"]), "it does not end")
    bed.noop()
    after = house.operation(operation_id)
    assert (after["status"], after["error_code"], after["tasks"][0]["attempt_number"]) == ("failed", "expired", 1)


def test_LC_18_LC_20_an_old_failure_stays_one_however_healthy_its_container(bed: Bed) -> None:
    """It was given up while its node could not be heard; the node comes back with it alive."""
    need_slow("it waits until a failure is old")
    host = bed["n1"]
    with serving(bed, f"recent_seconds = {OLD_S}"):
        stays_failed(bed, *given_up(bed))
    assert host.unit(AGENT).active == "active"


def test_LC_20_TE_20_recovery_of_a_recent_failure_never_runs_it_beside_itself(bed: Bed) -> None:
    """The node refuses a second attempt while the first one runs, and takes the next one when that has ended."""
    need_slow("it waits until a task is given up")
    house = bed.house
    with serving(bed, RECENT):
        operation_id, pid = given_up(bed)
        uid = task(bed, operation_id)["attempt_uid"]
        assert "a new attempt begins" in house.cli("operations", "recover", operation_id)
        operation = house.finished(operation_id)
        assert (operation["status"], operation["error_code"]) == ("failed", "interrupted_apply")
        assert pids(uid)[0] == pid, "the first attempt was touched"
        assert pids(task(bed, operation_id)["attempt_uid"]) == [], "it runs twice"
        bed["n1"].put(f"{SCRATCH}/{uid}/go", "")
        bed["n1"].until(lambda: not pids(uid), "it does not end")
        bed.noop()
        assert "a new attempt begins" in house.cli("operations", "recover", operation_id)
        process(bed, operation_id)
        let_end(bed, operation_id)
        operation = house.finished(operation_id)
        assert (operation["status"], operation["tasks"][0]["attempt_number"]) == ("succeeded", 3)
