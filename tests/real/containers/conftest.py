"""RN-01: one suite for every container runtime, each the real thing."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import need, need_root
from hostler.agent.containers.docker import Docker
from hostler.agent.containers.process import Process
from support import containerd as support_containerd
from support import dockerd as support_dockerd
from support.runtimes import NODE_ID, Bed, Gate, runtime_on, shared_directory


@pytest.fixture(scope="module")
def containerd_daemon() -> Iterator[support_containerd.Containerd]:
    with support_containerd.containerd() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def docker_daemon() -> Iterator[support_dockerd.Dockerd]:
    with support_dockerd.dockerd() as daemon:
        yield daemon


async def _containerd(request: pytest.FixtureRequest, tmp_path: Path) -> Bed:
    daemon = request.getfixturevalue("containerd_daemon")
    return Bed(runtime_on(daemon), support_containerd.IMAGE, daemon.restart)


async def _process(request: pytest.FixtureRequest, tmp_path: Path) -> Bed:
    need("busybox")
    need_root()
    return Bed(Process(tmp_path / "processes"), "")


async def _docker(request: pytest.FixtureRequest, tmp_path: Path) -> Bed:
    daemon = request.getfixturevalue("docker_daemon")
    return Bed(Docker(daemon.socket, NODE_ID), support_dockerd.IMAGE, daemon.restart)


BEDS: dict[str, Any] = {"containerd": _containerd, "process": _process, "docker": _docker}


@pytest.fixture
def gate() -> Iterator[Gate]:
    with shared_directory() as made:
        yield Gate(made)


@pytest.fixture(params=BEDS)
async def bed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bed]:
    made = await BEDS[request.param](request, tmp_path)
    yield made
    await made.clear()
