"""R2, RN-11: what an ended attempt has left on its node goes, whatever it is."""

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.containers.spec import ATTEMPT, NODE, ContainerSpec
from hostler.base.errors import error
from support.fake_runtime import FakeRuntime
from support.nested import nested
from support.workloads import Node, stop_agent, until


async def test_R2_no_scratch_is_too_deep_to_be_cleared_away(tmp_path: Path) -> None:
    """A task may make a tree that is deeper than its agent may have files open, or calls nested."""
    home = Node(tmp_path, FakeRuntime("process"))
    async with home.agent():
        scratch = home.workloads.scratch("att_1")
        with nested(scratch / "deep", 1500):
            assert await home.workloads.clear("att_1")
            assert not scratch.exists()


async def test_RN_11_a_scratch_that_cannot_be_removed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Node(tmp_path, FakeRuntime("process"))
    async with home.agent():
        home.workloads.scratch("att_1")
        home.workloads.ports.take("att_1", ["a"])
        with monkeypatch.context() as broken:
            broken.setattr(os, "rmdir", _refuse)
            assert not await home.workloads.clear("att_1")
        assert home.workloads.ports.held("att_1") == {}, "what runs nowhere holds none"
        assert await home.workloads.clear("att_1")


@pytest.mark.parametrize("heard_s", [0.0, 120.0])
async def test_RN_11_what_a_killed_agent_has_not_cleared_the_next_one_clears(tmp_path: Path, heard_s: float) -> None:
    """Its containers are gone, by which it would be found; unknown ones wait until the control plane was there."""
    home = Node(tmp_path, FakeRuntime("process"))
    async with home.agent():
        left = home.workloads.scratch("att_gone")
    async with home.agent() as node:
        running = await home.start(node)
        await until(lambda: home.runtime.containers)
        home.heard.there_s = heard_s
        assert await home.workloads.sweep()
        assert left.exists() == (not heard_s)
        uid = home.runtime.only.spec.labels[ATTEMPT]
        assert [path.name for path in left.parent.iterdir() if path != left] == [uid], "it is open"
        home.runtime.only.end()
        await running


async def test_RN_11_one_container_that_cannot_be_removed_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    async with home.agent():
        home.heard.there_s = 120.0
        runtime.images.add("i")
        for name in ("stuck", "left"):
            labels = {NODE: home.workloads.node_id, ATTEMPT: f"att_{name}"}
            made = ContainerSpec(name=name, image="i", command=("x",), environment={}, labels=labels)
            await runtime.create(made)
        stuck, remove = runtime.named("stuck").id, runtime.remove

        async def refuse(container: str) -> None:
            if container == stuck:
                raise error("container_failed", "containerd has missed its end")
            await remove(container)

        monkeypatch.setattr(runtime, "remove", refuse)
        assert not await home.workloads.sweep()
        assert [one.spec.name for one in runtime.containers.values()] == ["stuck"]


async def test_K4_a_full_disk_is_no_fault_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Node(tmp_path, FakeRuntime("process"))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    async with home.agent() as node:
        monkeypatch.setattr(Path, "chmod", full)
        await (await home.start(node))
        assert (await node.task_reports())[-1].error_code == "disk_full"


def _refuse(*_: Any, **__: Any) -> None:
    raise OSError(errno.EIO, "the disk is sick")


@pytest.mark.parametrize("restarted", [False, True])
async def test_TE_21_what_runs_in_a_runtime_whose_socket_is_gone_keeps_its_ports(
    tmp_path: Path, *, restarted: bool
) -> None:
    """An engine that is restarted takes its socket away for a while, and leaves its containers running."""
    there = ["process"]
    home = Node(tmp_path, runtime := FakeRuntime("process"), present=lambda: tuple(there))
    async with home.agent() as node:
        running = await home.start(node, ports=["a"])
        await until(lambda: runtime.containers and runtime.only.starts)
        if restarted:
            await stop_agent(running)
    async with home.agent() if restarted else contextlib.nullcontext():
        uid = runtime.only.spec.labels[ATTEMPT]
        there.clear()
        runtime.away = True
        assert not await home.workloads.clear(uid)
        assert home.workloads.ports.held(uid)
        there.append("process")
        runtime.away = False
        assert await home.workloads.clear(uid)
        assert not runtime.containers
        assert not home.workloads.ports.held(uid)


async def test_TE_21_a_task_that_is_taken_up_while_its_runtime_is_away_is_not_cleared(tmp_path: Path) -> None:
    there = ["process"]
    home = Node(tmp_path, runtime := FakeRuntime("process"), present=lambda: tuple(there))
    async with home.agent() as node:
        running = await home.start(node, ports=["a"])
        await until(lambda: runtime.containers and runtime.only.starts)
        await stop_agent(running)
    there.clear()
    runtime.away = True
    async with home.agent() as node:
        uid = runtime.only.spec.labels[ATTEMPT]
        asked = len(runtime.calls)
        running = await home.resume(node)
        await until(lambda: len(runtime.calls) > asked)
        assert not await home.workloads.clear(uid)
        await stop_agent(running)
