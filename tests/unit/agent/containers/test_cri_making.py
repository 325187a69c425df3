"""P9, K3: a container of containerd is made by two calls, and what is there already is found and not made again."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from hostler.agent.containers import cri_spec
from hostler.agent.containers.cri_client import failure
from hostler.agent.containers.cri_making import Making
from hostler.agent.containers.cri_sandboxes import Sandboxes
from hostler.agent.containers.spec import ATTEMPT, PHASE, ContainerSpec, Limits, name_of
from hostler.base.errors import HostlerError
from hostler.cri.v1 import api_pb2 as cri

Metadata = grpc.aio.Metadata


class Containerd:
    """As much of one as making needs: it keeps names to one sandbox and one container each. `did` are its calls."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.pods: dict[str, cri.PodSandbox] = {}
        self.made: dict[str, cri.Container] = {}
        self.images = {"image"}
        self.runtime = self.images_stub = self

    def __getattr__(self, method: str) -> Callable[[Any], Awaitable[Any]]:
        async def call(request: Any) -> Any:
            self.did.append(method)
            return getattr(self, f"do_{method}")(request)

        return call

    async def call(self, method: Callable[[Any], Awaitable[Any]], request: Any, what: str, timeout: float = 0) -> Any:
        try:
            return await method(request)
        except grpc.aio.AioRpcError as err:
            raise failure(what, err.code(), err.details() or "") from err

    async def has_image(self, reference: str) -> bool:
        self.did.append("ImageStatus")
        return reference in self.images

    def do_RunPodSandbox(self, request: Any) -> Any:
        name = request.config.metadata.name
        self._reserve(name in self.pods, name)
        made = cri.PodSandbox(id=f"pod-{name}", state=cri.SANDBOX_READY)
        made.metadata.CopyFrom(request.config.metadata)
        made.labels.update(request.config.labels)
        self.pods[name] = made
        return cri.RunPodSandboxResponse(pod_sandbox_id=f"pod-{name}")

    def do_CreateContainer(self, request: Any) -> Any:
        name = request.config.metadata.name
        self._reserve(name in self.made, name)
        if request.config.image.image not in self.images:
            raise _refusal('failed to resolve image "image": not found')
        found = cri.Container(id=f"c{name}", pod_sandbox_id=request.pod_sandbox_id, labels=request.config.labels)
        found.metadata.CopyFrom(request.config.metadata)
        self.made[name] = found
        return cri.CreateContainerResponse(container_id=found.id)

    def do_ListContainers(self, request: Any) -> Any:
        wanted = request.filter.label_selector.items()
        return cri.ListContainersResponse(
            containers=[each for each in self.made.values() if wanted <= dict(each.labels).items()]
        )

    def do_ListPodSandbox(self, _: Any) -> Any:
        return cri.ListPodSandboxResponse(items=list(self.pods.values()))

    def do_StopPodSandbox(self, _: Any) -> Any:
        return cri.StopPodSandboxResponse()

    def do_RemovePodSandbox(self, request: Any) -> Any:
        self.pods = {name: pod for name, pod in self.pods.items() if pod.id != request.pod_sandbox_id}
        return cri.RemovePodSandboxResponse()

    def _reserve(self, taken: bool, name: str) -> None:
        if taken:
            raise _refusal(f'failed to reserve name "{name}": name "{name}" is reserved for "x"')


def _refusal(details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(grpc.StatusCode.UNKNOWN, Metadata(), Metadata(), details)


class Bench:
    def __init__(self, folder: Path) -> None:
        self.containerd: Any = Containerd()
        self.sandboxes = Sandboxes(self.containerd, folder / "logs", folder / "shm")
        self.making = Making(self.containerd, self.sandboxes, folder / "logs", folder / "shm")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def spec(phase: str = "main", image: str = "image") -> ContainerSpec:
    labels = {ATTEMPT: "att", PHASE: phase}
    return ContainerSpec(name=name_of("att", phase), image=image, command=("x",), environment={}, labels=labels)


async def test_P9_a_first_container_takes_two_calls(bench: Bench, tmp_path: Path) -> None:
    made = await bench.making.made(spec())
    assert bench.containerd.did == ["RunPodSandbox", "CreateContainer"]
    assert (made.id, made.fresh, made.log) == ("chostler-att", True, str(tmp_path / "logs/att/hostler-att.log"))


async def test_RN_07_the_command_comes_into_the_setups_sandbox(bench: Bench) -> None:
    await bench.making.made(spec("setup"))
    made = await bench.making.made(spec("main"))
    assert (made.fresh, len(bench.containerd.pods), set(bench.containerd.made)) == (
        True,
        1,
        {"hostler-att-setup", "hostler-att"},
    )


async def test_K3_what_an_earlier_agent_has_made_is_found_and_counts_as_not_fresh(bench: Bench) -> None:
    first = await bench.making.made(spec())
    again = await bench.making.made(spec())
    assert (again.id, again.fresh) == (first.id, False), "whoever starts it looks at it first"
    assert (len(bench.containerd.pods), len(bench.containerd.made)) == (1, 1)


async def test_K3_a_sandbox_that_has_died_makes_way(bench: Bench) -> None:
    await bench.making.made(spec("setup"))
    bench.containerd.pods["att"].state = cri.SANDBOX_NOTREADY
    await bench.making.made(spec("main"))
    assert bench.containerd.pods["att"].state == cri.SANDBOX_READY
    assert "RemovePodSandbox" in bench.containerd.did


async def test_K3_a_sandbox_that_a_dead_caller_is_still_making_is_waited_for(bench: Bench) -> None:
    def reserved(request: Any) -> None:
        raise _refusal('name "att" is reserved for "x"')

    bench.containerd.do_RunPodSandbox = reserved
    with pytest.raises(HostlerError) as busy:
        await bench.making.made(spec())
    assert busy.value.code == "runtime_unavailable", "asked again, until it is there or gone"


async def test_RN_01_an_image_that_is_not_there_is_named_and_leaves_no_sandbox(bench: Bench) -> None:
    with pytest.raises(HostlerError) as missing:
        await bench.making.made(spec(image="none"))
    assert (missing.value.code, bench.containerd.pods) == ("image_missing", {})


async def test_another_refusal_is_told_as_it_is(bench: Bench) -> None:
    def refuse(request: Any) -> None:
        raise _refusal("no room")

    bench.containerd.do_CreateContainer = refuse
    with pytest.raises(HostlerError) as refused:
        await bench.making.made(spec())
    assert refused.value.code == "container_failed"
    assert cri_spec.sandbox_name(spec()) in bench.containerd.pods, "removed with the attempt"


async def test_RN_11_a_sandbox_goes_after_all_that_is_found_by_it(bench: Bench, tmp_path: Path) -> None:
    """Killed in between, an agent would leave logs and shared memory that nobody looks for."""
    await bench.making.made(replace(spec(), limits=Limits(shm_bytes=1 << 30)))
    own = [tmp_path / "logs/att", tmp_path / "shm/att"]
    (own[1] / "x").touch()
    bench.containerd.made.clear()
    there: list[bool] = []
    remove = bench.containerd.do_RemovePodSandbox
    bench.containerd.do_RemovePodSandbox = lambda asked: there.extend(map(Path.exists, own)) or remove(asked)
    assert all(map(Path.exists, own))
    await bench.sandboxes.remove_empty("pod-att")
    assert (there, bench.containerd.pods) == ([False, False], {})
