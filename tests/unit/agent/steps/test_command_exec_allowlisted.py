"""SK-09: a profile of the catalog runs as it says and no other way (EX-03 to EX-08, J3, K2)."""

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.host.host import Host
from hostler.agent.secrets.secret import Secret
from hostler.agent.secrets.table import SecretTable, StepSecrets
from hostler.agent.steps.command_exec_allowlisted import KIND
from hostler.agent.steps.contract import StepContext, Truth
from hostler.base.clock import Deadline
from hostler.base.errors import HostlerError
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.effects import Effects
from hostler.catalog.params.command import ExecAllowlisted
from support.commands import ME, host_in, python
from support.steps import Told, context_of


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with host_in(tmp_path) as made:
        yield made


def context(host: Host, told: Told, values: dict[str, Any] | None = None, /, **profile: Any) -> StepContext:
    given = {"id": "p", "command": "/usr/bin/true", "run_as": ME, **profile}
    made = context_of(ExecAllowlisted(profile="p", args=values or {}), host, told)
    return replace(made, command=CommandProfile(**given))


def runs(code: str) -> dict[str, Any]:
    command, *rest = python(code)
    return {"command": command, "base_args": tuple(rest)}


async def failure(step: StepContext) -> str:
    with pytest.raises(HostlerError) as failed:
        await KIND.apply(step)
    return failed.value.code


async def test_the_outcome_holds_status_output_and_the_argv_digest(host: Host) -> None:
    told = Told()
    step = context(host, told, {"text": "hi"}, command="/usr/bin/echo", base_args=("-n",), args=("${text}",),
                   arg_schema={"text": {"type": "string"}})  # fmt: skip
    outcome = await KIND.apply(step)
    digest = hashlib.sha256(b'["/usr/bin/echo","-n","hi"]').hexdigest()
    assert outcome.outputs == {"exit_status": 0, "argv_digest": digest, "stdout": "hi", "stderr": ""}
    assert (outcome.exit_status, outcome.argv_digest) == (0, digest)
    assert told.lines == ["hi"]


async def test_the_plan_shows_argv_user_and_names_of_variables_but_no_values(host: Host) -> None:
    step = context(host, Told(), base_args=("a b", 'q"'), env={"FIXED": "value"}, env_passthrough=("HOME",))
    (change,) = (await KIND.plan(step)).changes
    assert (change.action, change.target) == ("run", '"/usr/bin/true" "a b" "q\\""')
    assert ME in change.detail
    assert "FIXED, HOME" in change.detail
    assert "value" not in change.detail


async def test_a_plan_runs_nothing(host: Host, tmp_path: Path) -> None:
    step = context(host, Told(), command="/usr/bin/touch", base_args=(str(tmp_path / "x"),))
    assert (await KIND.plan(step)).digest() == (await KIND.plan(step)).digest()
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("value", ["$(id)\n", "a\0b", "-rf", "x" * 1_000_000, "pаypal", 1.5, None, ["a"]])
async def test_J3_an_argument_outside_its_schema_starts_nothing(host: Host, tmp_path: Path, value: Any) -> None:
    """EX-05."""
    step = context(host, Told(), {"text": value}, command="/usr/bin/touch", args=("${text}",),
                   arg_schema={"text": {"type": "string", "maxLength": 64}},
                   working_directory=str(tmp_path))  # fmt: skip
    assert await failure(step) == "input_schema"
    assert not (tmp_path / "spool").exists()


async def test_EX_08_an_exit_code_outside_the_expected_ones_fails(host: Host) -> None:
    assert await failure(context(host, Told(), **runs("raise SystemExit(3)"))) == "exit_status"
    step = context(host, Told(), **runs("raise SystemExit(3)"), expected_exit_codes=(0, 3))
    assert (await KIND.apply(step)).exit_status == 3


async def test_EX_08_a_signal_is_never_an_expected_exit(host: Host) -> None:
    step = context(host, Told(), **runs("import os; os.kill(os.getpid(), 9)"), expected_exit_codes=(-1, -9, 9))
    assert await failure(step) == "killed_by_signal"


async def test_EX_08_the_profile_s_timeout_stands_below_the_step_s(host: Host) -> None:
    step = context(host, Told(), command="/usr/bin/sleep", base_args=("60",), timeout_seconds=0)
    assert await failure(step) == "timeout"


async def test_EX_08_retries_are_for_exit_codes_and_are_counted(host: Host, tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'tries')!r}, 'a').write('x'); raise SystemExit(1)"
    told = Told()
    assert await failure(context(host, told, **runs(code), retries=2)) == "exit_status"
    assert (tmp_path / "tries").read_text() == "xxx"
    assert [line for line in told.lines if "tries left" in line] == [
        f"{python('')[0]} ended with exit code 1; {left} tries left" for left in (2, 1)
    ]


