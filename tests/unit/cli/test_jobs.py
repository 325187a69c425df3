"""`hostler jobs` against a stand-in of the jobs API over real HTTP (API-26, JB-02, JB-08)."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hostler.cli import jobs_api
from hostler.cli.main import main
from support.jobs_api import Fate, JobsApi

pytestmark = pytest.mark.timeout(60)
IMAGE = f"docker.io/library/busybox@sha256:{'a' * 64}"


@pytest.fixture
def api() -> Iterator[JobsApi]:
    with JobsApi() as made:
        yield made


def jobs(api: JobsApi, *arguments: str) -> Result:
    words = ["--server", api.uri, "--project", "train", "jobs", *arguments]
    return CliRunner().invoke(main, words, env={"HOSTLER_CONFIG": None, "COLUMNS": "200"})


def said(api: JobsApi, *arguments: str) -> dict[str, Any]:
    """The body that a run sends, without its key."""
    result = jobs(api, "run", "--detach", *arguments)
    assert result.exit_code == 0, result.output
    body = api.submitted[-1]
    body.pop("idempotency_key")
    return body


def test_API_26_run_prints_what_the_task_prints_and_ends_with_its_exit_code(api: JobsApi) -> None:
    api.fate = Fate(codes=[3], lines=[(0, "stdout", "hello"), (0, "stderr", "oh no")], waits=2)
    result = jobs(api, "run", "--name", "hi", "--image", IMAGE, "--", "sh", "-c", "exit 3")
    assert result.exit_code == 3
    assert result.stdout == "hello\n"
    assert "oh no" in result.stderr
    assert "/ann/hi failed after 1m5s (1 failed)" in result.stderr
    assert "task 0 on gpu-1 failed with exit code 3" in result.stderr
    assert api.submitted[0]["command"] == ["sh", "-c", "exit 3"]


def test_lines_of_many_tasks_begin_with_their_number_and_the_first_failure_is_the_exit_code(api: JobsApi) -> None:
    api.fate = Fate(codes=[0, 7, 9], lines=[(0, "stdout", "a"), (2, "stdout", "c")])
    result = jobs(api, "run", "--replicas", "3", "--image", IMAGE, "--", "true")
    assert result.exit_code == 7
    assert result.stdout == "[0] a\n[2] c\n"


def test_a_job_is_json_for_programs_and_an_id_when_detached(api: JobsApi) -> None:
    result = jobs(api, "run", "-d", "--image", IMAGE, "true")
    assert (result.exit_code, result.stdout) == (0, "op_1\n"), result.output
    result = jobs(api, "run", "--output", "json", "--image", IMAGE, "true")
    document = json.loads(result.stdout)
    assert (document["state"], document["task_list"][0]["exit_code"]) == ("succeeded", 0)


def test_JB_02_every_flag_is_in_the_job(api: JobsApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "env"
    file.write_text("# a comment\n\nA=1\nB=from file\n")
    monkeypatch.setenv("FROM_HERE", "x=y")
    body = said(
        api, "--name", "train", "--image", IMAGE, "--pull-credential", "--replicas", "4", "--cpu", "500m",
        "--memory", "4GiB", "--disk", "1G", "--shm", "1GiB", "--gpu", "8:h100", "--port", "http", "--port", "grpc",
        "--env-file", str(file), "-e", "B=flag", "-e", "FROM_HERE", "-c", "zone=a", "-c", "zone!=b",
        "-c", "rack in 1,2", "-c", "rack not in 3", "-c", "ib", "--prefer", "ssd", "--placement", "spread",
        "--gang-topology", "rack", "--priority", "high", "--retries", "2", "--timeout", "2h",
        "--scheduling-timeout", "90s", "--network", "host", "--security", "restricted", "--runtime", "docker",
        "--mount", "/data:/data", "--mount", "/out:/out:rw", "--allocation", "alc_1", "--existing", "keep",
        "--parent", "/ann/root", "python", "train.py", "--name", "not ours",
    )  # fmt: skip
    resources = {
        "cpu_millis": 500, "memory_bytes": 4 << 30, "disk_bytes": 10**9, "shm_bytes": 1 << 30, "pids": 4096,
        "device": {"kind": "gpu", "count": 8, "model": "h100"},
    }  # fmt: skip

    def rule(key: str, op: str, *values: str, prefer: bool = False) -> dict[str, Any]:
        return {"key": key, "op": op, "values": list(values), "prefer": prefer}

    assert body == {
        "name": "train", "image": IMAGE, "pull_credential": True, "replicas": 4, "resources": resources,
        "ports": ["http", "grpc"], "environment": {"A": "1", "B": "flag", "FROM_HERE": "x=y"},
        "constraints": [
            rule("zone", "eq", "a"), rule("zone", "ne", "b"), rule("rack", "in", "1", "2"),
            rule("rack", "not_in", "3"), rule("ib", "exists"), rule("ssd", "exists", prefer=True),
        ],
        "placement": "spread", "gang": {"topology": "rack"}, "priority": "high",
        "retries": {"failure": 2, "preemption": 100, "on_lost": "retry"},
        "timeout_seconds": 7200, "scheduling_timeout_seconds": 90,
        "network": "host", "security": "restricted", "runtime": "docker",
        "mounts": [
            {"source": "/data", "target": "/data", "read_only": True},
            {"source": "/out", "target": "/out", "read_only": False},
        ],
        "allocation": "alc_1", "existing": "keep", "parent": "/ann/root",
        "command": ["python", "train.py", "--name", "not ours"],
    }  # fmt: skip


def test_what_was_not_said_is_not_sent_and_a_name_is_made(api: JobsApi) -> None:
    body = said(api, "--cpu", "0", "/usr/bin/env", "x")
    assert sorted(body) == ["command", "name", "resources"]
    assert body["name"].startswith("env-")
    assert body["resources"]["cpu_millis"] == 0
    first, second = (jobs(api, "run", "-d", "true") and api.submitted[-1]["idempotency_key"] for _ in range(2))
    assert len(first) == 32
    assert first != second


@pytest.mark.parametrize(
    "arguments",
    [
        ("--cpu", "many", "true"),
        ("--memory", "4g", "true"),
        ("--timeout", "soon", "true"),
        ("--gpu", "x", "true"),
        ("--gpu", "1", "--tpu", "1", "true"),
        ("--mount", "/a", "true"),
        ("-e", "NO_SUCH_VARIABLE_HERE", "true"),
        ("-w", ".", "--bundle", "a" * 64, "true"),
        (),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_two_and_nothing_is_sent(api: JobsApi, arguments: tuple[str, ...]) -> None:
    assert jobs(api, "run", *arguments).exit_code == 2
    assert api.called == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("-c", "a b c", "true"), "invalid_request"),
        (("--name", "../x", "true"), "invalid_request"),
        (("--port", "HTTP!", "true"), "invalid_request"),
        (("-w", "/no/such/place", "true"), "file_error"),
    ],
)
def test_a_job_that_is_none_is_one_sentence(api: JobsApi, arguments: tuple[str, ...], code: str) -> None:
    result = jobs(api, "run", *arguments)
    assert result.exit_code == 1
    assert f"[{code}]" in result.output
    assert "Traceback" not in result.output


def test_JB_08_a_workspace_is_sent_once_and_named_by_its_digest(api: JobsApi, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("print(1)\n")
    body = said(api, "-w", str(tmp_path), "python", "/app/main.py")
    assert body["bundle"] in api.bundles
    again = said(api, "-w", str(tmp_path), "python", "/app/main.py")
    assert again["bundle"] == body["bundle"]
    assert [method for method, path in api.called if path.startswith("/bundles")] == ["GET", "PUT", "GET"]


def test_JB_08_a_bundle_that_went_away_meanwhile_is_sent_again(api: JobsApi, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("print(1)\n")
    api.lost = 1
    body = said(api, "-w", str(tmp_path), "true")
    assert body["bundle"] in api.bundles
    assert [path for method, path in api.called if method == "POST"] == ["/jobs", "/jobs"]
    keys = {said["idempotency_key"] for said in api.submitted if "idempotency_key" in said}
    assert len(keys) == 1


def test_a_file_of_two_jobs_is_submitted_whole_or_not_at_all(api: JobsApi, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("name: a\ncommand: [a]\n---\nname: b\ncommand: [b]\nresources: {cpu: 2, memory: 1GiB}\n")
    result = jobs(api, "submit", str(file))
    assert (result.exit_code, result.stdout) == (0, "op_1\nop_2\n")
    assert api.submitted[1]["resources"]["cpu_millis"] == 2000
    file.write_text("name: a\ncommand: [a]\n---\nname: b\ncommand: b\n")
    result = jobs(api, "submit", str(file))
    assert result.exit_code == 1
    assert "jobs.yaml:5: command is a text" in result.output
    assert len(api.submitted) == 2
    file.write_text("name: a\ncommand: [a]\n")
    assert jobs(api, "submit", str(file), "--dry-run").stdout == "a: 1 × a\n"
    assert len(api.submitted) == 2


def test_API_26_a_job_is_listed_shown_and_named_by_its_path(api: JobsApi) -> None:
    api.fate = Fate(codes=[1])
    jobs(api, "run", "-d", "--name", "one", "--image", IMAGE, "--gpu", "2:h100", "true")
    jobs(api, "run", "-d", "--name", "two", "--parent", "/ann/one", "true")
    api.jobs["op_2"]["state"] = "running"
    listed = jobs(api, "list").stdout
    assert "/ann/one/two" in listed
    assert "op_1" not in listed
    assert "op_1" in jobs(api, "list", "--all").stdout
    assert "op_2" not in jobs(api, "list", "--state", "failed").stdout
    below = json.loads(jobs(api, "list", "-a", "--below", "/ann/one/two", "--output", "json").stdout)
    assert [job["job_id"] for job in below] == ["op_2"]
    shown = jobs(api, "show", "/ann/one").stdout
    for word in ("op_1", "failed", "2 gpu h100", "1 cores", "1 GiB", IMAGE):
        assert word in shown, shown
    assert "the command ended with 1" in jobs(api, "tasks", "op_1").stdout
    assert jobs(api, "wait", "/ann/one").exit_code == 1
    assert "requested" in jobs(api, "cancel", "/ann/one", "op_2").stdout
    assert ("POST", "/jobs/op_1/cancel") in api.called
    for command in ("show", "tasks", "wait", "explain", "logs", "cancel"):
        assert jobs(api, command, "/ann/none").exit_code == 1
        assert "[not_found]" in jobs(api, command, "/ann/none").output


def test_wait_gives_up_in_time_and_the_job_goes_on(api: JobsApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api.fate = Fate(waits=10**6)
    jobs(api, "run", "-d", "true")
    result = jobs(api, "wait", "op_1", "--timeout", "1s")
    assert result.exit_code == 1
    assert "[timeout]" in result.output


def test_explain_says_what_waits_and_which_node_fits(api: JobsApi) -> None:
    jobs(api, "run", "-d", "true")
    api.explained = {
        "job_id": "op_1", "state": "pending", "reason": "no_capacity",
        "tasks": [{"task_index": 0, "reason": "no node has 8 GPUs", "detail": "of 3 nodes"}],
        "nodes": [{"node": "gpu-1", "fits": False, "why": "4 of 8 GPUs are free"}],
    }  # fmt: skip
    said = jobs(api, "explain", "op_1").stdout
    for word in ("pending, no_capacity", "no node has 8 GPUs", "gpu-1", "no", "4 of 8 GPUs are free"):
        assert word in said


def test_logs_of_one_task_one_try_and_one_hour(api: JobsApi) -> None:
    api.fate = Fate(codes=[0, 0], lines=[(0, "stdout", "a"), (1, "stdout", "b"), (1, "stderr", "c")])
    jobs(api, "run", "-d", "--replicas", "2", "true")
    assert jobs(api, "logs", "op_1").stdout == "[0] a\n[1] b\n"
    assert jobs(api, "logs", "-f", "op_1", "--task", "1").stdout == "[1] b\n"
    assert jobs(api, "logs", "op_1", "--task", "1", "--attempt", "1").stdout == "[1] b\n"
    assert jobs(api, "logs", "op_1", "--task", "1", "--attempt", "2").stdout == ""
    assert jobs(api, "logs", "op_1", "--since", "1h").stdout == "[0] a\n[1] b\n"
    lines = [json.loads(line) for line in jobs(api, "logs", "op_1", "--output", "json").stdout.splitlines()]
    assert [line["text"] for line in lines] == ["a", "b", "c"]


def test_bundles_are_listed_and_removed(api: JobsApi, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    sha256 = said(api, "-w", str(tmp_path), "true")["bundle"]
    assert sha256 in jobs(api, "bundle", "list").stdout
    assert "removed" in jobs(api, "bundle", "delete", sha256).stdout
    assert jobs(api, "bundle", "delete", sha256).exit_code == 1


def test_ctrl_c_leaves_the_job_alone(api: JobsApi) -> None:
    api.fate = Fate(waits=10**6)
    words = ["--server", api.uri, "--project", "train", "jobs", "run", "sleep", "60"]
    program = [sys.executable, "-c", "from hostler.cli.main import main; main()", *words]
    running = subprocess.Popen(program, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    end = time.monotonic() + 20
    while not any(path.endswith("/wait") for _, path in list(api.called)) and time.monotonic() < end:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=20)
    assert running.returncode == 130, err
    assert "op_1 goes on; see it again with: hostler jobs logs -f op_1" in err
    assert not [path for method, path in api.called if path.endswith("/cancel")]


def test_a_second_ctrl_c_cancels(api: JobsApi, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from hostler.cli import jobs_follow
    from hostler.cli.client import Client
    from hostler.cli.settings import Settings

    jobs(api, "run", "-d", "true")

    def again(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs_api, "finished", lambda *_: again(0))
    monkeypatch.setattr(jobs_follow.time, "sleep", again)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    settings = Settings(server=api.uri, project="train")
    client = Client(settings)
    assert jobs_follow.follow_to_end(client, settings, "op_1", "text") == 130
    client.close()
    assert ("POST", "/jobs/op_1/cancel") in api.called


def test_a_terminal_does_not_act_on_what_a_task_writes(
    api: JobsApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from hostler.cli import jobs_follow
    from hostler.cli.client import Client
    from hostler.cli.settings import Settings

    api.fate = Fate(lines=[(0, "stdout", "\x1b]0;owned\x07 a\tb")])
    assert jobs(api, "run", "--name", "x", "true").stdout == "\x1b]0;owned\x07 a\tb\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    settings = Settings(server=api.uri, project="train")
    client = Client(settings)
    assert jobs_follow.follow_to_end(client, settings, "op_1", "text") == 0
    client.close()
    assert capsys.readouterr().out == "\\x1b]0;owned\\x07 a\tb\n"
