"""The routes to what runs inside tasks; a part of the table. The relay itself is a WebSocket: see `relay`."""

from hostler.control.api.route import Route
from hostler.control.api.routes import exec as inside

_JOB = "/api/v1/projects/{project_id}/jobs/{job_id}"

EXEC_ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        f"{_JOB}/exec",
        "jobs.exec",
        inside.run,
        "Run a program inside a running task; answers with the relay to attach to",
        inside.Exec,
        action="job.exec",
        answer=inside.ExecMade,
    ),
    Route(
        "POST",
        f"{_JOB}/profile",
        "jobs.exec",
        inside.profile,
        "Watch the processes of a running task for a while",
        inside.Profile,
        action="job.profile",
        answer=inside.ProfileMade,
    ),
)
