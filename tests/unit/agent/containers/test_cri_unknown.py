"""K3: what a containerd that was killed at making it does not know any more comes to an end all the same."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.containers.containerd import Containerd
from hostler.agent.containers.cri_keeper import Keeper
from hostler.agent.containers.cri_noted import Noted, Notes
from hostler.agent.containers.runtime import State
from hostler.base.clock import SystemClock
from hostler.base.errors import HostlerError, error
from hostler.cri.v1 import api_pb2 as cri
from hostler.cri.v1 import tasks_pb2 as tasks


async def test_K3_a_container_that_containerd_does_not_know_is_looked_into_by_its_keeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever only asks for its state would ask for ever."""
    runtime = Containerd(tmp_path / "c.sock", tmp_path / "logs", tmp_path)
    said = cri.ContainerStatus(id="c", state=cri.CONTAINER_UNKNOWN, reason="Unknown", log_path="/x")
    (tmp_path / "keeper").mkdir()

    async def look(container: str) -> Any:
        return said, type("Info", (), {"pid": 0, "sandboxID": ""})()

    async def hold(container: str, log: str) -> None:
        Notes(tmp_path / "keeper").add(container, gone=True)

    monkeypatch.setattr(runtime, "_look", look)
    monkeypatch.setattr(runtime._kept, "hold", hold)
    assert (await runtime.status("c")).state is State.LOST
    await runtime.close()


async def test_K3_the_end_of_one_that_cri_takes_for_running_is_waited_for_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """containerd 1.6 misses an end that comes while it starts, and asked to stop the container it waits for ever."""
    runtime = Containerd(tmp_path / "c.sock", tmp_path / "logs", tmp_path)
    said = cri.ContainerStatus(id="c", state=cri.CONTAINER_RUNNING, log_path=str(tmp_path / "c.log"))
    (tmp_path / "keeper").mkdir()
    Notes(tmp_path / "keeper").add("c", ended_at_ms=1, exit_code=3)

    async def look(container: str, **_: Any) -> Any:
        return said, None

    monkeypatch.setattr(runtime, "_look", look)
    async with asyncio.timeout(5):
        await runtime.stop("c", 60.0)
        assert (await runtime.wait("c")).exit_code == 3
    await runtime.close()


async def test_K3_an_end_is_still_learnt_of_where_its_pipes_are_closed_and_containerd_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(tmp_path / "c.sock", tmp_path)
    ended = tasks.WaitResponse(exit_status=3)
    ended.exited_at.FromMilliseconds(5000)
    answers: list[Any] = [error("runtime_unavailable", "away"), error("runtime_unavailable", "away"), ended]

    async def call(*_: Any, **__: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, HostlerError):
            raise answer
        return answer

    monkeypatch.setattr(keeper._client, "call", call)
    await keeper._see_end("c")
    assert Notes(tmp_path).of("c") == Noted(ended_at_ms=5000, exit_code=3)
    await keeper._client.close()


async def test_P9_one_that_cri_is_about_to_hear_of_is_removed_when_it_has_and_not_ended_by_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Containerd(tmp_path / "c.sock", tmp_path / "logs", tmp_path)
    (tmp_path / "keeper").mkdir()
    Notes(tmp_path / "keeper").add("c", ended_at_ms=SystemClock().now_ms())
    states = [cri.CONTAINER_RUNNING, cri.CONTAINER_RUNNING, cri.CONTAINER_EXITED]

    async def call(*_: Any, **__: Any) -> Any:
        return cri.ListContainersResponse(containers=[cri.Container(id="c", state=states.pop(0))])

    monkeypatch.setattr(runtime._client, "call", call)
    assert (await runtime._heard("c"))[1] is False
    assert states == []
    Notes(tmp_path / "keeper").add("c", ended_at_ms=1)
    states = [cri.CONTAINER_RUNNING]
    assert (await runtime._heard("c"))[1] is True, "containerd has missed it"
    await runtime.close()
