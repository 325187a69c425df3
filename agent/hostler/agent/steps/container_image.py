"""An image for a task: from an allowed source, by digest, and only for who may have it now (RN-06, RN-12, A7)."""

import asyncio
from dataclasses import replace

from hostler.agent.containers.present import CONTAINERD, CRI_NAMESPACE
from hostler.agent.containers.runtime import ContainerRuntime, PullAuth
from hostler.agent.containers.workload import Workloads
from hostler.agent.fetch.blob import Owner
from hostler.agent.oci.collect import Bounds, Found, find, refuse_excess
from hostler.agent.oci.intake import Intake
from hostler.agent.oci.manifest import own_platform
from hostler.agent.oci.registry import Registry
from hostler.agent.oci.stores import Containerd
from hostler.agent.secrets.material import material
from hostler.agent.steps.artifact_access import access_of, allowed, most_bytes, owner_of, refuse_source
from hostler.agent.steps.container_notes import Notes
from hostler.agent.steps.contract import StepContext, StepView
from hostler.base.errors import HostlerError, error
from hostler.catalog.credentials import OciPull
from hostler.catalog.oci import Reference, reference_of
from hostler.catalog.params.container import ContainerRun

RETRIES = 20  # of each blob, as `artifact.pull_oci` has them
SEEN_S = 30.0  # from containerd's store to its container interface, which is told by an event
_LOOK_S = 0.02


def reference_in(view: StepView) -> Reference:
    """Raises `digest_required`, `source_denied`."""
    params: ContainerRun = view.params
    reference = reference_of(params.image)
    refuse_source(view, reference.source)
    return reference


async def is_held(context: StepContext, runtime: ContainerRuntime) -> bool:
    """Whether the image is in the runtime's store, perhaps from another tenant's pull: that lets nobody run it.

    Raises:
        HostlerError: `digest_required`, `source_denied`, and the runtime's own.
    """
    params: ContainerRun = context.params
    reference_in(context)
    return await runtime.has_image(params.image)


async def obtain(context: StepContext, runtime: ContainerRuntime, workloads: Workloads, notes: Notes) -> str:
    """What `ContainerSpec.image` is to be, once the registry has said that this task may have it.

    containerd's container interface takes a name and a password for a registry and drops a token (RN-06), so with a
    token the agent fetches the image itself.

    Raises:
        HostlerError: what `authorise` raises, `image_store`, the runtime's own, and what ends a transfer.
    """
    params: ContainerRun = context.params
    owner = replace(owner_of(context), saved=notes.now.pull, save=lambda state: notes.keep(pull=state))
    allowed_image = await _allowed_image(context, owner)
    if await is_held(context, runtime):  # by its digest, and the registry has just said that it may be run
        return params.image
    reference = reference_in(context)
    context.log("agent", f"the image comes from {reference.registry}/{reference.repository}")
    if runtime.name != CONTAINERD or not _by_token(context):
        return await runtime.pull(params.image, _auth(context, params.credential))
    how = owner, _bounds(context)
    image = await _bring(context, runtime, workloads.settings.containerd_socket, allowed_image, how)
    await _until_seen(context, runtime, image)
    return image


async def authorise(context: StepContext) -> None:
    """Whether the registry would give this very task the image, now, and how large it says that is.

    It is asked with this task's own credential, or with none, although the image may be here already: what it would
    not give us, we do not run.

    Raises:
        HostlerError: `digest_required`, `source_denied`, `source_unreachable`, `too_large`.
    """
    await _allowed_image(context, owner_of(context))


async def _allowed_image(context: StepContext, owner: Owner) -> tuple[Registry, Found]:
    registry = Registry(reference_in(context), access_of(context, context.params.credential), owner)
    found = await find(registry, own_platform())
    refuse_excess(found, _bounds(context))
    return registry, found


async def _bring(
    context: StepContext,
    runtime: ContainerRuntime,
    socket: str,
    what: tuple[Registry, Found],
    how: tuple[Owner, Bounds],
) -> str:
    host = context.host
    intake = Intake(Containerd(host, socket, CRI_NAMESPACE), host.spool, *how, lambda url: allowed(context, url))
    try:
        return (await intake.bring(*what)).image
    except HostlerError as err:
        if err.code == "image_store":
            await runtime.available()  # where it is away, the caller waits for it and asks again
        raise


async def _until_seen(context: StepContext, runtime: ContainerRuntime, image: str) -> None:
    clock = context.host.clock
    end = clock.monotonic() + SEEN_S
    while not await runtime.has_image(image):
        if clock.monotonic() >= end:
            raise error("image_store", f"containerd holds {image}, and its container interface does not see it")
        await asyncio.sleep(_LOOK_S)


def _bounds(context: StepContext) -> Bounds:
    reserve = context.host.fetch.disk_reserve_bytes
    return Bounds(most=most_bytes(context, 0), most_per_s=0, retries=RETRIES, reserve=reserve)


def _by_token(context: StepContext) -> bool:
    handle = context.params.credential
    return bool(handle) and bool(material(context.secrets, handle, OciPull).token)


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
