"""Seed 003 as a stranger runs it: the documented commands, a real control plane, a real agent, real processes."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.cli.demo_files import program
from support.house import PROJECT, House, open_house

pytestmark = [pytest.mark.timeout(110), pytest.mark.xdist_group("house-example")]
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs/examples/coordinator_workers"
TOTAL = "total=999000 workers=worker-0,worker-1"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as made:
        made.serve()
        made.enrol("a")
        made.start("a")
        yield made


def example(house: House, *arguments: str) -> "subprocess.CompletedProcess[str]":
    said = ("--server", house.ports.server, "--token-file", str(house.home / "admin.token"), "--project", PROJECT)
    command = [sys.executable, str(EXAMPLE / "run.py"), *said, "--hostler", program("hostler"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def jobs(house: House) -> dict[str, Any]:
    """By path, the newest of each."""
    listed = house.client.call("GET", f"/api/v1/projects/{PROJECT}/jobs", page_size="100")["items"]
    return {job["name"]: job for job in reversed(listed)}


def over(house: House, *paths: str) -> bool:
    known = jobs(house)
    return all(known[path]["state"] not in ("pending", "running", "building", "assigned") for path in paths)


def test_TE_16_TE_19_two_root_jobs_find_each_other_across_namespaces(house: House) -> None:
    done = example(house)
    assert (done.returncode, TOTAL in done.stdout) == (0, True), (done, house.logs())
    paths = ["/house/coordinator", "/house/workers", "/house/workers/worker-0", "/house/workers/worker-1"]
    house.until(lambda: over(house, *paths))
    known = jobs(house)
    assert [known[path]["state"] for path in paths[:2]] == ["succeeded", "succeeded"]
    assert house.client.call("GET", f"/api/v1/projects/{PROJECT}/endpoints")["items"] == []


def test_TE_18_TE_19_workers_as_children_of_one_root_job(house: House) -> None:
    done = example(house, "--together")
    assert (done.returncode, TOTAL in done.stdout) == (0, True), (done, house.logs())
    house.until(lambda: over(house, "/house/together", "/house/together/worker-0", "/house/together/worker-1"))


def test_the_commands_of_the_page_do_the_same(house: House, tmp_path: Path) -> None:
    """The block of docs/tasks.md behind `the same by hand`, word for word but for where the control plane is."""
    page = (ROOT / "docs/tasks.md").read_text()
    found = re.search(r"The same by hand:\n\n```\n(.*?)```", page, re.DOTALL)
    assert found is not None
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copytree(ROOT / "agent/hostler/sdk", tmp_path / "agent/hostler/sdk")
    token = house.home / "admin.token"
    words = f"{program('hostler')} --server {house.ports.server} --token-file {token} --project {PROJECT}"
    script = found[1].replace("hostler --project train", words)
    done = subprocess.run(
        ["/bin/sh", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100
    )
    assert (done.returncode, TOTAL in done.stdout) == (0, True), (done, house.logs())
