"""Cancels against ends, submits against each other, ends against placements: all at once, on a real store (JB)."""

import asyncio
import random
from pathlib import Path

from replay.invariants import broken

from hostler.base.errors import HostlerError
from hostler.control.kernel.commands import ExpireTasks
from hostler.control.kernel.job_commands import CancelJob
from hostler.control.store.db import open_reader
from hostler.wire.report import TaskStatus
from hostler.wire.task import CancelSpec, TaskSpec
from support.control import USER, task_report
from support.job_fleet import jobs_in, submitted, worker, wrong
from support.jobs import spec, submit_job


def sound(directory: Path) -> None:
    db = open_reader(directory / "control.db")
    try:
        assert broken(db) == {}
    finally:
        db.close()
    assert wrong(directory) == {}


def cancel(job_id: str) -> CancelJob:
    return CancelJob(actor=USER, project_id="train", job_id=job_id)


async def test_JB_04_a_cancel_and_an_end_at_once_leave_one_end(tmp_path) -> None:
    async with jobs_in(tmp_path) as fleet:
        node = await worker(fleet, cpu=64_000, memory=1 << 40)
        ids = [await submitted(fleet, spec(f"j{n}")) for n in range(12)]
        specs = {each.operation_id: each for each in await fleet.take(node)}
        for number, job_id in enumerate(ids):
            ended = fleet.report(node, task_report(specs[job_id], TaskStatus.SUCCEEDED))
            asked = fleet.execute(cancel(job_id))
            both = (ended, asked) if number % 2 else (asked, ended)
            await asyncio.gather(*both)
        states = {(await fleet.operation(job_id)).status for job_id in ids}
        assert states == {"succeeded"}  # the node's word stands
        assert await asyncio.gather(*(fleet.execute(cancel(job_id)) for job_id in ids)) == [[]] * 12
    sound(tmp_path)


async def test_JB_03_of_many_submits_of_one_name_one_makes_it(tmp_path) -> None:
    async with jobs_in(tmp_path) as fleet:
        await worker(fleet)
        asked = [fleet.execute(submit_job(spec("one", existing="keep"))) for _ in range(40)]
        made = await asyncio.gather(*asked)
        assert len({each.job_id for each in made}) == 1
        assert sum(each.created for each in made) == 1
        asked = [fleet.execute(submit_job(spec("two"))) for _ in range(40)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, HostlerError)]
        assert {refusal.code for refusal in refused} == {"job_exists"}
        assert len(refused) == 39
    sound(tmp_path)


async def test_EF_10_no_place_is_given_twice_however_much_happens_at_once(tmp_path) -> None:
    rnd = random.Random(7)
    async with jobs_in(tmp_path) as fleet:
        nodes = [await worker(fleet, f"w{n}", cpu=3000) for n in range(4)]
        ids: list[str] = []

        async def asks(number: int) -> None:
            said = {"replicas": 1 + number % 4, "priority": rnd.choice(("low", "normal", "critical"))}
            if number % 3 == 0:
                said["gang"] = {}
            ids.append(await submitted(fleet, spec(f"j{number}", **said)))

        async def answers(node) -> None:
            """Runs what it is sent, ends what it is told to."""
            for _ in range(60):
                for each in await fleet.delivered(node):
                    assert isinstance(each, TaskSpec | CancelSpec)
                done = await fleet.take(node)
                for order in node.cancels:
                    await fleet.report(node, task_report(order, TaskStatus.CANCELED, error_code="canceled"))
                gone, node.cancels = {order.attempt_uid for order in node.cancels}, []
                for each in done:
                    if each.attempt_uid not in gone and rnd.random() < 0.8:
                        await fleet.run(node, each, fail_at=0 if rnd.random() < 0.1 else -1)
                    elif each.attempt_uid not in gone:
                        await fleet.report(node, task_report(each, TaskStatus.RUNNING, at_ms=1))
                for task_id, each in list(node.open.items()):
                    if rnd.random() < 0.5 and each.attempt_uid not in gone:
                        await fleet.report(node, task_report(each, TaskStatus.SUCCEEDED))
                        node.open.pop(task_id)
                assert wrong(tmp_path) == {}

        await asyncio.gather(*(asks(number) for number in range(24)), *(answers(node) for node in nodes))
        for _ in range(30):
            fleet.clock.move(61_000)
            await fleet.execute(ExpireTasks())
            await asyncio.gather(*(answers(node) for node in nodes[:1]))
            if all([(await fleet.operation(job_id)).finished_at_ms for job_id in ids]):
                break
            await asyncio.gather(*(answers(node) for node in nodes[1:]))
        states = {(await fleet.operation(job_id)).status for job_id in ids}
        assert states <= {"succeeded", "failed"}
        over = await fleet.events(type_="job.finished")
        assert len(over) == len(ids)
    sound(tmp_path)
