"""What the kernel asks of jobs; a part of `view.StoreView`."""

from typing import Any, TypeVar

from hostler.control.kernel.job_rows import JobRow, JobTaskRow, StrayRow
from hostler.control.kernel.rows import Row, TaskRow
from hostler.control.store import local_tasks

R = TypeVar("R", bound=Row)
# CROSS JOIN and the index fix the order: what is in place now, not every job there ever was.
_IN_PLACE = (
    "task_id IN (SELECT t.task_id FROM job_tasks t INDEXED BY job_tasks_placed"
    " CROSS JOIN jobs j ON j.job_id = t.job_id WHERE t.node_id != '' AND t.leaving = ''"
    " AND j.org_id = ? AND j.project_id = ? AND j.allocation_id = ? AND j.preemptible = 1 AND j.priority < ?)"
)
_DUE = (
    "pending = 1 AND (not_before_ms > 0 OR deadline_ms > 0)"
    " AND (not_before_ms BETWEEN 1 AND ? OR deadline_ms BETWEEN 1 AND ?) LIMIT ?"
)


class JobQueries:
    """Implements `kernel.job_rows.JobView`."""

    def _all(self, type_: type[R], sql: str, parameters: Any) -> list[R]:
        raise NotImplementedError

    def _where(self, type_: type[R], condition: str, *parameters: Any) -> list[R]:
        raise NotImplementedError

    def _pairs(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def job_named(self, org_id: str, project_id: str, name: str) -> JobRow | None:
        condition = "project_id = ? AND org_id = ? AND name = ? AND current = 1"
        return next(iter(self._where(JobRow, condition, project_id, org_id, name)), None)

    def children_of(self, job_id: str) -> list[JobRow]:
        return self._where(JobRow, "parent_id = ? AND parent_id != '' ORDER BY job_id", job_id)

    def tasks_of_job(self, job_id: str) -> list[JobTaskRow]:
        return self._where(JobTaskRow, "job_id = ? ORDER BY task_index", job_id)

    def pending_jobs(self, org_id: str, project_id: str, allocation_id: str) -> list[JobRow]:
        condition = "project_id = ? AND org_id = ? AND allocation_id = ? AND pending > 0 ORDER BY job_id"
        return self._where(JobRow, condition, project_id, org_id, allocation_id)

    def pools_waiting(self, limit: int) -> list[tuple[str, str, str]]:
        sql = "SELECT DISTINCT org_id, project_id, allocation_id FROM jobs WHERE pending > 0 ORDER BY 2, 1, 3 LIMIT ?"
        return [(org, project, allocation) for org, project, allocation in self._pairs(sql, limit)]

    def leaving_tasks(self) -> list[JobTaskRow]:
        return self._where(JobTaskRow, "leaving != ''")

    def preemptible_below(self, org_id: str, project_id: str, allocation_id: str, priority: int) -> list[JobTaskRow]:
        return self._where(JobTaskRow, _IN_PLACE, org_id, project_id, allocation_id, priority)

    def strays_on(self, node_id: str) -> list[StrayRow]:
        return self._where(StrayRow, "node_id = ? AND ended_at_ms = 0", node_id)

    def strays_of(self, task_id: str) -> list[StrayRow]:
        return self._where(StrayRow, "task_id = ? AND ended_at_ms = 0", task_id)

    def tasks_to_reroute(self, now_ms: int, limit: int) -> list[TaskRow]:
        return self._all(TaskRow, local_tasks.REROUTE, {"now": now_ms, "limit": limit})

    def due_job_tasks(self, now_ms: int, limit: int) -> list[JobTaskRow]:
        return self._where(JobTaskRow, _DUE, now_ms, now_ms, limit)

    def jobs_beyond_budget(self, now_ms: int, limit: int) -> list[JobRow]:
        return self._all(JobRow, local_tasks.BEYOND_BUDGET, {"now": now_ms, "limit": limit})
