"""K3: what a killed containerd has left in the way of a container is no fault of the container."""

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
