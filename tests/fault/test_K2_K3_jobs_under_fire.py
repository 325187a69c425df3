"""K2, K3, JB-05, TE-20: agents, the control plane and containerd are killed at random under 200 tasks of jobs.

The proof is a ledger outside of everything that is killed: each start of a task's program writes a line, and so does
each end. Nothing is lost and nothing doubled: one start per attempt, one terminal result per task, every line of its
log once. The seed is printed; HOSTLER_SEED=… plays the same kills again.
"""

import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from replay.invariants import broken

from conftest import need_slow
from hostler.base.errors import HostlerError
from hostler.control.store.db import open_reader
from support.busybox import busybox_layer
from support.certs import make_server_certs
from support.containerd import containerd
from support.house import PROJECT, TERMINAL_EVENTS, House, open_house
from support.job_fleet import wrong
from support.killing import Killer, Part
from support.registry import registry
from support.runtimes import shared_directory

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("house-fire")]
JOBS_PATH = f"/api/v1/projects/{PROJECT}/jobs"
JOBS, TASKS = 4, 50
SEED = int(os.environ.get("HOSTLER_SEED") or secrets.randbelow(1_000_000))
SLOW = bool(os.environ.get("HOSTLER_SLOW"))
LIMIT_S = 150.0
CPU_MILLIS = (os.cpu_count() or 1) * 1000 // 12  # so many fit on a node at once, however large it is
SCRIPT = """
set -e
say() { echo "$1 $HOSTLER_JOB $(date +%s) $HOSTLER_ATTEMPT_UID" >> "$0"; }
say begun; echo "first $HOSTLER_TASK_INDEX"; sleep "$1"; say ended; echo "last $HOSTLER_TASK_INDEX"
"""
SETTINGS = """
runtime = "containerd"
containerd_socket = "{daemon.socket}"
log_dir = "{daemon.place}/logs"
allow_mounts = ["{directory}"]
allow_writable_mounts = ["{directory}"]
allow_host_network = true
"""


