"""P4: thirty thousand tasks cancelled at once, and tasks that fail as often as they are tried: nothing is left over."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hostler.base.errors import HostlerError
from hostler.control.kernel.commands import CancelOperation, ExpireTasks, RetryOperation
from support.control import USER, Fleet, fleet_in

pytestmark = pytest.mark.timeout(110)
AWAY, HERE, REPLICAS = 29, 1, 1000


def rows(folder: Path, sql: str) -> list[Any]:
    with sqlite3.connect(f"file:{folder / 'control.db'}?mode=ro", uri=True) as db:
        return db.execute(sql).fetchall()


def cancel(operation_id: str) -> CancelOperation:
    return CancelOperation(actor=USER, project_id="train", operation_id=operation_id)


async def cancelled(fleet: Fleet, operation_id: str) -> str:
    try:
        await fleet.execute(cancel(operation_id))
    except HostlerError as err:
        return err.code
    return ""


async def test_P4_a_storm_of_cancels_leaves_no_task_and_no_attempt_open(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        await fleet.publish()
        here = await fleet.node("here")
        away = [await fleet.enroll(f"away-{number}") for number in range(AWAY)]
        asked = [
            await fleet.submit(here, replicas=REPLICAS),
            *[await fleet.submit(*away[at : at + 10], replicas=REPLICAS) for at in range(0, AWAY, 10)],
        ]
        assert rows(tmp_path, "SELECT count(*) FROM tasks") == [((AWAY + HERE) * REPLICAS,)]
        answers = await asyncio.gather(*(cancelled(fleet, operation_id) for operation_id in asked * 3))
        assert set(answers) <= {"", "operation_final"}
        await fleet.take(here)  # nothing of them runs there; the node says so to each order to cancel
        while pending := rows(tmp_path, "SELECT count(*) FROM tasks WHERE finished_at_ms = 0")[0][0]:
            specs = dict(here.open)
            for spec in list(specs.values()):
                await fleet.run(here, spec, fail_at=0, code="canceled")
            await fleet.take(here)
            left = rows(tmp_path, "SELECT count(*) FROM tasks WHERE finished_at_ms = 0")[0][0]
            assert left < pending
        assert rows(tmp_path, "SELECT DISTINCT state FROM task_attempts") != [("open",)]
        assert rows(tmp_path, "SELECT count(*) FROM task_attempts WHERE state = 'open'") == [(0,)]
        finals = {status for (status,) in rows(tmp_path, "SELECT status FROM operations")}
        assert finals <= {"canceled", "failed"}
        finals_said = "('operation.canceled', 'operation.failed', 'operation.completed')"
        ends = rows(tmp_path, f"SELECT count(*) FROM events WHERE type IN {finals_said}")
        assert ends == [(len(asked),)]  # EV-10: one end each, however often it was asked for


async def test_P4_a_task_that_always_fails_is_tried_as_often_as_a_person_asks_and_no_more(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        await fleet.publish()
        node = await fleet.node()
        operation_id = await fleet.submit(node)
        retry = RetryOperation(actor=USER, project_id="train", operation_id=operation_id)
        for number in range(1, 26):
            (spec,) = await fleet.take(node)
            assert spec.attempt_number == number
            await fleet.run(node, spec, fail_at=0)
            assert await fleet.take(node) == []  # nothing comes by itself
            if number < 25:
                await fleet.execute(retry)
        assert rows(tmp_path, "SELECT state, count(*) FROM task_attempts GROUP BY state") == [("failed", 25)]


async def test_P4_a_task_that_its_node_never_takes_is_signed_again_until_its_time_is_over(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as fleet:
        await fleet.publish()
        node = await fleet.node()
        operation_id = await fleet.submit(node)
        window = fleet.engine._settings.envelope_window_ms
        most = fleet.engine._settings.start_within_ms // window + 1
        for _ in range(most + 5):
            fleet.clock.move(window + 1)
            await fleet.execute(ExpireTasks())
        assert (await fleet.operation(operation_id)).status == "failed"
        (signed,) = rows(tmp_path, "SELECT count(*) FROM envelopes")[0]
        assert signed <= most
        assert rows(tmp_path, "SELECT state FROM task_attempts") != [("open",)]
