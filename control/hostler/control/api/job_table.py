"""The routes of jobs; see `table`. A job's path has slashes, so the longer routes stand before the shorter."""

from hostler.control.api import job_bodies as bodies
from hostler.control.api.route import Route
from hostler.control.api.routes import jobs
from hostler.control.store import records
from hostler.control.store.job_queries import JobTaskView, JobView, NodeCapacity

_PAGE = ("cursor", "page_size")
_JOBS = "/api/v1/projects/{project_id}/jobs"
_JOB = f"{_JOBS}/{{job_id}}"

JOB_ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        _JOBS,
        "jobs.submit",
        jobs.submit,
        "Submit a job",
        body=bodies.NewJob,
        action="job.submit",
        answer=bodies.JobMade,
    ),
    Route(
        "GET",
        _JOBS,
        "jobs.read",
        jobs.listing,
        "List jobs, newest first; prefix names a job and those below it",
        query=(*_PAGE, "prefix", "state"),
        answer=records.Page[JobView],
    ),
    Route(
        "GET",
        f"{_JOB}/tasks",
        "jobs.read",
        jobs.tasks,
        "The tasks of a job, each with its attempts",
        query=_PAGE,
        answer=records.Page[JobTaskView],
    ),
    Route("GET", f"{_JOB}/explain", "jobs.read", jobs.explain, "Why a job waits", answer=bodies.Explained),
    Route(
        "GET",
        f"{_JOB}/wait",
        "jobs.read",
        jobs.wait,
        "A job when it has ended, or after timeout_seconds",
        query=("timeout_seconds",),
        answer=JobView,
    ),
    Route(
        "POST",
        f"{_JOB}/cancel",
        "jobs.cancel",
        jobs.cancel,
        "Cancel a job and all below it",
        action="job.cancel",
        answer=bodies.CancelOfJob,
    ),
    Route("GET", _JOB, "jobs.read", jobs.get, "Show a job, by id or path", answer=JobView),
    Route(
        "GET",
        "/api/v1/admin/capacity",
        "nodes.admin",
        jobs.capacity,
        "What nodes have, what jobs hold of them, and what is free",
        query=_PAGE,
        answer=records.Page[NodeCapacity],
    ),
)
