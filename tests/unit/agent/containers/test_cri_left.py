"""K3: what a killed containerd has left in the way of a container is no fault of the container."""

from types import SimpleNamespace
from typing import Any

import pytest

from hostler.agent.containers import cri_left
from hostler.base.errors import HostlerError, error


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cri_left, "_PAUSE_S", 0.0)


class Making:
    def __init__(self, *errors: HostlerError) -> None:
        self.errors, self.calls = list(errors), 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "made"


def refused(message: str) -> HostlerError:
    return error("container_failed", message)


@pytest.mark.parametrize(
    "err",
    [
        refused("failed to rename: rename /snapshots/new-1 /snapshots/76: file exists"),
        refused("failed to create containerd container: container a: already exists"),
        refused("sandbox container b is not running"),
        error("container_missing", "failed to find sandbox id b: not found"),
    ],
)
async def test_K3_what_stood_in_the_way_is_gone_at_the_next_try(err: HostlerError) -> None:
    making = Making(err, err)
    assert await cri_left.past(making) == "made"
    assert making.calls == 3


@pytest.mark.parametrize("code", ["container_failed", "image_missing", "runtime_unavailable"])
async def test_any_other_refusal_stands_at_once(code: str) -> None:
    making = Making(error(code, "no such device"))
    with pytest.raises(HostlerError) as refusal:
        await cri_left.past(making)
    assert (refusal.value.code, making.calls) == (code, 1)


async def test_K3_what_stays_in_the_way_is_told() -> None:
    making = Making(*[refused("file exists")] * 9)
    with pytest.raises(HostlerError):
        await cri_left.past(making)
    assert making.calls == 3


class Containerd:
    """Calls by name, each with the errors that it answers before it does what it is asked."""

    def __init__(self, **errors: list[HostlerError]) -> None:
        self.errors, self.calls = errors, list[str]()
        self.runtime = SimpleNamespace(RemoveContainer="remove")
        self.tasks = SimpleNamespace(Kill="kill", Delete="delete")

    async def call(self, method: str, *_: Any, **__: Any) -> None:
        self.calls.append(method)
        if waiting := self.errors.get(method):
            raise waiting.pop(0)

    native = call


async def test_K3_one_whose_end_cri_has_missed_is_ended_before_the_call_that_would_wait_for_it() -> None:
    client: Any = Containerd(remove=[refused("container is still running, to stop first")])
    with pytest.raises(HostlerError) as kept:
        await cri_left.remove(client, "c", unheard=True)
    assert client.calls == ["kill", "delete", "remove"]
    assert (kept.value.code, kept.value.hint) == ("container_failed", "restart containerd: what runs in it goes on")


async def test_K3_a_process_that_was_left_is_ended_and_its_container_removed_then() -> None:
    client: Any = Containerd(remove=[refused("cannot delete running task c")])
    await cri_left.remove(client, "c", unheard=False)
    assert client.calls == ["remove", "kill", "delete", "remove"]


async def test_any_other_refusal_to_remove_stands() -> None:
    client: Any = Containerd(remove=[refused("container is still running, to stop first")])
    with pytest.raises(HostlerError):
        await cri_left.remove(client, "c", unheard=False)
    assert client.calls == ["remove"]
