"""TE-20, K3, EF-09: real agents end in every way under a real process of a job; it runs once, and its end is told."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.house import House, open_house

pytestmark = [pytest.mark.timeout(90), pytest.mark.xdist_group("house-te20")]
ENDS = ("stopped", "killed", "forgot")
PARAMS = {"job": "/ann/train", "command": "${inputs.command}", "runtime": "process"}
DEFINITION: dict[str, Any] = {
    "type": "job.plain",
    "version": "v1",
    "inputs": {"type": "object", "additionalProperties": False, "properties": {"command": {}}},
    "capabilities": {"workload.runtimes": "process"},
    "steps": [{"id": "run", "kind": "container.run", "params": PARAMS, "reusable": False, "timeout_seconds": 600}],
}
# says a line at once and one when it is let go; counts how often it was begun
SCRIPT = 'echo begun >> "$0.begun"; echo first; while [ ! -e "$0.go" ]; do sleep 0.1; done; echo last'


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house([DEFINITION], []) as made:
        made.serve()
        made.enrol("a")
        yield made


def lines(house: House, operation_id: str) -> list[str]:
    path = f"/api/v1/projects/test/operations/{operation_id}/logs"
    return [line["text"] for line in house.client.call("GET", path)["items"] if line["stream"] == "stdout"]


def until(true: Any) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("how", ENDS)
def test_TE_20_a_job_outlives_its_agent(house: House, how: str) -> None:
    place = Path("/var/tmp") / f"{house.home.name}-{how}"
    house.restart("a")
    operation_id = house.submit("job.plain@v1", {"command": ["/bin/sh", "-c", SCRIPT, str(place)]})
    begun, go = place.with_suffix(".begun"), place.with_suffix(".go")
    try:
        until(begun.exists)
        until(lambda: lines(house, operation_id) == ["first"])
        end = time.monotonic()
        house.stop("a") if how == "stopped" else house.kill("a")
        assert time.monotonic() - end < 20, "an agent that stops does not wait for what runs"
        if how == "forgot":
            for path in (house.home / "a" / "state").glob("journal.db*"):
                path.unlink()
        house.start("a")
        go.touch()
        operation = house.finished(operation_id)
        assert operation["status"] == "succeeded", (operation, house.logs())
        assert begun.read_text() == "begun\n", "it ran twice"
        told = lines(house, operation_id)
        assert told == (["first", "first", "last"] if how == "forgot" else ["first", "last"])
    finally:
        for path in (begun, go):
            path.unlink(missing_ok=True)
        house.stop("a")
