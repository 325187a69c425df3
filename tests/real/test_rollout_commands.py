"""LC-15, LC-16, API-20: rollouts on booted hosts by the commands of docs/rollouts.md, and what their operator sees.

Three hosts in two regions. Wherever a rollout ends, every node's row is over, with a reason and a time, in the answer
of the API and in what `show` prints.
"""

import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from conftest import need_slow
from hostler.cli.demo_files import program
from support.delivery import open_delivery
from support.host_fleet import FIRST, WAITS, Fleet
from support.hosts import open_hosts
from support.house import PROJECT

pytestmark = [pytest.mark.real, pytest.mark.timeout(400), pytest.mark.xdist_group("machines")]

REGIONS = {"n1": "eu", "n2": "eu", "n3": "us"}
BASE = "/var/lib/hostler-agent"
OVER = {"succeeded", "failed", "rolled_back", "skipped"}
SWIFT = ("--by", "region", "--soak-seconds", "2")
WAVE_1 = ("--wave", "1")
WHEN = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


class Desk(Fleet):
    """A fleet, and somebody who types."""

    def typed(self, *words: str, code: int = 0) -> str:
        """`hostler rollouts …`; what it says."""
        done = subprocess.run(self.line(*words), capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def line(self, *words: str) -> list[str]:
        home = self.house.home
        told = ["--server", self.house.ports.server, "--token-file", str(home / "admin.token"), "--project", PROJECT]
        return [program("hostler"), *told, "rollouts", *words]

    @contextmanager
    def watching(self, path: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
        """A command that goes on while others are typed; what it says goes to `path`."""
        with path.open("w") as said:
            process = subprocess.Popen(self.line(*words), stdout=said, stderr=subprocess.STDOUT, text=True)
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def made(self, version: str, *options: str) -> str:
        said = self.typed("create", version, *SWIFT, *options)
        (rollout_id,) = set(re.findall(r"rol_\w+", said))
        return rollout_id

    def until_state(self, rollout_id: str, state: str, limit_s: float = 120) -> dict[str, Any]:
        self.until(lambda: self.show(rollout_id)["state"] == state, state, limit_s, lambda: self.show(rollout_id))
        return self.show(rollout_id)

    def ended(self, rollout_id: str, state: str, ends: dict[str, str]) -> str:
        """Once it is over: every row ends as in `ends`, with a reason and a time. → what `show` prints."""
        found = self.still(rollout_id)
        self.until(lambda: self.show(rollout_id)["finished_at_ms"] > 0, "it is not over", 120, lambda: found)
        found, rows = self.show(rollout_id), self.members(rollout_id)
        assert (found["state"], {name: row["state"] for name, row in rows.items()}) == (state, ends), self.told(found)
        page = self.typed("show", rollout_id)
        for name, row in rows.items():
            assert row["state"] in OVER
            assert row["reason"], f"{name} does not say why"
            assert found["created_at_ms"] <= row["finished_at_ms"] <= found["finished_at_ms"]
            (line,) = [line for line in page.splitlines() if line.startswith(f"{name} ")]
            assert re.search(rf"{row['state']} .*{WHEN} .*{re.escape(row['reason'][:40])}", line), line
        assert re.search(rf"{rollout_id} .* {state} ", self.typed("list", "--state", state))
        return page

    def on_trial(self, names: Sequence[str]) -> bool:
        return any(self.bed[name].exists(f"{BASE}/trial.json") for name in names)

    def job(self) -> str:
        """A task on every host, so that none is idle."""
        file = self.house.home / "busy.yaml"
        resources = {"cpu": "1200m", "memory": "64MiB"}
        spec = {"name": f"busy-{next(self._numbers)}", "replicas": 3, "resources": resources, "command": WAITS}
        file.write_text(yaml.safe_dump(spec))
        job_id = self.house.cli("jobs", "submit", str(file)).strip()
        self.until(lambda: len(self.pids(job_id)) == 3, "the job does not run everywhere")
        return job_id


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    need_slow("three hosts, and the ends of trials")
    labels = {name: {"region": region} for name, region in REGIONS.items()}
    with open_hosts(3, labels=labels) as bed, open_delivery(bed) as delivery:
        yield Desk(bed, delivery)


# -- no version is brought to any node -------------------------------------------------------------------------------


def test_LC_15_API_20_a_dry_run_shows_the_waves_and_makes_nothing(desk: Desk) -> None:
    version = desk.publish()
    said = desk.typed("create", version, *SWIFT, "--order", "us", "--approval", "after_canary", "--dry-run")
    assert f"{version} would go to 3 nodes in 3 waves" in said
    assert re.search(r"^0 +canary +1 +n1\s*$", said, re.MULTILINE), said
    assert said.index("canary") < said.index("us ") < said.index("eu ")
    assert desk.typed("list", "--output", "json").strip() == "[]"
    refused = desk.typed("create", "9.9.9", *SWIFT, "--dry-run", code=1)
    assert "[release_missing]" in refused


def test_API_20_LC_14_LC_16_one_that_waits_is_paused_resumed_and_aborted_and_every_row_ends(desk: Desk) -> None:
    job_id, version = desk.job(), desk.publish()
    rollout_id = desk.made(version, "--safety", "idle")
    desk.until(lambda: "is busy" in desk.typed("show", rollout_id), "nobody says what it waits for")
    shown = desk.typed("show", rollout_id)
    assert "next: wave 0 (canary) is in progress" in shown
    assert "rollout_open" in desk.typed("create", version, *SWIFT, code=1)

    assert f"{rollout_id} is paused" in desk.typed("pause", rollout_id, "--reason", "a demo at noon")
    said = desk.typed("watch", rollout_id, code=1)  # it waits for a person, and says for what
    assert f"next: hostler rollouts resume {rollout_id}, or: hostler rollouts abort {rollout_id}" in said
    assert "a demo at noon" in said
    assert desk.show(rollout_id)["states"] == {"pending": 3}, "a node that only waited is as before its turn"
    assert "[rollout_over]" in desk.typed("approve", rollout_id, *WAVE_1, code=1)

    assert f"{rollout_id} is running" in desk.typed("resume", rollout_id, "--reason", "it is over")
    desk.until(lambda: "is busy" in desk.typed("show", rollout_id), "it does not go on")
    assert f"{rollout_id} is aborted" in desk.typed("abort", rollout_id, "--reason", "next week")
    page = desk.ended(rollout_id, "aborted", dict.fromkeys(REGIONS, "skipped"))
    assert "why: next week" in page
    assert "the rollout was aborted before its turn" in page
    assert "[rollout_over]" in desk.typed("approve", rollout_id, *WAVE_1, code=1)
    for action in ("pause", "resume", "abort"):
        assert "[rollout_over]" in desk.typed(action, rollout_id, code=1)
    assert {desk.version(name) for name in REGIONS} == {FIRST}
    assert desk.let_end(job_id) == "succeeded", "work was touched"
    lines = desk.house.client.pages("/api/v1/admin/audit-logs", page_size=200)
    reasons = {(line["action"], line["result"]) for line in lines if line["action"].startswith("rollout.")}
    assert reasons >= {(f"rollout.{each}", "accepted") for each in ("create", "pause", "resume", "abort")}


# -- versions are brought to nodes ------------------------------------------------------------------------------------


def test_LC_15_LC_16_API_20_a_good_version_is_watched_approved_held_and_turned_back(desk: Desk, tmp_path: Path) -> None:
    version, before = desk.publish(), desk.version("n1")
    with desk.watching(tmp_path / "said", "create", version, *SWIFT, "--approval", "after_canary", "--watch") as typed:
        assert typed.wait(150) == 1, "it does not wait for a person"
    said = (tmp_path / "said").read_text()
    (rollout_id,) = set(re.findall(r"rol_\w+", said))
    assert f"next: wave 1 (eu) waits: hostler rollouts approve {rollout_id} --wave 1" in said
    assert [word in said for word in ("running 1", "soaking 1", "succeeded 1", "awaiting_approval")] == [True] * 4, said
    assert [desk.version(name) for name in REGIONS] == [version, before, before]

    # paused by hand while a node changes: that one comes to its end, nothing new begins
    assert f"{rollout_id} is running" in desk.typed("approve", rollout_id, *WAVE_1, "--reason", "the canary sings")
    desk.until(lambda: desk.on_trial(["n2"]), "n2 is not on trial", 120)
    assert f"{rollout_id} is paused" in desk.typed("pause", rollout_id, "--reason", "lunch")
    assert "[rollout_over]" in desk.typed("approve", rollout_id, *WAVE_1, code=1)
    found = desk.still(rollout_id)
    assert (found["state"], found["error_code"]) == ("paused", "")
    rows = desk.members(rollout_id)
    assert rows["n2"]["state"] in ("soaking", "succeeded"), "what was changing did not come to its end"
    assert (rows["n3"]["state"], desk.version("n2"), desk.version("n3")) == ("pending", version, before)

    with desk.watching(tmp_path / "more", "watch", rollout_id, "--stay") as typed:
        desk.until(lambda: "lunch" in (tmp_path / "more").read_text(), "a watch that stays says nothing")
        assert f"{rollout_id} is running" in desk.typed("resume", rollout_id)
        assert typed.wait(150) == 0, "it did not succeed"
    assert "succeeded 3" in (tmp_path / "more").read_text()
    page = desk.ended(rollout_id, "succeeded", dict.fromkeys(REGIONS, "succeeded"))
    assert page.count(f"runs {version}, watched for 2 s") == 3
    assert "3 of 3 nodes, wave 2 of 2" in page
    assert {desk.version(name) for name in REGIONS} == {version}

    # what is wrong with it shows late
    assert f"{rollout_id} is rolling_back" in desk.typed("rollback", rollout_id, "--reason", "it leaks")
    assert desk.typed("watch", rollout_id, code=1).splitlines()[-1].split()[1] == "rolled_back"
    page = desk.ended(rollout_id, "rolled_back", dict.fromkeys(REGIONS, "rolled_back"))
    assert "why: it leaks" in page
    assert page.count(f"brought back to {before}") == 3
    assert {desk.version(name) for name in REGIONS} == {before}


def test_LC_16_API_20_a_bad_version_is_told_tried_once_more_and_aborted(desk: Desk, tmp_path: Path) -> None:
    bad, before = desk.publish("crash_loops"), desk.version("n1")
    with desk.watching(tmp_path / "said", "create", bad, *SWIFT, "--watch") as typed:
        assert typed.wait(150) == 1
    said = (tmp_path / "said").read_text()
    (rollout_id,) = set(re.findall(r"rol_\w+", said))
    assert re.search(r"node n1 \(version_reported\): .*3 starts of it failed", said)  # by its report or by its task
    assert f"next: hostler rollouts resume {rollout_id} [--retry-failed], or: hostler rollouts abort" in said
    assert f"{rollout_id} is running" in desk.typed("resume", rollout_id, "--retry-failed", "--reason", "to be sure")
    assert desk.still(rollout_id)["state"] == "paused"
    row = desk.members(rollout_id)["n1"]
    assert (row["state"], row["tries"], row["error_code"]) == ("rolled_back", 2, "upgrade_rolled_back")
    assert f"{rollout_id} is aborted" in desk.typed("abort", rollout_id, "--reason", "it crashes")
    page = desk.ended(rollout_id, "aborted", {"n1": "rolled_back", "n2": "skipped", "n3": "skipped"})
    assert "version_reported: " in page
    assert {desk.version(name) for name in REGIONS} == {before}


def test_API_20_LC_16_one_that_is_aborted_while_a_node_changes_is_over_when_that_has_its_end(desk: Desk) -> None:
    version, before = desk.publish(), desk.version("n2")
    rollout_id = desk.made(version, "--node", "n2,n3")
    desk.until(lambda: desk.on_trial(["n2", "n3"]), "nobody is on trial", 120)
    (canary,) = [name for name, row in desk.members(rollout_id).items() if row["wave"] == 0]
    other = "n3" if canary == "n2" else "n2"
    assert f"{rollout_id} is aborted" in desk.typed("abort", rollout_id)
    assert desk.show(rollout_id)["finished_at_ms"] == 0
    assert "next: 1 nodes come to their end" in desk.typed("show", rollout_id)
    page = desk.ended(rollout_id, "aborted", {canary: "succeeded", other: "skipped"})
    assert "not watched to the end: aborted" in page
    assert (desk.version(canary), desk.version(other)) == (version, before)
    events = [e["type"] for e in desk.events("rollout", rollout_id=rollout_id)]
    assert events[-1] == "rollout.finished"
    told = msgspec.json.encode(desk.events("rollout.node_finished", rollout_id=rollout_id)).decode()
    assert time.time() * 1000 >= desk.show(rollout_id)["finished_at_ms"]
    assert canary in told
