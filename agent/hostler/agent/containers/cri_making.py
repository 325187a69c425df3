"""Makes a container of containerd in the sandbox of its attempt. Imports gRPC: load it where it is used.

Nothing is looked for first: an attempt is made once, and CRI refuses a second sandbox or container of the same name.
Only what is refused so is looked for: a crash has left it, or it is the setup's sandbox, into which the command comes.
"""

from pathlib import Path
from typing import NamedTuple

from hostler.agent.containers import cri_spec, groups
from hostler.agent.containers.cri_client import Client, is_taken
from hostler.agent.containers.cri_sandboxes import MAKE_S, Sandboxes
from hostler.agent.containers.shm import shm_of
from hostler.agent.containers.spec import ContainerSpec
from hostler.base.errors import HostlerError, error
from hostler.cri.v1 import api_pb2 as cri


class Made(NamedTuple):
    """A container, and what its start needs to know of it. `fresh`: nobody has asked it to start."""

    id: str
    log: str = ""
    pids: int = 0
    fresh: bool = True


class Making:
    """Args:
    log_dir: where containerd writes what containers say.
    shm_dir: where shared memory lies that is larger than a sandbox's own.
    """

    def __init__(self, client: Client, sandboxes: Sandboxes, log_dir: Path, shm_dir: Path) -> None:
        self._client, self._sandboxes = client, sandboxes
        self._logs, self._shm = log_dir, shm_dir

    async def made(self, spec: ContainerSpec) -> Made:
        """One of this name that is there is returned as it is. Raises `image_missing`, and leaves no sandbox then."""
        sandbox = cri_spec.sandbox_config(spec, self._logs)
        try:
            return await self._made_in(await self._sandboxes.made(sandbox), spec, sandbox)
        except HostlerError as err:
            if not is_taken(err):
                raise
        here, _ = await self._sandboxes.all({cri_spec.NAME: spec.name})  # of ours: a label alone says nothing
        if here:
            return Made(here[0].id, fresh=False)
        return await self._made_in(await self._sandboxes.standing(sandbox), spec, sandbox)

    async def _made_in(self, pod: str, spec: ContainerSpec, sandbox: cri.PodSandboxConfig) -> Made:
        large = spec.limits.shm_bytes > cri_spec.DEFAULT_SHM
        shm = str(shm_of(self._shm, cri_spec.sandbox_name(spec))) if large else ""
        config = cri_spec.container_config(spec, unified=groups.unified(), shm=shm)
        request = cri.CreateContainerRequest(pod_sandbox_id=pod, config=config, sandbox_config=sandbox)
        try:
            making = self._client.call(self._client.runtime.CreateContainer, request, f"creating {spec.name}", MAKE_S)
            container = str((await making).container_id)
        except HostlerError as err:
            if err.code == "runtime_unavailable" or await self._client.has_image(spec.image):
                raise
            await self._sandboxes.remove_empty(pod)
            raise error("image_missing", f"containerd does not hold {spec.image} for {spec.name}") from err
        return Made(container, f"{sandbox.log_directory}/{config.log_path}", spec.limits.pids)
