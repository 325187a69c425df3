"""Sandboxes of attempts and what stands in them. Listed each time, never remembered: a crash forgets nothing."""

import asyncio
import os
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path

from hostler.agent.containers import cri_spec
from hostler.agent.containers.cri_client import Client
from hostler.agent.containers.runtime import Found, State
from hostler.agent.host import removal
from hostler.base.errors import HostlerError
from hostler.cri.v1 import api_pb2 as cri
from hostler.wire.race import together

MAKE_S = 240.0


class Sandboxes:
    """Args:
    places: directories in which each attempt has one of its own, by its sandbox's name.
    """

    def __init__(self, client: Client, *places: Path) -> None:
        self._client = client
        self._places = places
        self._addresses: dict[str, str] = {}  # they never change

    async def standing(self, config: cri.PodSandboxConfig) -> str:
        """That of the attempt, or a new one; what is left of one that has died makes way."""
        for each in await self.listed({}):
            if each.metadata.name == config.metadata.name:
                if each.state == cri.SANDBOX_READY:
                    return each.id
                await self._remove(each.id)
        return await self.made(config)

    async def made(self, config: cri.PodSandboxConfig) -> str:
        """A new one. Raises what `is_taken` knows where there is one of that name."""
        name = config.metadata.name
        os.makedirs(config.log_directory, mode=0o700, exist_ok=True)  # noqa: PTH103 - one short call
        request = cri.RunPodSandboxRequest(config=config)
        call = self._client.call(self._client.runtime.RunPodSandbox, request, f"making the sandbox of {name}", MAKE_S)
        return str((await call).pod_sandbox_id)

    async def address(self, sandbox: str) -> str:
        """None of its own in the node's network."""
        if sandbox and sandbox not in self._addresses:
            request = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox)
            what = f"looking at {sandbox}"
            try:
                said = await self._client.call(self._client.runtime.PodSandboxStatus, request, what)
            except HostlerError as err:
                if err.code != "container_missing":
                    raise
                return ""
            self._addresses[sandbox] = said.status.network.ip
        return self._addresses.get(sandbox, "")

    async def remove_empty(self, sandbox: str) -> None:
        """Once nothing stands in it. Its directories go first: without it nobody would find them again (RN-11)."""
        if any(each.pod_sandbox_id == sandbox for each in await self.containers({})):
            return
        for each in await self.listed({}):
            if each.id == sandbox:
                for place in self._places:
                    await asyncio.to_thread(removal.remove, place / each.metadata.name)
                await self._remove(sandbox)
        self._addresses.pop(sandbox, None)

    async def all(self, labels: Mapping[str, str]) -> tuple[Sequence[cri.Container], list[Found]]:
        """Containers, and sandboxes in which none stands: what a crash has left before one did, or after."""
        containers, sandboxes = await together(self.containers({}), self.listed({}))
        used, ours = {each.pod_sandbox_id for each in containers}, {each.id: each for each in sandboxes}
        empty = [
            Found(id=each.id, name=each.metadata.name, labels=dict(each.labels), state=State.EXITED)
            for each in sandboxes
            if each.id not in used and _has(each.labels, labels)
        ]
        standing = [each for each in containers if cri_spec.is_own_container(each, ours) and _has(each.labels, labels)]
        return standing, empty

    async def listed(self, labels: Mapping[str, str]) -> Sequence[cri.PodSandbox]:
        """Only ours: Kubernetes may run on the same containerd, and its pods have labels of anybody's choice."""
        request = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(label_selector=labels))
        said = await self._client.call(self._client.runtime.ListPodSandbox, request, "listing sandboxes")
        return [each for each in said.items if cri_spec.is_own_sandbox(each)]

    async def containers(self, labels: Mapping[str, str]) -> Sequence[cri.Container]:
        request = cri.ListContainersRequest(filter=cri.ContainerFilter(label_selector=labels))
        said = await self._client.call(self._client.runtime.ListContainers, request, "listing containers")
        return [each for each in said.containers if cri_spec.NAME in each.labels]

    async def _remove(self, sandbox: str) -> None:
        client, runtime = self._client, self._client.runtime
        stop, remove = (
            cri.StopPodSandboxRequest(pod_sandbox_id=sandbox),
            cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox),
        )
        await unless_gone(client.call(runtime.StopPodSandbox, stop, f"stopping the sandbox {sandbox}", MAKE_S))
        await unless_gone(client.call(runtime.RemovePodSandbox, remove, f"removing the sandbox {sandbox}", MAKE_S))


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= dict(labels).items()


async def unless_gone(call: Awaitable[object]) -> None:
    """What is not there is what was wanted."""
    try:
        await call
    except HostlerError as err:
        if err.code != "container_missing":
            raise
