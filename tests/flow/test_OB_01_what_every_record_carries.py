"""OB-01, OB-05: every record of an operation and its steps carries what it is searched by, over whole stories."""

from pathlib import Path

import pytest
from replay.scenarios import SCENARIOS, tell

from support.control import fleet_in

CARRIED = ("correlation_id", "operation_id", "operation_type", "org_id", "project_id", "resource_name")
OF_A_STEP = (
    "step_kind",
    "resolved_profile",
    "hardware_match",
    "attempt_number",
    "step_status",
    "error_code",
    "duration_ms",
)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_OB_01_every_event_of_an_operation_names_it_and_whose_it_is(name: str, tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        await tell(fleet, SCENARIOS[name])
        events = [event for event in await fleet.events() if event.type.startswith(("operation.", "task."))]
    about = [event for event in events if not event.type.endswith("_refused")]
    assert about
    for event in about:
        assert [field for field in CARRIED if not getattr(event, field)] == [], event
        assert event.type != "operation.failed" or event.error_code
    # the same names for the same operation, whoever wrote the record
    named = {(e.operation_id, e.operation_type, e.org_id, e.project_id, e.correlation_id) for e in about}
    assert len(named) == len({e.operation_id for e in about})


@pytest.mark.parametrize("name", SCENARIOS)
async def test_OB_05_every_record_of_a_step_says_kind_profile_attempt_result_and_time(
    name: str, tmp_path: Path
) -> None:
    """Fields that say nothing are left out of the log's JSON and are there with their defaults in the row."""
    async with fleet_in(tmp_path) as fleet:
        await tell(fleet, SCENARIOS[name])
        steps = [event for event in await fleet.events() if event.type == "operation.progress"]
        ended = [event for event in steps if event.body["step_status"] in ("succeeded", "failed")]
        for event in steps:
            assert {"step_kind", "attempt_number", "step_status", "current_step_name"} <= set(event.body)
            assert not set(event.body) & {"outputs", "inputs", "plan"}
        for event in ended:
            operation = await fleet.operation(event.operation_id)
            task = next(task for task in operation.tasks if task.task_id == event.task_id)
            row = next(
                step
                for step in task.steps
                if (step.attempt_number, step.step_id)
                == (event.body["attempt_number"], event.body["current_step_name"])
            )
            assert all(hasattr(row, field.replace("step_status", "status")) for field in OF_A_STEP)
            assert (row.step_kind, row.error_code) == (event.body["step_kind"], event.error_code)
            assert row.duration_ms == event.body.get("duration_ms", 0)
