"""The end of a demo: tasks outlive agents, so what its jobs left running is ended before the control plane is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hostler.base.errors import error
from hostler.cli import demo
from hostler.cli.demo import Demo, Processes


class Plane:
    """Jobs by id, with how often they are asked about before they have ended."""

    def __init__(self, jobs: dict[str, int], *, gone: bool = False) -> None:
        self.jobs, self.gone, self.cancelled = jobs, gone, list[str]()

    def pages(self, path: str, **said: str) -> Iterator[dict[str, Any]]:
        if self.gone:
            raise error("controller_unreachable", "it has gone")
        yield from ({"job_id": name} for name, left in self.jobs.items() if left and said["state"] == "running")

    def call(self, method: str, path: str) -> None:
        name = path.split("/")[-2]
        self.cancelled.append(name)
        self.jobs[name] -= 1


@pytest.mark.parametrize("gone", [False, True])
def test_a_demo_ends_its_jobs_and_waits_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool) -> None:
    monkeypatch.setattr(demo.time, "sleep", lambda _: None)
    made = Demo(tmp_path, Console(), Processes())
    made.end_jobs()  # it never came so far
    plane = Plane({"op_1": 1, "op_2": 2, "op_3": 0}, gone=gone)
    made.client = plane  # type: ignore[assignment]
    made.end_jobs()
    assert plane.cancelled == ([] if gone else ["op_1", "op_2", "op_2"])
