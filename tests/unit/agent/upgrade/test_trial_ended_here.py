"""LC-13, U3: the step that ordered a trial hears of its end, also where nobody can give a verdict any more."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hostler.agent.host.host import Host
from hostler.agent.steps.agent_upgrade_activate import KIND
from hostler.agent.steps.contract import Outcome
from hostler.agent.upgrade import order, slots
from hostler.agent.upgrade.installed import TRIAL_UNIT
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
def root(tmp_path: Path) -> Path:
    boot_id = tmp_path / "root/proc/sys/kernel/random/boot_id"
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text("boot\n")
    return tmp_path / "root"


@pytest.fixture
def systemd(root: Path) -> Iterator[FakeSystemd]:
    with FakeSystemd(root) as made:
        yield made


@asynccontextmanager
async def ordering(places: Places, root: Path) -> AsyncIterator[asyncio.Task[Outcome]]:
    """The step, once its trial is on record."""
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
    yield step
    await host.close()


@pytest.mark.parametrize(
    "ends", [lambda path: path.unlink(), lambda path: path.write_bytes(b"\0" * 40)], ids=["by dpkg", "by rot"]
)
@pytest.mark.usefixtures("systemd")
async def test_U3_a_trial_without_a_verdict_fails_its_task(
    places: Places, root: Path, ends: Callable[[Path], None]
) -> None:
    async with ordering(places, root) as step:
        ends(places.trial)
        with pytest.raises(HostlerError) as caught:
            async with asyncio.timeout(5):
                await step
        assert caught.value.code == "upgrade_rolled_back"


async def test_U1_a_trial_has_a_watcher_also_where_the_one_of_the_trial_before_was_about_to_end(
    places: Places, root: Path, systemd: FakeSystemd
) -> None:
    """systemd took the order for done, as the unit was active; then that process ended, with nothing left to do."""
    async with ordering(places, root) as step:
        async with asyncio.timeout(5):
            while TRIAL_UNIT not in systemd.active:
                await asyncio.sleep(0.02)
            systemd.active.discard(TRIAL_UNIT)
            while TRIAL_UNIT not in systemd.active:
                await asyncio.sleep(0.02)
        step.cancel()
