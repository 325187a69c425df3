"""SK-24, LC-17: what a runtime has that does not answer is never said not to be there."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.agent.containers import find
from hostler.agent.containers.spec import ATTEMPT, JOB, NODE, ORG, PROJECT, TASK, ContainerSpec
from hostler.agent.host.host import Host
from hostler.agent.journal.journal import Journal
from hostler.agent.journal.truth import TaskTruth
from hostler.agent.steps.contract import Outcome
from hostler.agent.steps.table import step_kind
from hostler.agent.workloads import NodeWorkloads
from hostler.base.errors import HostlerError
from hostler.catalog.params.container import ContainerStop
from hostler.catalog.params.task import TaskProbe
from support import builders
from support.clocks import StillClock
from support.fake_runtime import FakeRuntime
from support.steps import Told, context_of
from support.workloads import workloads

LABELS = {
    TASK: "tsk_1", ATTEMPT: "att_1", ORG: "acme", PROJECT: "train", JOB: "/ann/train", NODE: builders.NODE,
}  # fmt: skip
OF_TASK = {"task_id": "tsk_1", "attempt_uid": "att_1", "org_id": "acme", "project_id": "train"}


class Home:
    """A node with two runtimes; the task runs in the second."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self.folder = folder
        self.first, self.second = self.both = FakeRuntime("containerd"), FakeRuntime("docker")
        self.present = ("containerd", "docker")
        clock = StillClock()
        self.workloads: NodeWorkloads = workloads(folder, journal, clock, self.both, present=lambda: self.present)

    async def begin(self) -> None:
        labels = dict(LABELS)
        made = ContainerSpec(name="c", image="", command=("x",), environment={}, labels=labels)
        await self.second.start(await self.second.create(made))

    async def stop(self) -> Outcome:
        params = ContainerStop(job="/ann/train")
        context = context_of(
            params, Host(root=self.folder), Told(), workloads=self.workloads, org_id="acme", project_id="train"
        )
        return await step_kind("container.stop").apply(context)

    async def probe(self) -> object:
        params = TaskProbe(task_id="tsk_1", attempt_uid="att_1", within_seconds=1)
        context = context_of(
            params,
            Host(root=self.folder),
            Told(),
            workloads=self.workloads,
            truth=lambda *_: TaskTruth(),
            sees_all_tasks=True,
        )
        return (await step_kind("task.probe").apply(context)).outputs["container"]


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    journal = await Journal.open(tmp_path / "journal.db", StillClock())
    made = Home(tmp_path, journal)
    await made.begin()
    yield made
    await journal.close()


async def code(work: object) -> str:
    with pytest.raises(HostlerError) as failed:
        await work  # type: ignore[misc]
    return failed.value.code


async def test_a_task_is_found_in_whichever_runtime_it_is(home: Home) -> None:
    assert await find.running(home.workloads, **OF_TASK) == (home.second, home.second.only.id)
    assert await home.probe() == "running"
    assert (await home.stop()).outputs == {"stopped": ["c"]}
    assert await code(find.running(home.workloads, **OF_TASK)) == "task_not_running"


@pytest.mark.parametrize("gone", [False, True], ids=["silent", "no socket"])
async def test_SK_24_nothing_is_said_to_be_stopped_while_its_runtime_is_away(home: Home, gone: bool) -> None:
    home.second.away = True
    home.present = () if gone else home.present
    assert await code(home.stop()) == "runtime_unavailable"
    assert await code(find.running(home.workloads, **OF_TASK)) == "runtime_unavailable"
    assert await home.probe() == "unknown"


async def test_another_runtime_that_is_away_keeps_nobody_from_a_task_that_is_found(home: Home) -> None:
    home.first.away = True
    assert (await find.running(home.workloads, **OF_TASK))[0] is home.second
    assert await home.probe() == "running"
