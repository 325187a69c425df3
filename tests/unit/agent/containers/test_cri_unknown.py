"""K3: what a containerd that was killed at making it does not know any more comes to an end all the same."""

from pathlib import Path
from typing import Any

import pytest

from hostler.agent.containers.containerd import Containerd
from hostler.agent.containers.cri_noted import Notes
from hostler.agent.containers.runtime import State
from hostler.cri.v1 import api_pb2 as cri


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
