"""SK-08, SK-05: a systemd that really booted, told over D-Bus; and a service that a package brought along."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from conftest import need, need_root
from hostler.agent.host.host import Host
from hostler.agent.steps.contract import Outcome, StepContext, Truth
from hostler.agent.steps.package_install import KIND as INSTALL
from hostler.agent.steps.service_control import KIND
from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.params.package import Install
from hostler.catalog.params.service import Control
from support.archive import Archive
from support.machines import Machine, machine
from support.steps import Told, context_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.xdist_group("machines")]

UNITS = "/etc/systemd/system"
SERVING = "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
BROKEN = "[Service]\nExecStart=/usr/bin/sh -c 'echo it is broken; exit 3'\n"
REFUSING = "[Service]\nType=oneshot\nExecStart=/usr/bin/false\n"
ONCE = "[Service]\nType=oneshot\nExecStart=/usr/bin/true\n"
NEVER = "[Service]\nType=notify\nTimeoutStartSec=300\nExecStart=/usr/bin/sleep infinity\n"
SLOW = "[Service]\nExecStartPre=/usr/bin/sleep 1\nExecStart=/usr/bin/sleep infinity\n"


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    need("debootstrap", "systemd-nspawn", "nsenter", "apt-get", "dpkg-deb", "gpg")
    need_root()
    units = {"serving": SERVING, "broken": BROKEN, "refusing": REFUSING, "once": ONCE, "never": NEVER, "slow": SLOW}
    files = {f"{UNITS}/{name}.service": text for name, text in units.items()}
    with machine(tmp_path_factory.mktemp("machine"), "hostler-service", files) as found:
        yield found


@dataclass
class Place:
    machine: Machine
    host: Host

    def step(self, unit: str, action: str, told: Told | None = None, **more: Any) -> StepContext:
        params = convert({"unit": f"{unit}.service", "action": action}, Control)
        return context_of(params, self.host, told or Told(), **more)

    async def apply(self, unit: str, action: str, **more: Any) -> Outcome:
        return await KIND.apply(self.step(unit, action, **more))

    async def fails(self, unit: str, action: str, **more: Any) -> HostlerError:
        with pytest.raises(HostlerError) as caught:
            await KIND.apply(self.step(unit, action, **more))
        return caught.value

    def says(self, *words: str) -> str:
        return self.machine.run("systemctl", *words).stdout.strip()


@pytest.fixture
async def place(booted: Machine, tmp_path: Path) -> AsyncIterator[Place]:
    host = Host(root=booted.root, spool=tmp_path / "spool")
    yield Place(booted, host)
    await host.close()
    booted.run("systemctl", "stop", "serving", "never", "slow")
    booted.run("systemctl", "reset-failed")


async def test_SK_08_a_unit_is_started_and_stopped_once_and_the_states_are_told(place: Place) -> None:
    started = await place.apply("serving", "start")
    assert (started.changed, started.outputs["before"]["active"]) == (True, "inactive")
    assert started.outputs["after"] == {"active": "active", "sub": "running", "enabled": "disabled"}
    assert place.says("is-active", "serving") == "active"
    assert not (await place.apply("serving", "start")).changed
    stopped = await place.apply("serving", "stop")
    assert (stopped.changed, stopped.outputs["after"]["active"]) == (True, "inactive")
    assert place.says("is-active", "serving") == "inactive"
    assert not (await place.apply("serving", "stop")).changed


async def test_SK_08_a_start_waits_until_the_unit_is_there(place: Place) -> None:
    await place.apply("slow", "start")
    assert place.says("is-active", "slow") == "active"


async def test_SK_08_enable_and_disable_say_what_happens_at_boot_and_touch_nothing_that_runs(place: Place) -> None:
    assert (await place.apply("serving", "enable")).outputs["after"]["enabled"] == "enabled"
    assert (place.says("is-enabled", "serving"), place.says("is-active", "serving")) == ("enabled", "inactive")
    assert not (await place.apply("serving", "enable")).changed
    assert (await place.apply("serving", "disable")).outputs["after"]["enabled"] == "disabled"
    assert place.says("is-enabled", "serving") == "disabled"
    assert (await place.fails("once", "enable")).code == "service_failed"


async def test_SK_08_K1_a_restart_that_was_cut_off_is_known_by_the_run_it_left(place: Place) -> None:
    await place.apply("serving", "start")
    pid = place.says("show", "-P", "MainPID", "serving")
    told = Told()
    outcome = await place.apply("serving", "restart", told=told)
    assert outcome.changed
    assert place.says("show", "-P", "MainPID", "serving") != pid
    assert (await KIND.probe(place.step("serving", "restart", checkpoint=told.checkpoint))).truth is Truth.DONE
    now = {"invocation": place.says("show", "-P", "InvocationID", "serving")}
    assert (await KIND.probe(place.step("serving", "restart", checkpoint=now))).truth is Truth.NOT_DONE
    assert (await KIND.probe(place.step("serving", "restart"))).truth is Truth.NOT_DONE


async def test_SK_08_K1_the_unit_s_state_tells_what_was_done(place: Place) -> None:
    truths = {"start": Truth.NOT_DONE, "stop": Truth.DONE, "enable": Truth.NOT_DONE, "disable": Truth.DONE}
    assert {action: (await KIND.probe(place.step("serving", action))).truth for action in truths} == truths


async def test_SK_08_a_service_that_fails_at_once_fails_the_step_with_its_own_words(place: Place) -> None:
    told = Told()
    failed = await place.fails("broken", "start", told=told)
    assert failed.code == "service_failed"
    assert "exit-code" in failed.message
    assert "exit status 3" in failed.message
    assert "it is broken" in told.lines
    assert (await place.fails("refusing", "start")).code == "service_failed"


async def test_SK_08_a_service_that_runs_once_is_done_when_it_has_ended_well(place: Place) -> None:
    assert (await place.apply("once", "start")).outputs["after"]["active"] == "inactive"


async def test_SK_08_a_unit_that_does_not_come_up_is_a_timeout(place: Place) -> None:
    assert (await place.fails("never", "start", deadline_s=1.0)).code == "timeout"


async def test_SK_08_a_cancel_ends_the_wait(place: Place) -> None:
    import asyncio

    cancelled = asyncio.Event()
    asyncio.get_running_loop().call_later(0.5, cancelled.set)
    assert (await place.fails("never", "start", cancelled=cancelled)).code == "canceled"
    assert (await place.fails("serving", "start", cancelled=cancelled)).code == "canceled"


async def test_SK_08_a_unit_that_is_not_there_is_not_found(place: Place) -> None:
    assert (await place.fails("unheard-of", "start")).code == "not_found"


async def test_SK_08_the_plan_says_the_state_and_changes_nothing(place: Place) -> None:
    (change,) = (await KIND.plan(place.step("serving", "start"))).changes
    assert (change.action, change.target, change.detail) == ("start", "serving.service", "now inactive, dead")
    assert place.says("is-active", "serving") == "inactive"
    (kept,) = (await KIND.plan(place.step("serving", "stop"))).changes
    assert kept.action == "keep"


async def test_SK_05_SK_08_a_package_brings_a_service_which_is_started(place: Place, tmp_path: Path) -> None:
    with Archive(tmp_path / "archive") as archive:
        unit = {"/lib/systemd/system/brought.service": SERVING}
        archive.add("brought", "1.0", files=unit, postinst="grep -q hostler-service /etc/hostname; echo set up")
        archive.publish()
        given = {"packages": [{"name": "brought", "version": "1.0"}], "repositories": [archive.repository()]}
        told = Told()
        context = context_of(convert(given, Install), place.host, told)
        outcome = await INSTALL.apply(replace(context, allowed_packages=("brought",)))
        assert outcome.outputs["installed"] == ["brought"]
        assert "set up" in told.lines, "its script ran, in the machine and not in this one"
        assert place.machine.run("dpkg-query", "-W", "brought").stdout == "brought\t1.0\n"
        assert not (await INSTALL.apply(replace(context, allowed_packages=("brought",)))).changed
    await place.apply("brought", "enable")
    await place.apply("brought", "start")
    assert place.says("is-active", "brought") == "active"