async def test_EX_08_a_missing_command_is_not_tried_again(host: Host) -> None:
    told = Told()
    assert await failure(context(host, told, command="/absent", retries=3)) == "command_not_found"
    assert told.lines == []


async def test_EX_08_without_capture_the_outcome_holds_no_output(host: Host) -> None:
    step = context(host, Told(), command="/usr/bin/echo", capture_stdout=False, capture_stderr=False)
    assert set((await KIND.apply(step)).outputs) == {"exit_status", "argv_digest"}


async def test_OP_17_a_cancelled_step_ends_as_canceled(host: Host) -> None:
    told, event = Told(), asyncio.Event()
    step = context(host, told, **runs("import time; print('up', flush=True); time.sleep(60)"))
    step = replace(step, cancelled=event, log=lambda _stream, _line: event.set())
    assert await failure(step) == "canceled"


async def test_a_profile_that_is_not_in_the_catalog_runs_nothing(host: Host) -> None:
    step = context(host, Told())
    assert await failure(replace(step, command=None)) == "catalog_mismatch"
    assert await failure(replace(step, params=ExecAllowlisted(profile="other"))) == "catalog_mismatch"


async def test_J4_a_replaced_binary_does_not_run(host: Host, tmp_path: Path) -> None:
    tool = Path(shutil.copy("/usr/bin/true", tmp_path / "tool"))
    sha256 = hashlib.sha256(tool.read_bytes()).hexdigest()
    step = context(host, Told(), command=str(tool), sha256=sha256)
    assert (await KIND.apply(step)).exit_status == 0
    shutil.copy("/usr/bin/false", tool)
    assert await failure(step) == "command_changed"


async def test_K1_before_it_ran_a_step_is_not_done(host: Host) -> None:
    assert (await KIND.probe(context(host, Told()))).truth == Truth.NOT_DONE


async def test_K2_after_it_ran_a_step_is_done_with_its_status(host: Host) -> None:
    step = context(host, Told(), command="/usr/bin/true")
    await KIND.apply(step)
    found = await KIND.probe(step)
    assert found.truth == Truth.DONE
    assert found.outcome is not None
    assert found.outcome.exit_status == 0
    assert "stdout" not in found.outcome.outputs  # lost, and not to be mistaken for empty


async def test_K2_a_failure_that_was_not_reported_is_known(host: Host) -> None:
    for profile, code in (
        (runs("raise SystemExit(3)"), "exit_status"),
        (runs("import os; os.kill(os.getpid(), 15)"), "killed_by_signal"),
        ({"command": "/absent"}, "command_not_found"),
        ({"command": "/usr/bin/sleep", "base_args": ("9",)}, "timeout"),
    ):
        step = replace(context(host, Told(), **profile), task_id=f"tsk_{code}")
        if code == "timeout":
            step = replace(step, deadline=Deadline.after(1.0, host.clock))
        assert await failure(step) == code
        found = await KIND.probe(step)
        assert (found.truth, found.error_code, found.outcome) == (Truth.DONE, code, None)


@pytest.mark.parametrize(
    ("on_interrupt", "line", "truth"),
    [
        ("fail", "started {}\n", Truth.AMBIGUOUS),
        ("rerun", "started {}\n", Truth.NOT_DONE),
        ("fail", 'started {}\nkilled {"reason": "agent_gone"}\n', Truth.AMBIGUOUS),
        ("rerun", 'started {}\nkilled {"reason": "agent_gone"}\n', Truth.NOT_DONE),
        ("rerun", 'started {}\nexited {"status": 0, "signal": 0}\n', Truth.DONE),
        ("fail", 'started {}\nkilled {"reason": "canceled"}\n', Truth.DONE),
    ],
)
async def test_K1_an_interrupted_run_is_judged_by_its_profile(
    host: Host, tmp_path: Path, on_interrupt: str, line: str, truth: Truth
) -> None:
    step = context(host, Told(), on_interrupt=on_interrupt)
    await host.execute.recall(step.task_id, step.step_index)
    (tmp_path / "spool" / "tsk_1.0.run").write_text(line)
    assert (await KIND.probe(step)).truth == truth


def holding(host: Host, *names: str, one_time: bool = False) -> tuple[SecretTable, dict[str, str]]:
    """A table of secrets for the step of `context`, and the handles by name."""
    table = SecretTable(Deadline.after(60, host.clock), host.clock)
    made = {name: Secret.take(bytearray(f"the value of {name}".encode())) for name in names}
    steps = frozenset({"step"})
    return table, {n: table.put(s, steps=steps, lifetime_s=30, one_time=one_time) for n, s in made.items()}


