"""What the kernel asks of jobs, over rows in dictionaries; a part of `memory_view.MemoryView`."""

from collections.abc import Callable
from typing import Any

from hostler.control.kernel.job_rows import JobRow, JobTaskRow, StrayRow
from hostler.control.kernel.rows import NodeRow, Row, TaskRow


class MemoryJobs:
    """Implements `kernel.job_rows.JobView`."""

    rows: dict[type[Row], dict[Any, Row]]

    def _kept(self, type_: Any, keep: Callable[[Any], bool]) -> list[Any]:
        return [row for row in self.rows[type_].values() if keep(row)]

    def job_named(self, org_id: str, project_id: str, name: str) -> JobRow | None:
        wanted = org_id, project_id, name, 1
        found = self._kept(JobRow, lambda j: (j.org_id, j.project_id, j.name, j.current) == wanted)
        return next(iter(found), None)

    def children_of(self, job_id: str) -> list[JobRow]:
        return self._kept(JobRow, lambda j: j.parent_id == job_id != "")

    def tasks_of_job(self, job_id: str) -> list[JobTaskRow]:
        return self._kept(JobTaskRow, lambda t: t.job_id == job_id)

    def pending_jobs(self, org_id: str, project_id: str, allocation_id: str) -> list[JobRow]:
        pool = org_id, project_id, allocation_id
        return self._kept(JobRow, lambda j: j.pending and (j.org_id, j.project_id, j.allocation_id) == pool)

    def pools_waiting(self, limit: int) -> list[tuple[str, str, str]]:
        found = self._kept(JobRow, lambda j: j.pending)
        return sorted({(j.org_id, j.project_id, j.allocation_id) for j in found})[:limit]

    def leaving_tasks(self) -> list[JobTaskRow]:
        return self._kept(JobTaskRow, lambda t: t.leaving)

    def preemptible_below(self, org_id: str, project_id: str, allocation_id: str, priority: int) -> list[JobTaskRow]:
        pool = org_id, project_id, allocation_id

        def keep(task: JobTaskRow) -> bool:
            job: Any = self.rows[JobRow][task.job_id]
            own = (job.org_id, job.project_id, job.allocation_id) == pool
            return bool(own and task.node_id and not task.leaving and job.preemptible and job.priority < priority)

        return self._kept(JobTaskRow, keep)

    def strays_on(self, node_id: str) -> list[StrayRow]:
        return self._kept(StrayRow, lambda s: s.node_id == node_id and not s.ended_at_ms)

    def strays_of(self, task_id: str) -> list[StrayRow]:
        return self._kept(StrayRow, lambda s: s.task_id == task_id and not s.ended_at_ms)

    def tasks_to_reroute(self, now_ms: int, limit: int) -> list[TaskRow]:
        def keep(task: TaskRow) -> bool:
            node, job = self.rows[NodeRow].get(task.node_id), self.rows[JobRow].get(task.operation_id)
            if not isinstance(node, NodeRow) or not isinstance(job, JobRow) or node.connection != "lost":
                return False
            late = job.reroute_after_ms > 0 and node.last_seen_ms + job.reroute_after_ms <= now_ms
            return late and task.state in ("assigned", "running")

        return self._kept(TaskRow, keep)[:limit]

    def due_job_tasks(self, now_ms: int, limit: int) -> list[JobTaskRow]:
        def keep(task: JobTaskRow) -> bool:
            return bool(task.pending and (0 < task.not_before_ms <= now_ms or 0 < task.deadline_ms <= now_ms))

        return self._kept(JobTaskRow, keep)[:limit]

    def jobs_beyond_budget(self, now_ms: int, limit: int) -> list[JobRow]:
        def running_ms(job_id: str) -> int:
            own = self._kept(TaskRow, lambda t: t.operation_id == job_id and t.started_at_ms and not t.finished_at_ms)
            below = sum(running_ms(child.job_id) for child in self.children_of(job_id))
            return below + sum(max(0, now_ms - task.started_at_ms) for task in own)

        def keep(job: JobRow) -> bool:
            return not job.gone_ms and 0 < job.budget_ms <= job.task_ms + running_ms(job.job_id)

        return self._kept(JobRow, keep)[:limit]
