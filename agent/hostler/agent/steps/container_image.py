"""An image for a task: from an allowed source, by digest, and only for who may have it now (RN-06, RN-12, A7)."""

import asyncio
import os

from hostler.agent.containers.present import CONTAINERD
from hostler.agent.containers.runtime import ContainerRuntime, PullAuth
from hostler.agent.oci import stores
from hostler.agent.oci.collect import Bounds, Found, collect, find, refuse_excess_of
from hostler.agent.oci.manifest import own_platform
from hostler.agent.oci.registry import Registry
from hostler.agent.oci.room import workroom
from hostler.agent.secrets.material import material
from hostler.agent.steps.artifact_access import access_of, allowed, most_bytes, owner_of, refuse_source
from hostler.agent.steps.contract import StepContext, StepView
from hostler.base.errors import error
from hostler.catalog.credentials import OciPull
from hostler.catalog.oci import Reference, reference_of
from hostler.catalog.params.container import ContainerRun

CRI_NAMESPACE = "k8s.io"  # where containerd keeps what its container interface uses
RETRIES = 5
_HEARS_S, _LOOKS = 0.1, 100


def reference_in(view: StepView) -> Reference:
    """Raises `digest_required`, `source_denied`."""
    params: ContainerRun = view.params
    reference = reference_of(params.image)
    refuse_source(view, reference.source)
    return reference


async def obtain(context: StepContext, runtime: ContainerRuntime) -> str:
    """What `ContainerSpec.image` is to be.

    The registry is asked with this task's own credential, or with none, although the image may be here already from
    another tenant's pull: what it would not give us, we do not run.

    Raises:
        HostlerError: `digest_required`, `source_denied`, `source_unreachable`, `too_large`, and the runtime's own.
    """
    params: ContainerRun = context.params
    reference = reference_in(context)
    registry, found = await _authorised(context, reference)
    if not await runtime.has_image(params.image):
        context.log("agent", f"the image comes from {reference.registry}/{reference.repository}")
    login = material(context.secrets, params.credential, OciPull) if params.credential else None
    if login is not None and login.token and runtime.name == CONTAINERD:
        return await _handed_over(context, runtime, registry, found)
    return await runtime.pull(params.image, _auth(context, params.credential))


async def _authorised(context: StepContext, reference: Reference) -> tuple[Registry, Found]:
    """What the registry would give this very task, now; not too large for it."""
    registry = Registry(reference, access_of(context, context.params.credential), owner_of(context))
    found = await find(registry, own_platform())
    refuse_excess_of(found.size, most_bytes(context, 0))
    return registry, found


async def _handed_over(context: StepContext, runtime: ContainerRuntime, registry: Registry, found: Found) -> str:
    """containerd's container interface drops a registry's own token: we fetch, and it takes the image from us."""
    params: ContainerRun = context.params
    workloads, host = context.workloads, context.host
    assert workloads is not None
    if await runtime.has_image(params.image):
        return params.image
    store = stores.Containerd(host, CRI_NAMESPACE, workloads.settings.containerd_socket)
    bounds = Bounds(most=most_bytes(context, 0), most_per_s=0, retries=RETRIES, reserve=host.fetch.disk_reserve_bytes)
    spool = stores.open_spool(host.spool)
    try:
        with workroom(spool, "store", found.descriptor.digest) as room:
            await collect(registry, found, room, owner_of(context), bounds, lambda url: allowed(context, url))
            stopped = context.cancelled.is_set
            await asyncio.to_thread(stores.write_archive, room, found, params.image, stopped)
            archive = stores.archive_path(host.spool, room)
            await store.load(archive, params.image, found, context.deadline, context.cancelled)
            await asyncio.to_thread(room.discard)
    finally:
        os.close(spool)
    for _ in range(_LOOKS):  # it hears of what it was given a moment later
        if await runtime.has_image(params.image):
            return params.image
        await asyncio.sleep(_HEARS_S)
    raise error("image_missing", f"containerd took {params.image} and does not use it")


def _auth(context: StepContext, handle: str) -> PullAuth | None:
    """Secrets are read when they are asked for; a registry's own token goes as what it is."""
    if not handle:
        return None
    login = material(context.secrets, handle, OciPull)

    def password() -> bytes:
        return material(context.secrets, handle, OciPull).password.encode()

    def token() -> bytes:
        return material(context.secrets, handle, OciPull).token.encode()

    return PullAuth(username=login.username, password=password, token=token if login.token else None)