class Fire:
    """Jobs of a house, and the ledger of what they did."""

    def __init__(self, house: House, directory: Path, **spec: Any) -> None:
        self.house = house
        self.ledger = directory / secrets.token_hex(4)
        self.ledger.touch()
        self.ledger.chmod(0o666)
        self._spec = spec
        # of a job: containerd ends what it finds half begun when it comes back, and it may have let it go just before
        self._may_lose = 1 if spec else 0

    def call(self, method: str, path: str, **more: Any) -> Any:
        """As a careful caller: again, with the same body, until the control plane answers."""
        end = time.monotonic() + LIMIT_S
        while True:
            try:
                return self.house.client.call(method, path, **more)
            except HostlerError as err:
                if err.code not in {"controller_unreachable", "store_unavailable"} or time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def submit(self, tasks: int, seconds: float, **more: Any) -> str:
        body = {
            "name": f"fire-{secrets.token_hex(4)}",
            "command": ["/bin/sh", "-c", SCRIPT, str(self.ledger), str(seconds)],
            "replicas": tasks,
            "resources": {"cpu_millis": CPU_MILLIS, "memory_bytes": 0, "shm_bytes": 0},
            "idempotency_key": secrets.token_hex(8),
        }
        made: str = self.call("POST", JOBS_PATH, body=body | self._spec | more)["job_id"]
        return made

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"{JOBS_PATH}/{job_id}")
        return found

    def ended(self, job_id: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
        self.house.until(lambda: self.job(job_id)["state"] in {"succeeded", "failed", "canceled"}, limit_s=limit_s)
        return self.job(job_id)

    def tasks(self, job_id: str) -> list[dict[str, Any]]:
        return list(self.house.client.pages(f"{JOBS_PATH}/{job_id}/tasks"))

    def begun(self, what: str = "begun") -> list[tuple[str, str]]:
        """(attempt, job) of each line of the ledger."""
        lines = [line.split() for line in self.ledger.read_text().splitlines()]
        return [(line[3], line[1]) for line in lines if line[0] == what]

    def running(self) -> int:
        return len(self.begun()) - len(self.begun("ended"))

    def lines(self, job_id: str) -> Counter[tuple[str, str]]:
        path = f"/api/v1/projects/{PROJECT}/operations/{job_id}/logs"
        found = self.house.client.pages(path)
        return Counter((line["attempt_uid"], line["text"]) for line in found if line["stream"] == "stdout")

    def retried(self, job_id: str) -> list[str]:
        """Why."""
        events = self.house.client.events(f"/api/v1/projects/{PROJECT}/operations/{job_id}/events")
        return [str(event.data) for event in events if event.name == "job.task_retried"]

    def said(self, job_id: str) -> Counter[str]:
        """What agents told of its containers, without the names of these."""
        path = f"/api/v1/projects/{PROJECT}/operations/{job_id}/logs"
        found = (line["text"] for line in self.house.client.pages(path) if line["stream"] == "agent")
        return Counter(re.sub(r"[0-9a-z_-]{20,}", "…", text)[:120] for text in found)

    def check(self, job_id: str) -> None:
        """Of a job that has ended: nothing lost, nothing doubled."""
        job = self.job(job_id)
        tasks = self.tasks(job_id)
        failed = [t for t in tasks if t["state"] != "succeeded"]
        assert [(t["task_index"], t["state"], t["error_code"], t["error_message"]) for t in failed] == []
        assert job["state"] == "succeeded"
        lost = [each for task in tasks for each in task["attempts"][:-1]]
        print(len(lost), "attempts lost:", self.retried(job_id), self.said(job_id))
        assert {each["error_code"] for each in lost} <= {"container_lost"}
        assert len(lost) <= self._may_lose, "no death is a new try"
        for task in tasks:
            numbers = [each["attempt_number"] for each in task["attempts"]]
            assert numbers == list(range(1, 2 + task["preemptions"]))
        own = Counter({task["attempt_uid"]: 1 for task in tasks})
        gone = {each["attempt_uid"] for each in lost}
        for what in ("begun", "ended"):
            did = Counter(uid for uid, name in self.begun(what) if name == job["name"])
            assert max(did.values()) == 1, f"an attempt has {what} twice"
            assert own.keys() <= did.keys() <= own.keys() | gone
        expected = {(t["attempt_uid"], f"{word} {t['task_index']}"): 1 for t in tasks for word in ("first", "last")}
        told = Counter({line: times for line, times in self.lines(job_id).items() if line[0] not in gone})
        assert told - Counter(expected) == Counter(), "a line was told twice"
        assert Counter(expected) - told == Counter(), "lines are lost"
        assert sum(self.house.follow(job_id)[name] for name in TERMINAL_EVENTS) == 1
        receipts = self.house.receipts(job_id)
        assert Counter(receipt["attempt_uid"] for receipt in receipts) == own + Counter(gone)


@contextmanager
def house_of(names: str, lost_grace_seconds: int = 60, **configured: Any) -> Iterator[House]:
    jobs = f"[jobs]\nlost_grace_seconds = {lost_grace_seconds}\n"
    with open_house(minters=lambda home: jobs) as house:
        house.serve()
        for name in names:
            house.enrol(name)
            house.configure(name, **configured)
            house.start(name)
        yield house


def parts_of(house: House, names: str) -> dict[str, Part]:
    agents: dict[str, Part] = {
        name: (lambda name=name: house.kill(name), lambda name=name: house.launch(name))  # type: ignore[misc]
        for name in names
    }
    return {"control": (lambda: house.kill("control"), house.serve), **agents}


def books(house: House) -> None:
    db = open_reader(house.home / "control" / "control.db")
    try:
        assert broken(db) == {}
    finally:
        db.close()
    assert wrong(house.home / "control") == {}


@pytest.fixture
def directory() -> Iterator[Path]:
    """Where tasks may write; /tmp is not theirs to see."""
    with shared_directory(0o777) as made:
        yield made


def burn(fire: Fire, parts: dict[str, Part], rounds: int, jobs: int, tasks: int, seconds: float) -> None:
    print(f"HOSTLER_SEED={SEED}")
    job_ids = [fire.submit(tasks, seconds)]
    house = fire.house
    house.until(lambda: fire.running() > 0, limit_s=60)
    with Killer(parts, SEED, rounds, watch=fire.running) as killer:
        job_ids += [fire.submit(tasks, seconds) for _ in range(jobs - 1)]
    print("killed, with so many tasks running:", killer.killed)
    for job_id in job_ids:
        fire.ended(job_id)
        fire.check(job_id)
    books(house)
    assert sum(running > 0 for _, running in killer.killed) > 1, "there was no load"


def test_K2_K3_agents_and_the_control_plane_killed_under_200_tasks_lose_and_double_nothing(directory: Path) -> None:
    with house_of("ab") as house:
        burn(Fire(house, directory), parts_of(house, "ab"), 12 if SLOW else 3, JOBS, TASKS, 1)


def test_K2_K3_containerd_killed_beside_them_loses_and_doubles_nothing(directory: Path, tmp_path: Path) -> None:
    """Whole with HOSTLER_SLOW; else a job of twenty tasks."""
    certs = make_server_certs(tmp_path)
    mount = {"source": str(directory), "target": str(directory), "read_only": False}
    with containerd() as daemon, registry(tmp_path, certs) as store:
        daemon.trust(store.name, certs.ca)
        image = f"{store.name}/team/task@{store.image('team/task', busybox_layer())}"
        settings = SETTINGS.format(daemon=daemon, directory=directory)
        with house_of("a", containers=settings, root="/", ca_file=certs.ca) as house:
            fire = Fire(house, directory, image=image, network="host", mounts=[mount])
            parts = parts_of(house, "a") | {"containerd": (daemon.kill, daemon.start)}
            burn(fire, parts, 8 if SLOW else 2, JOBS if SLOW else 1, TASKS if SLOW else 20, 3)


def test_EF_05_a_control_plane_that_is_away_stops_nothing_but_a_hard_fence(directory: Path) -> None:
    """Thirty seconds with HOSTLER_SLOW; else a little longer than the shortest fence there is."""
    away_s = 30 if SLOW else 14
    with house_of("a") as house:
        fire = Fire(house, directory)
        free, fenced = fire.submit(3, away_s + 12), fire.submit(1, 600, fence="hard", fence_seconds=10)
        house.until(lambda: len(fire.begun()) == 4)
        house.kill("control")
        time.sleep(away_s)
        assert fire.running() == 4, "nothing ended by itself"
        # the hard fence has stopped its task while nobody could be told
        house.until(lambda: not _task_processes(str(fire.ledger), "600"))
        house.serve()
        assert {t["error_code"] for t in _over(fire, fenced)} == {"fence_expired"}
        fire.ended(free)
        fire.check(free)


def test_EF_06_a_relocatable_task_of_a_lost_node_has_one_new_attempt(directory: Path) -> None:
    need_slow("a node has to be lost first")
    with house_of("ab", lost_grace_seconds=10) as house:
        fire = Fire(house, directory)
        job_id = fire.submit(1, 25, relocatable=True)
        house.until(lambda: fire.running() == 1)
        (task,) = fire.tasks(job_id)
        house.kill(task["node"])
        house.until(lambda: len(fire.begun()) == 2, limit_s=60)
        (moved,) = fire.tasks(job_id)
        assert (moved["attempt_number"], moved["preemptions"]) == (2, 1)
        assert moved["node"] != task["node"]
        house.launch(task["node"])  # it is back, and told to end the old attempt, which it had gone on with
        fire.ended(job_id)
        (over,) = fire.tasks(job_id)
        assert [each["attempt_number"] for each in over["attempts"]] == [1, 2]
        assert Counter(uid for uid, _ in fire.begun()) == {each["attempt_uid"]: 1 for each in over["attempts"]}
        assert [uid for uid, _ in fire.begun("ended")] == [over["attempt_uid"]]
        books(house)


def _over(fire: Fire, job_id: str) -> list[dict[str, Any]]:
    fire.ended(job_id)
    return fire.tasks(job_id)


def _task_processes(*words: str) -> list[int]:
    """Processes with all these words as arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            said = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if all(word in said for word in words):
            found.append(int(path.parent.name))
    return found
