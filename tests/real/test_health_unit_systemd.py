"""SK-12: unit checks against a systemd that really booted, through the agent's own D-Bus client."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import need, need_root
from hostler.agent.host.host import Host
from hostler.agent.steps.contract import Outcome
from hostler.agent.steps.health_check import KIND
from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.params.health import HealthCheck
from support.machines import Machine, machine
from support.steps import Told, context_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.xdist_group("machines")]

UNITS = "/etc/systemd/system"
SERVING = "[Service]\nExecStart=/usr/bin/sleep infinity\n"
FAILING = "[Service]\nExecStart=/bin/false\n"
SLOW = "[Service]\nExecStartPre=/bin/sh -c 'until [ -e /go ]; do sleep 0.1; done'\nExecStart=/usr/bin/sleep infinity\n"


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    need("debootstrap", "systemd-nspawn", "nsenter")
    need_root()
    files = {
        f"{UNITS}/multi-user.target.d/wants.conf": "[Unit]\nWants=serving.service failing.service\n",
        f"{UNITS}/serving.service": SERVING,
        f"{UNITS}/failing.service": FAILING,
        f"{UNITS}/slow.service": SLOW,
        f"{UNITS}/idle.service": SERVING,
    }
    with machine(tmp_path_factory.mktemp("machine"), "hostler-unit", files) as found:
        yield found


async def run(booted: Machine, *checks: dict[str, Any], **given: Any) -> Outcome:
    params = convert({"checks": checks, **given}, HealthCheck)
    return await KIND.apply(context_of(params, Host(root=booted.root), Told()))


async def test_SK_12_unit_passes_for_a_service_that_runs(booted: Machine) -> None:
    outcome = await run(booted, {"type": "unit", "unit": "serving.service"})
    (result,) = outcome.outputs["results"]
    assert (result["name"], result["detail"]) == ("unit serving.service", "active (running)")


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ("failing.service", "failed (failed)"),
        ("idle.service", "inactive (dead)"),
        ("unheard-of.service", "not-found"),
        ("no unit name", "systemd refuses"),
    ],
)
async def test_SK_12_unit_fails_for_one_that_does_not(booted: Machine, unit: str, said: str) -> None:
    with pytest.raises(HostlerError) as caught:
        await run(booted, {"type": "unit", "unit": unit})
    assert caught.value.code == "health_red"
    assert said in caught.value.message


async def test_SK_12_unit_may_be_expected_in_another_state(booted: Machine) -> None:
    await run(booted, {"type": "unit", "unit": "failing.service", "active_state": "failed"})


async def test_SK_12_unit_is_waited_for_while_it_starts(booted: Machine) -> None:
    assert booted.run("systemctl", "start", "--no-block", "slow.service").returncode == 0
    check = {"type": "unit", "unit": "slow.service"}
    with pytest.raises(HostlerError):
        await run(booted, check)
    (booted.root / "go").touch()
    await run(booted, check, within_seconds=20, interval_seconds=0.1)


async def test_SK_12_unit_sees_a_service_that_was_killed(booted: Machine) -> None:
    check = {"type": "unit", "unit": "serving.service"}
    booted.run("systemctl", "kill", "-s", "KILL", "serving.service")
    await run(booted, check | {"active_state": "failed"}, within_seconds=5, interval_seconds=0.05)
    with pytest.raises(HostlerError):
        await run(booted, check)
    booted.run("systemctl", "reset-failed", "serving.service")
    booted.run("systemctl", "start", "serving.service")
    await run(booted, check)


async def test_SK_12_the_other_checks_look_into_the_machine_not_at_its_host(booted: Machine) -> None:
    hostname = "/etc/hostname"
    assert (booted.root / hostname.lstrip("/")).read_text() == "hostler-unit\n"
    await run(
        booted,
        {"type": "process", "executable": "systemd"},
        {"type": "process", "executable": "dbus-daemon"},
        {"type": "mount", "path": "/proc", "fs_type": "proc"},
        {"type": "mount", "path": "/", "fs_type": "overlay"},
        {"type": "file", "path": hostname, "min_bytes": 13},
        {"type": "disk", "path": "/", "min_free_bytes": 1},
    )
    with pytest.raises(HostlerError):
        await run(booted, {"type": "port", "port": 22})


async def test_SK_12_unit_fails_clearly_on_a_tree_without_a_running_systemd(tmp_path: Path) -> None:
    with pytest.raises(HostlerError) as caught:
        await run_at(tmp_path, {"type": "unit", "unit": "ssh.service"})
    assert "no systemd answers at" in caught.value.message


async def run_at(root: Path, *checks: dict[str, Any]) -> Outcome:
    return await KIND.apply(context_of(convert({"checks": checks}, HealthCheck), Host(root=root), Told()))
