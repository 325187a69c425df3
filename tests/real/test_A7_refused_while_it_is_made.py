"""A7, K2: the registry says no when real containerd or Docker has made the container: nothing runs, nothing stays."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.containers.containerd import Containerd
from hostler.agent.containers.docker import Docker
from hostler.agent.containers.runtime import PullAuth, State
from hostler.agent.containers.spec import ATTEMPT
from hostler.agent.host.fetch_settings import FetchSettings
from hostler.agent.host.host import Host
from hostler.agent.steps import container_task
from hostler.agent.steps.container_image import authorise
from hostler.agent.steps.container_run import KIND
from hostler.agent.steps.contract import StepContext
from hostler.base.errors import HostlerError
from hostler.catalog.params.container import ContainerRun
from support import builders
from support.busybox import busybox_layer
from support.certs import make_server_certs
from support.dockerd import Dockerd, dockerd
from support.registry import Registry, registry
from support.runtimes import until
from support.steps import UNLIMITED, Told, context_of
from support.workloads import Node

pytestmark = [pytest.mark.real, pytest.mark.timeout(180), pytest.mark.xdist_group("containers")]
ATTEMPT_UID, REPOSITORY = "att-refused", "team/private"


@pytest.fixture(scope="module")
def engine() -> Iterator[Dockerd]:
    with dockerd() as started:
        yield started


@pytest.fixture(scope="module")
def held(engine: Dockerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with ExitStack() as stack:
        certs = make_server_certs(tmp_path_factory.mktemp("certs"))
        made = stack.enter_context(registry(tmp_path_factory.mktemp("held"), certs, login=("ann", "right")))
        engine.below.trust(made.name, certs.ca)
        yield made


@dataclass
class Bob:
    """Has a task for an image that is on the node, and no credential for it."""

    runtime: Any
    home: Node
    host: Host
    image: str
    told: Told

    async def task(self) -> None:
        params = {
            "job": "/bob/job",
            "command": ["/bin/busybox", "cat", "/etc/stamp"],
            "image": self.image,
            "network": "host",
            "resources": {"memory_bytes": 32 << 20, "shm_bytes": 0},
        }
        async with self.home.agent() as _:
            context = context_of(
                msgspec.convert(params, ContainerRun), self.host, self.told, policy=UNLIMITED,
                workloads=self.home.workloads, attempt_uid=ATTEMPT_UID, operation_id="op", org_id="bob", project_id="p",
                checkpoint=self.told.checkpoint if self.told.saved else None,
            )  # fmt: skip
            await KIND.apply(context)

    async def made(self) -> tuple[State, ...]:
        return tuple(one.state for one in await self.runtime.list({ATTEMPT: ATTEMPT_UID}))

    async def is_refused(self) -> None:
        """And once its end is durable, nothing of it is left."""
        with pytest.raises(HostlerError) as refused:
            await self.task()
        assert refused.value.code == "source_denied", refused.value
        assert [line.text for _, line in self.told.shipped] == []
        async with self.home.agent() as _:
            assert await self.home.workloads.clear(ATTEMPT_UID)
        assert await self.made() == ()


@pytest.fixture(params=["containerd", "docker"])
async def bob(request: pytest.FixtureRequest, tmp_path: Path, engine: Dockerd, held: Registry) -> AsyncIterator[Bob]:
    place = engine.place
    if request.param == "containerd":
        runtime: Any = Containerd(engine.below.socket, place / "logs", place / "run", place / "shm")
    else:
        runtime = Docker(engine.socket, builders.NODE)
    (tmp_path / "root").mkdir()
    host = Host(root=tmp_path / "root", fetch=FetchSettings(ca_file=str(held.certs.ca), backoff_base_seconds=0.005))
    image = f"{held.name}/{REPOSITORY}@{held.image(REPOSITORY, busybox_layer('private'))}"
    await runtime.pull(image, PullAuth(username="ann", password=lambda: b"right"))
    home = Node(tmp_path, runtime, allow_host_network=True, containerd_socket=str(engine.below.socket))
    yield Bob(runtime, home, host, image, Told())
    await runtime.close()
    await host.close()


async def test_A7_a_no_that_comes_when_the_container_was_made_leaves_nothing(
    bob: Bob, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[State, ...]] = []

    async def late(context: StepContext) -> None:
        seen.append(await until(bob.made, 60.0))
        await authorise(context)

    monkeypatch.setattr(container_task, "authorise", late)
    await bob.is_refused()
    assert len(seen) == 1
    assert bob.told.saved == [], "nothing was noted that would spare the next agent the question"


async def test_A7_K2_an_agent_that_dies_between_the_making_and_the_answer_leaves_nothing_to_the_next(
    bob: Bob, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def created() -> bool:
        return await bob.made() == (State.CREATED,)

    with monkeypatch.context() as patch:
        patch.setattr(container_task, "authorise", lambda context: asyncio.Event().wait())
        dying = asyncio.ensure_future(bob.task())
        await until(created, 60.0)
        dying.cancel()  # an agent that stops leaves its containers
        await asyncio.gather(dying, return_exceptions=True)
    assert await created()
    await bob.is_refused()
