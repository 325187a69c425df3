"""What code inside a task of Hostler may import: its context, endpoints, child jobs and actors.

Standard library only; a wheel of its own. It speaks to the task API at `HOSTLER_CONTROLLER_ADDRESS` and to other
tasks' actors, never to the control plane.

    from hostler import sdk

    ctx = sdk.context()
    ctx.registry.register("coordinator", port=ctx.get_port("actor"))
    address = ctx.resolver_for_job("/ann/other").resolve("coordinator").first().address
"""

from hostler.sdk.actor_jobs import ActorGroup, create_actor, create_actor_group, host_actor
from hostler.sdk.actors import ActorServer
from hostler.sdk.client import TaskClient
from hostler.sdk.context import Context, context, ctx, get_port, progress, submit
from hostler.sdk.endpoints import Endpoint, Lease, Registry, Resolution, Resolver
from hostler.sdk.errors import (
    ActorError,
    ActorNotFound,
    ActorTimeout,
    ApiError,
    ControllerUnreachable,
    NoController,
    NotInTask,
    SdkError,
)
from hostler.sdk.handles import ActorHandle, ActorPool
from hostler.sdk.info import JobInfo, job_info
from hostler.sdk.jobs import Entrypoint, Job
from hostler.sdk.local import run_callable

__all__ = [
    "ActorError",
    "ActorGroup",
    "ActorHandle",
    "ActorNotFound",
    "ActorPool",
    "ActorServer",
    "ActorTimeout",
    "ApiError",
    "Context",
    "ControllerUnreachable",
    "Endpoint",
    "Entrypoint",
    "Job",
    "JobInfo",
    "Lease",
    "NoController",
    "NotInTask",
    "Registry",
    "Resolution",
    "Resolver",
    "SdkError",
    "TaskClient",
    "context",
    "create_actor",
    "create_actor_group",
    "ctx",
    "get_port",
    "host_actor",
    "job_info",
    "progress",
    "run_callable",
    "submit",
]