def with_secrets(host: Host, told: Told, names: tuple[str, ...], /, **profile: Any) -> StepContext:
    table, handles = holding(host, *names)
    made = context(host, told, **profile)
    params = ExecAllowlisted(profile="p", secrets=handles)
    return replace(made, params=params, secrets=StepSecrets(table, "step"))


async def test_CR_04_a_secret_is_an_argument_only_by_the_name_of_its_descriptor(host: Host) -> None:
    told = Told()
    step = with_secrets(
        host, told, ("one", "two"), command="/usr/bin/sha256sum", args=("${two}", "${one}"), secret_files=("one", "two")
    )
    outcome = await KIND.apply(step)
    two, one = (hashlib.sha256(f"the value of {name}".encode()).hexdigest() for name in ("two", "one"))
    assert outcome.outputs["stdout"] == f"{two}  /proc/self/fd/4\n{one}  /proc/self/fd/3\n"
    (change,) = (await KIND.plan(step)).changes
    assert change.target == '"/usr/bin/sha256sum" "/proc/self/fd/4" "/proc/self/fd/3"'
    assert "given the secrets one, two" in change.detail
    step.secrets.table.close()


async def test_CR_09_what_the_command_prints_of_a_secret_is_scrubbed(host: Host) -> None:
    told = Told()
    step = with_secrets(
        host, told, ("TOKEN",), **runs("import os; print('got', os.environ['TOKEN'])"), secret_env=("TOKEN",)
    )
    outcome = await KIND.apply(step)
    assert outcome.outputs["stdout"] == "got [secret]\n"
    step.secrets.table.close()


async def test_CR_04_every_try_reads_the_secret_from_its_beginning(host: Host, tmp_path: Path) -> None:
    code = f"import os,sys; n=len(os.listdir({str(tmp_path / 'n')!r})); os.mkdir({str(tmp_path / 'n')!r}+f'/{{n}}'); "
    (tmp_path / "n").mkdir()
    code += "sys.exit(0 if os.read(3, 99) == b'the value of one' and n == 1 else 7)"
    command, *rest = python(code)
    profile = {"command": command, "base_args": tuple(rest), "args": ("${one}",), "secret_files": ("one",)}
    step = with_secrets(host, Told(), ("one",), **profile, retries=1)
    assert (await KIND.apply(step)).exit_status == 0
    step.secrets.table.close()


@pytest.mark.parametrize("given", [(), ("one",), ("one", "TOKEN", "three"), ("one", "token")])
async def test_CR_04_a_step_gives_exactly_the_secrets_that_the_profile_names(
    host: Host, given: tuple[str, ...]
) -> None:
    step = with_secrets(host, Told(), given, args=("${one}",), secret_files=("one",), secret_env=("TOKEN",))
    assert await failure(step) == "binding_error"
    step.secrets.table.close()


async def test_CR_03_a_value_that_is_no_handle_of_the_step_starts_nothing(host: Host) -> None:
    step = with_secrets(host, Told(), ("one",), args=("${one}",), secret_files=("one",))
    for secrets in (StepSecrets(step.secrets.table, "other"), replace(step.secrets, table=holding(host)[0])):
        assert await failure(replace(step, secrets=secrets)) == "unknown_handle"
    raw = replace(step, params=ExecAllowlisted(profile="p", secrets={"one": "a raw value"}))
    with pytest.raises(HostlerError) as caught:
        await KIND.apply(raw)
    assert "raw" not in caught.value.message
    step.secrets.table.close()


async def test_SE_04_what_a_command_tries_beyond_its_declaration_fails_the_step_and_is_noted(
    host: Host, tmp_path: Path
) -> None:
    said: dict[str, Any] = {}
    code = f"\ntry: open({str(tmp_path / 'x')!r}, 'w')\nexcept OSError: pass"
    step = replace(context(host, Told(), **runs(code), effects=Effects()), confined=said.update)
    assert await failure(step) == "undeclared_effect"
    assert said["undeclared"] == [str(tmp_path / "x")]
    assert said["landlock"] > 0
    declared = context(host, Told(), **runs(code), effects=Effects(writes=(str(tmp_path),)))
    assert (await KIND.apply(declared)).exit_status == 0
    assert (tmp_path / "x").exists()


async def test_the_plan_says_what_was_declared(host: Host) -> None:
    (open_,) = (await KIND.plan(context(host, Told(), effects=Effects(writes=("/srv",), network=True)))).changes
    (closed,) = (await KIND.plan(context(host, Told(), effects=Effects()))).changes
    (silent,) = (await KIND.plan(context(host, Told()))).changes
    assert "writing /srv, with the network" in open_.detail
    assert "writing nothing, without the network" in closed.detail
    assert "its effects are not declared" in silent.detail
