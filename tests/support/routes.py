"""Paths of routes with every name filled in: a route of a new kind needs its name here, once."""

import string

from hostler.control.api.route import Route

NAMES = {
    "project_id": "train",
    "operation_id": "op_x",
    "job_id": "op_x",
    "node_id": "nod_x",
    "ref": "demo.write@v1",
    "name": "nobody",
    "index": "0",
    "tenant_id": "acme",
    "operation_type": "demo.write",
    "artifact_id": "art_0",
    "allocation_id": "alc_x",
    "webhook_id": "whk_x",
    "sha256": "0" * 64,
    "task_id": "tsk_x",
    "endpoint_id": "web-id",
    "rest": "metrics",
    "run_id": "run_x",
    "channel": "stable",
    "rollout_id": "rol_x",
}


def path_of(route: Route, **values: str) -> str:
    return route.path.format(**(NAMES | values))


def names_in(route: Route) -> tuple[str, ...]:
    return tuple(name for _, name, _, _ in string.Formatter().parse(route.path) if name)
