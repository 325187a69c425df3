"""LC-13, U3: the step that ordered a trial hears of its end, also where nobody can give a verdict any more."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hostler.agent.host.host import Host
from hostler.agent.steps.agent_upgrade_activate import KIND
from hostler.agent.upgrade import order, slots
from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.base.clock import SystemClock
from hostler.base.errors import HostlerError
from hostler.catalog.params.upgrade import Activate
from support.fake_systemd import FakeSystemd
from support.releases import House
from support.slots import installed_in, make_slot, offer, places_in, release
from support.steps import Told, context_of

NAME = "1.1.0-c0ffee00"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setattr(order, "__version__", "1.0.0")
    made = places_in(tmp_path)
    make_slot(made, NAME, "1.1.0")
    slots.note_release(made, NAME, release("1.1.0"))
    return made


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    boot_id = tmp_path / "root/proc/sys/kernel/random/boot_id"
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text("boot\n")
    with FakeSystemd(tmp_path / "root"):
        yield tmp_path / "root"


@pytest.mark.parametrize(
    "ends", [lambda path: path.unlink(), lambda path: path.write_bytes(b"\0" * 40)], ids=["by dpkg", "by rot"]
)
async def test_U3_a_trial_without_a_verdict_fails_its_task(
    places: Places, root: Path, ends: Callable[[Path], None]
) -> None:
    house, told = House(), Told()
    house.releases = (release("1.1.0"),)
    offer(places, house, *house.releases, now_ms=SystemClock().now_ms())
    host = Host(root=root)
    context = context_of(
        Activate(version="1.1.0"), host, told, installed=installed_in(places, PACKAGED, house), attempt_uid="uid"
    )
    step = asyncio.create_task(KIND.apply(context))
    async with asyncio.timeout(10):
        while not told.saved:
            await asyncio.sleep(0.02)
    assert not step.done()
    ends(places.trial)
    with pytest.raises(HostlerError) as caught:
        async with asyncio.timeout(5):
            await step
    assert caught.value.code == "upgrade_rolled_back"
    await host.close()
