"""SK-12: a check that runs a command profile of the signed catalog, and nothing else."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.host.host import Host
from hostler.agent.steps.contract import Outcome, StepContext
from hostler.agent.steps.health_check import KIND
from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.params.health import HealthCheck
from support.commands import ME, STUBBORN, alive, host_in, python, until
from support.steps import Told, context_of


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with host_in(tmp_path) as made:
        yield made


def step(host: Host, check: dict[str, Any], profile: dict[str, Any], **given: Any) -> StepContext:
    checks = [{"type": "command", "profile": "p", **check}]
    made = context_of(convert({"checks": checks, **given}, HealthCheck), host, Told())
    return replace(made, command=CommandProfile(**{"id": "p", "command": "/usr/bin/true", "run_as": ME, **profile}))


async def passes(host: Host, check: dict[str, Any], profile: dict[str, Any], **given: Any) -> Outcome:
    return await KIND.apply(step(host, check, profile, **given))


async def fails(host: Host, check: dict[str, Any], profile: dict[str, Any], **given: Any) -> HostlerError:
    with pytest.raises(HostlerError) as caught:
        await KIND.apply(step(host, check, profile, **given))
    return caught.value


def runs(code: str, *args: str) -> dict[str, Any]:
    command, *rest = python(code, *args)
    return {"command": command, "base_args": tuple(rest)}


async def test_SK_12_command_passes_when_it_ends_as_its_profile_expects(host: Host) -> None:
    (result,) = (await passes(host, {}, {})).outputs["results"]
    assert (result["type"], result["ok"], result["detail"]) == ("command", True, "/usr/bin/true ended with 0")
    await passes(host, {}, runs("raise SystemExit(3)") | {"expected_exit_codes": (3,)})
    await passes(host, {"stdout_contains": "well"}, runs("print('all is well')"))


async def test_SK_12_command_fails_on_another_end_or_output(host: Host) -> None:
    failed = await fails(host, {}, {"command": "/usr/bin/false"})
    assert (failed.code, "exit code 1" in failed.message) == ("health_red", True)
    assert "output lacks" in (await fails(host, {"stdout_contains": "well"}, runs("print('ill')"))).message
    assert "signal 9" in (await fails(host, {}, runs("import os; os.kill(os.getpid(), 9)"))).message
    assert (await fails(host, {}, {"command": "/usr/bin/absent"})).code == "health_red"


async def test_SK_12_command_is_tried_again_until_it_passes(host: Host, tmp_path: Path) -> None:
    code = f"import os, sys; p = {str(tmp_path / 'seen')!r}; e = os.path.exists(p); open(p, 'w'); sys.exit(not e)"
    await passes(host, {}, runs(code), within_seconds=20, interval_seconds=0.05)


async def test_SK_12_command_that_hangs_fails_in_its_own_time_and_its_tree_is_gone(host: Host, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    failed = await fails(host, {}, runs(STUBBORN + "\ntime.sleep(60)", str(note)), check_timeout_seconds=3)
    assert (failed.code, "in time" in failed.message) == ("health_red", True)
    assert not alive(int(await until(note)))


async def test_SK_12_EX_05_command_takes_arguments_by_its_schema_alone(host: Host) -> None:
    profile = {"command": "/usr/bin/test", "args": ("-d", "${path}"),
               "arg_schema": {"path": {"type": "string", "pattern": "^/[a-z]+$"}}}  # fmt: skip
    await passes(host, {"args": {"path": "/usr"}}, profile)
    for args in ({"path": "-x"}, {"path": "/$(id)"}, {"path": 1}, {}, {"path": "/usr", "more": "x"}):
        for verb in (KIND.plan, KIND.apply):
            with pytest.raises(HostlerError) as caught:
                await verb(step(host, {"args": args}, profile))
            assert caught.value.code != "health_red", "a check that is wrong is no check that failed"


@pytest.mark.parametrize("profile", [{"id": "other"}, {"secret_files": ("key",), "args": ("${key}",)}])
async def test_SK_12_command_is_that_of_the_signed_step_and_takes_no_secret(
    host: Host, profile: dict[str, Any]
) -> None:
    assert (await fails(host, {}, profile)).code == "catalog_mismatch"
    made = step(host, {}, {})
    with pytest.raises(HostlerError) as caught:
        await KIND.apply(replace(made, command=None))
    assert caught.value.code == "catalog_mismatch"
