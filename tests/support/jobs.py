"""Jobs for tests: a definition of the shipped name with a harmless step, specs, and nodes that can run them."""

from typing import Any

import msgspec

from hostler.catalog.definition import Definition
from hostler.catalog.job import JobSpec
from hostler.control.kernel.job_commands import SubmitJob
from hostler.control.kernel.job_nodes import Amounts, NodeState, facts_of
from hostler.control.kernel.job_rows import JobRow, JobTaskRow, NodeLoadRow
from hostler.control.kernel.rows import AttemptRow, TaskRow
from hostler.wire.report import Report, TaskReport, TaskStatus
from support.builders import definition
from support.control import USER
from support.memory_view import Bench

GIB = 1 << 30
IMAGE = f"registry.example/app@sha256:{'a' * 64}"
ANY = {"type": "object", "additionalProperties": True, "properties": {}}


def job_definitions() -> tuple[Definition, ...]:
    """Of the names that jobs are compiled to."""
    return tuple(definition(type_=type_, inputs=ANY) for type_ in ("job.container.run", "job.container.private"))


def spec(name: str = "train", *, cpu: int = 1000, memory: int = GIB, **more: Any) -> JobSpec:
    """One task of one core and one GiB, unless told otherwise."""
    said = {"name": name, "image": IMAGE, "command": ["true"]}
    said["resources"] = {"cpu_millis": cpu, "memory_bytes": memory} | more.pop("resources", {})
    return msgspec.convert(said | more, JobSpec)


def can(cpu: int = 4000, memory: int = 16 * GIB, **more: str) -> dict[str, str]:
    """What a node with containers reports; `gpu_count` stands for `gpu.count`."""
    named = {key.replace("_", ".", 1): value for key, value in more.items()}
    said = {"workload.runtimes": "containerd", "cpu.millis": str(cpu), "memory.bytes": str(memory)}
    return said | {"disk.bytes": str(1 << 40)} | named


def state(
    node_id: str, cpu: int = 4000, memory: int = 16 * GIB, *, labels: dict[str, str] | None = None,
    blocked: str = "", reserved: Amounts = (0, 0, 0, 0, 0), leaving: Amounts = (0, 0, 0, 0, 0), **more: str,
) -> NodeState:  # fmt: skip
    text = msgspec.json.encode(can(cpu, memory, **more)).decode()
    facts = facts_of(node_id, node_id, msgspec.json.encode(labels or {}).decode(), text)
    return NodeState(node_id, node_id, facts, blocked, reserved, leaving)


def submit_job(asked: JobSpec | None = None, **more: Any) -> SubmitJob:
    submit_job.count += 1  # type: ignore[attr-defined]
    values: dict[str, Any] = {
        "actor": USER,
        "org_id": "acme",
        "project_id": "train",
        "spec": asked or spec(),
        "idempotency_key": f"job-{submit_job.count}",  # type: ignore[attr-defined]
        "correlation_id": "cor_1",
    }
    return SubmitJob(**(values | more))


submit_job.count = 0  # type: ignore[attr-defined]


class JobBench(Bench):
    """A kernel in memory with the job definitions, and agents that say what they are told to."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        for each in job_definitions():
            self.define(each)
        self._outbox: dict[str, int] = {}

    def worker(self, cpu: int = 4000, memory: int = 16 * GIB, **more: Any) -> Any:
        """A node that runs containers."""
        caps = msgspec.json.encode(can(cpu, memory, **more.pop("caps", {}))).decode()
        labels = msgspec.json.encode(more.pop("labels", {})).decode()
        return self.node(capabilities=caps, labels=labels, **more)

    def submit(self, asked: JobSpec | None = None, **more: Any) -> str:
        job_id: str = self.run(submit_job(asked, **more)).job_id
        return job_id

    def job(self, job_id: str) -> JobRow:
        row = self.view.get(JobRow, job_id)
        assert isinstance(row, JobRow)
        return row

    def places(self, job_id: str) -> list[str]:
        """The node of each task, in order; "" for one that waits."""
        return [task.node_id for task in sorted(self.tasks(job_id), key=lambda task: task.replica_index)]

    def booked(self, job_id: str) -> list[JobTaskRow]:
        return sorted(self.view.tasks_of_job(job_id), key=lambda row: row.task_index)

    def attempts(self, task_id: str) -> list[AttemptRow]:
        rows: Any = [row for row in self.view.rows[AttemptRow].values() if row.task_id == task_id]  # type: ignore[attr-defined]
        return sorted(rows, key=lambda row: row.attempt_number)

    def say(self, task: TaskRow, status: TaskStatus, code: str = "", *, node: str = "", attempt: str = "") -> None:
        """What the agent of the task's node reports of it."""
        from hostler.control.kernel.commands import FoldReports

        node_id = node or task.node_id
        self._outbox[node_id] = number = self._outbox.get(node_id, 0) + 1
        body = TaskReport(
            task_id=task.task_id,
            attempt_uid=attempt or task.attempt_uid,
            status=status,
            error_code=code,
            at_ms=self.now,
        )
        self.run(FoldReports(node_id=node_id, reports=(Report(number, body),)))

    def start(self, job_id: str) -> None:
        """Every placed task begins."""
        for task in self.tasks(job_id):
            if task.state == "assigned":
                self.say(task, TaskStatus.RUNNING)

    def end(self, job_id: str, index: int = 0, code: str = "", status: TaskStatus | None = None) -> None:
        task = next(task for task in self.tasks(job_id) if task.replica_index == index)
        self.say(task, status or (TaskStatus.FAILED if code else TaskStatus.SUCCEEDED), code)

    def check_books(self) -> None:
        """What nodes are said to hold is what their tasks hold, and no more than they have (EF-10)."""
        from hostler.control.kernel.job_nodes import need_of

        held: dict[str, list[int]] = {}
        for row in self.view.rows[JobTaskRow].values():
            task: Any = self.view.get(TaskRow, row.task_id)  # type: ignore[attr-defined]
            assert row.node_id == ("" if task.finished_at_ms else task.node_id), (row, task)  # type: ignore[attr-defined]
            assert bool(row.pending) == (not task.finished_at_ms and not task.node_id)  # type: ignore[attr-defined]
            if row.node_id:  # type: ignore[attr-defined]
                sums = held.setdefault(row.node_id, [0, 0, 0, 0, 0])  # type: ignore[attr-defined]
                for place, amount in enumerate(need_of(self.job(row.job_id).spec).amounts):  # type: ignore[attr-defined]
                    sums[place] += amount
        for load in self.view.rows[NodeLoadRow].values():
            assert isinstance(load, NodeLoadRow)
            said = [load.cpu_millis, load.memory_bytes, load.disk_bytes, load.gpus, load.tpus]
            assert said == held.get(load.node_id, [0, 0, 0, 0, 0]), load
            node: Any = self.view.rows[type(self.node_row(load.node_id))][load.node_id]
            total = facts_of(node.node_id, node.name, node.labels, node.capabilities).total
            assert all(have <= all_ for have, all_ in zip(said, total, strict=True)), (load, total)

    def node_row(self, node_id: str) -> Any:
        from hostler.control.kernel.rows import NodeRow

        return self.view.get(NodeRow, node_id)
