"""An image for a task: from an allowed source, by digest, and only for who may have it now (RN-06, RN-12, A7)."""

from hostler.agent.containers.present import CONTAINERD
from hostler.agent.containers.runtime import ContainerRuntime, PullAuth
from hostler.agent.oci.collect import find, refuse_excess_of
from hostler.agent.oci.manifest import own_platform
from hostler.agent.oci.registry import Registry
from hostler.agent.secrets.material import material
from hostler.agent.steps.artifact_access import access_of, most_bytes, owner_of, refuse_source
from hostler.agent.steps.contract import StepContext, StepView
from hostler.base.errors import error
from hostler.catalog.credentials import OciPull
from hostler.catalog.oci import Reference, reference_of
from hostler.catalog.params.container import ContainerRun


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
    await _authorise(context, reference)
    if not await runtime.has_image(params.image):
        context.log("agent", f"the image comes from {reference.registry}/{reference.repository}")
    login = material(context.secrets, params.credential, OciPull) if params.credential else None
    if login is not None and login.token and runtime.name == CONTAINERD:
        if await runtime.has_image(params.image):
            return params.image
        sentence = "containerd's container interface takes no registry token, only a name and a password"
        raise error("incompatible", sentence, hint="pull it with artifact.pull_oci first, or run the job in Docker")
    return await runtime.pull(params.image, _auth(context, params.credential))


async def _authorise(context: StepContext, reference: Reference) -> None:
    """Whether the registry would give this very task the image, now, and how large it says that is."""
    registry = Registry(reference, access_of(context, context.params.credential), owner_of(context))
    found = await find(registry, own_platform())
    refuse_excess_of(found.size, most_bytes(context, 0))


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
