"""The same jobs on real containerd, on a real Docker Engine and as processes: with real control plane, agents, CLI."""

import contextlib
import os
import pty
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import need_slow
from hostler.agent.containers import groups
from support.certs import make_server_certs
from support.ports import node_ports
from support.sites import ROOT, Site, pids, site

pytestmark = [pytest.mark.real, pytest.mark.timeout(180), pytest.mark.xdist_group("containers")]
RUNTIMES = ("process", "containerd", "docker")
# of the two engines a run takes what differs most; of processes all
TAKEN = {"containerd": ("RN_04", "TE_20", "TE_04", "RN_06"), "docker": ("RN_04", "X1", "RN_06")}
OUTPUT = "i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); done; echo oops >&2; printf unended"
WAIT = "echo ready; while [ ! -e /scratch/go ]; do sleep 0.1; done; printf done"
GREEDY = "exec dd if=/dev/zero of=/dev/null bs=200M count=1"  # its buffer is more than it is given


LEADER = """
import json, time
from hostler import sdk
ctx = sdk.context()
ctx.registry.register("leader", port=ctx.get_port("actor"))
print("ready", open("/app/data.txt").read())
child = sdk.submit("child", sdk.Entrypoint.argv(*%s), **%s)
print("child", child.wait(30)["status"])
while not ctx.resolver.resolve("follower").first():
    time.sleep(0.1)
"""
FOLLOWER = """
import time
from hostler import sdk
ctx = sdk.context()
while not (found := ctx.resolver_for_job("/house/leader").resolve("leader").first()):
    time.sleep(0.1)
print("found", found.address, ctx.info.num_tasks)
"""


@pytest.fixture(autouse=True)
def thinned(request: pytest.FixtureRequest, here: Site) -> None:
    taken = TAKEN.get(here.runtime, ("",))
    if not any(part in request.node.name for part in taken):
        need_slow("all of each engine takes minutes")


@pytest.fixture(scope="module", params=RUNTIMES)
def here(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    place = tmp_path_factory.mktemp(request.param)
    with site(request.param, place, make_server_certs(place)) as made:
        yield made


def test_RN_04_RN_08_the_same_jobs_from_one_file_end_as_they_end(here: Site) -> None:
    jobs = {
        "good": here.document("good", OUTPUT, setup=["/bin/sh", "-c", "echo made ready"]),
        "bad": here.document("bad", "echo sorry; exit 3"),
        "greedy": here.document("greedy", GREEDY),
        "shot": here.document("shot", "echo here; exec sleep 60"),
        "unready": here.document("unready", "echo never", setup=["/bin/sh", "-c", "echo cannot; exit 4"]),
    }
    ids = dict(zip(jobs, here.submit(*jobs.values()), strict=True))
    here.said(ids["shot"], "here")
    os.kill(pids(here.attempt(ids["shot"]))[0], signal.SIGKILL)  # what is a first process can be sent nothing else
    here.cli("wait", ids["bad"], code=3)
    ends = {name: here.ended(ids[name], "succeeded" if name == "good" else "failed")[0] for name in jobs}
    told = {name: (task["error_code"], task["exit_code"]) for name, task in ends.items()}
    assert told == {
        "good": ("", 0),
        "bad": ("container_exit", 3),
        "greedy": ("out_of_memory", 137),
        "shot": ("container_killed", 137),
        "unready": ("setup_failed", 4),
    }
    assert here.texts(ids["good"]) == ["made ready", *(f"line {n}" for n in range(300)), "unended"]
    assert here.texts(ids["good"], "stderr") == ["oops"]
    assert here.texts(ids["unready"]) == ["cannot"]
    shown = here.cli("logs", "-f", ids["bad"]).stdout
    assert "sorry" in shown
    assert ends["shot"]["error_message"] == "the command was ended by signal 9"
    assert {name for name in jobs if f"/house/{name}" in here.cli("list", "--all").stdout} == set(jobs)
    here.nothing_left()


def limits(pid: int) -> dict[str, int]:
    """As the kernel has them."""
    files = {"memory": "memory.max" if groups.unified() else "memory.limit_in_bytes", "pids": "pids.max"}
    found = {name: groups.of_process(pid, name) for name in files}
    return {name: int((group / files[name]).read_text()) for name, group in found.items() if group is not None}


def test_TE_01_TE_02_TE_03_TE_09_RN_09_what_a_task_is_given(here: Site) -> None:
    script = "env; echo all; while [ ! -e /scratch/go ]; do sleep 0.1; done"
    limited = {"cpu": "300m", "memory": "64MiB", "pids": 100}
    words = {
        "resources": limited,
        "ports": ["actor"],
        "replicas": 2,
        "environment": {"HOSTLER_TASK_ID": "x", "IRIS_TASK_ID": "x", "MINE": "1"},
    }
    job_id = here.start("given", script, **words)
    here.house.until(lambda: here.texts(job_id).count("all") == 2)
    tasks = here.tasks(job_id)
    for task in tasks:
        (pid, *_) = pids(task["attempt_uid"])
        own = [line["text"] for line in here.lines(job_id) if line["task_id"] == task["task_id"]]
        env = dict(line.split("=", 1) for line in own if "=" in line)
        assert env["MINE"] == "1"
        for name, value in {
            "JOB_ID": job_id, "JOB": "/house/given", "TASK_ID": task["task_id"], "ATTEMPT": "1", "NUM_TASKS": "2",
            "TASK_INDEX": str(task["task_index"]), "ATTEMPT_UID": task["attempt_uid"], "WORKER_ID": task["node_id"],
            "NAMESPACE": "/house/given", "PARENT_JOB": "", "VM_ADDRESS": "127.0.0.1",
            "CONTROLLER_ADDRESS": "unix:///run/hostler/task.sock",
        }.items():  # fmt: skip
            assert env[f"HOSTLER_{name}"] == value
        for name in ("JOB_ID", "TASK_ID", "WORKER_ID", "CONTROLLER_ADDRESS", "VM_ADDRESS"):
            assert env[f"IRIS_{name}"] == env[f"HOSTLER_{name}"]
        assert limits(pid) == {"memory": 64 << 20, "pids": 100}
    ports = {line.partition("=")[2] for line in here.texts(job_id) if line.startswith("HOSTLER_PORT_ACTOR=")}
    assert len(ports) == 2
    for index in (0, 1):
        (here.scratch(job_id, index) / "go").touch()
    here.ended(job_id)
    here.nothing_left()


def test_X1_a_program_inside_a_running_task_with_streams_or_a_terminal_of_its_own(here: Site) -> None:
    job_id = here.start("open", WAIT)
    here.said(job_id, "ready")
    done = here.cli("exec", job_id, "--", "/bin/sh", "-c", "echo out; echo err >&2; exit 5", code=5)
    assert (done.stdout, done.stderr) == ("out\n", "err\n")
    assert here.cli("exec", "-i", job_id, "--", "/bin/sh", "-c", "cat", stdin=b"all of it").stdout == "all of it"
    code, shown = in_terminal(here.line("exec", "-it", job_id, "--", "/bin/sh", "-c", "test -t 0; echo tty=$?; exit 6"))
    assert (code, "tty=0" in shown) == (6, True), shown
    profiled = here.cli("profile", job_id, "--seconds", "1")
    assert "memory" in profiled.stdout, profiled
    (here.scratch(job_id) / "go").touch()
    here.ended(job_id)
    here.nothing_left()


def in_terminal(line: list[str]) -> tuple[int, str]:
    """Exit code and what was shown."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as running:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # it was closed
            while data := os.read(ours, 4096):
                shown += data
        code = running.wait(30)
    os.close(ours)
    return code, shown.decode()


def test_EF_a_cancel_ends_the_whole_tree(here: Site) -> None:
    script = "(trap '' TERM; setsid sleep 300) & trap 'exit 1' TERM; sleep 300 & echo ready; wait"
    job_id = here.start("doomed", script)
    here.said(job_id, "ready")
    uid = here.attempt(job_id)
    assert len(pids(uid)) >= 3
    here.cli("cancel", job_id)
    here.ended(job_id, "canceled")
    assert pids(uid) == []
    here.nothing_left()


def test_TE_20_K3_what_runs_outlives_agent_daemon_and_control_plane(here: Site) -> None:
    """And is told whole: no line is lost, none twice but for what an agent without its journal tells again."""
    house = here.house
    job_id = here.start("lasting", WAIT)
    here.said(job_id, "ready")
    uid = here.attempt(job_id)
    (first, *_) = pids(uid)

    def stop() -> None:
        house.stop("a")
        house.start("a")

    def kill() -> None:
        house.kill("a")
        house.start("a")

    def end_daemon() -> None:
        here.restart()

    def end_control() -> None:
        house.kill("control")
        house.serve()

    def forget() -> None:
        house.kill("a")
        for path in here.state().glob("journal.db*"):
            path.unlink()
        house.start("a")

    def there() -> bool:
        command = here.line("exec", job_id, "--", "/bin/sh", "-c", "echo there")
        ran = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=90)
        return ran.stdout == b"there\n"

    for happening in (stop, kill, end_daemon, end_control, forget):
        happening()
        house.until(lambda: house.node("a")["connection"] == "connected")
        assert pids(uid)[0] == first, happening
        house.until(lambda: here.tasks(job_id)[0]["state"] == "running")
    house.until(there)  # a node without its journal is given the task anew, and runs it once it has taken it up
    (here.scratch(job_id) / "go").touch()
    (task,) = here.ended(job_id)
    assert (task["attempt_number"], task["exit_code"], task["failures"]) == (1, 0, 0)
    assert here.texts(job_id) == ["ready", "ready", "done"]
    here.nothing_left()


def test_TE_04_TE_08_TE_10_JB_08_tasks_find_each_other_and_have_children(here: Site, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "agent/hostler/sdk", tmp_path / "hostler/sdk")
    (tmp_path / "data.txt").write_text("of the workspace")
    child = here.document("child", "echo $HOSTLER_PARENT_JOB $HOSTLER_NAMESPACE")
    more = {name: child[name] for name in ("image",) if name in child}
    (tmp_path / "leader.py").write_text(LEADER % (child["command"], more))
    (tmp_path / "follower.py").write_text(FOLLOWER)
    documents = [here.python("leader", "/app/leader.py", ports=["actor"]), here.python("follower", "/app/follower.py")]
    leader, follower = here.submit(*documents, options=("--workspace", str(tmp_path)))
    here.ended(follower)
    here.said(leader, "child succeeded")
    (found,) = here.texts(follower)
    port = next(int(line.split(":")[-1]) for line in [found.split()[1]])
    assert (found.split()[0], here.ports[0] <= port <= here.ports[1]) == ("found", True)
    assert here.texts(leader) == ["ready of the workspace", "child succeeded"]
    (below,) = (job for job in here.jobs() if job["name"] == "/house/leader/child")
    assert below["parent"] == "/house/leader"
    assert here.texts(below["job_id"]) == ["/house/leader /house/leader"]
    here.cli("cancel", leader)
    here.ended(leader, "canceled")
    here.nothing_left()


def test_JB_07_a_gang_of_two_on_two_agents(here: Site) -> None:
    here.node("b", node_ports())
    words = {"replicas": 2, "gang": {}, "placement": "spread"}
    job_id = here.start("gang", "echo $HOSTLER_TASK_INDEX of $HOSTLER_NUM_TASKS", **words)
    tasks = here.ended(job_id)
    assert {task["node"] for task in tasks} == {"a", "b"}
    assert sorted(here.texts(job_id)) == ["0 of 2", "1 of 2"]
    here.nothing_left("a", "b")
    here.house.stop("b")


def test_RN_06_RN_12_a_private_image_comes_by_a_minted_credential_alone(here: Site) -> None:
    if not here.image:
        pytest.skip("a plain process has no image")
    job_id = here.start("private", "cat /etc/stamp", image=here.private, pull_credential=True)
    here.ended(job_id)
    assert here.texts(job_id) == ["private"]
    without = here.start("without", "cat /etc/stamp", image=here.private)
    (task,) = here.ended(without, "failed")
    assert task["error_code"] == "source_denied"
    here.nothing_left()
