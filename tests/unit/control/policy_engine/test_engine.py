"""The policy engine in its own process, with real Rego: what it answers, and what its silence counts for (AZ-11)."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.control.policy_engine.engine import MAX_QUESTION, PolicyEngine
from hostler.control.policy_engine.settings import PolicyEngineSettings
from hostler.control.policy_engine.trial import EXAMPLE

ROOT = Path(__file__).resolve().parents[4]
FRIDAYS = """package hostler

deny contains reason if {
    input.version == "v2"
    reason := sprintf("no %s for %s", [input.version, input.actor])
}
"""
BIG = "numbers.range(1, 1000000000)[_] == -1"
replace = msgspec.structs.replace


@asynccontextmanager
async def engine(folder: Path, *sources: str, **settings: Any) -> AsyncIterator[PolicyEngine]:
    files = []
    for number, source in enumerate(sources):
        path = folder / f"{number}.rego"
        path.write_text(source)
        files.append(str(path))
    made = await PolicyEngine.open(PolicyEngineSettings(files=tuple(files), **settings))
    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(made.run())
        try:
            yield made
        finally:
            keeping.cancel()


async def until_answered(made: PolicyEngine) -> None:
    """Until an allowed question is allowed again."""
    async with asyncio.timeout(20):
        while not (await made.ask(EXAMPLE)).allowed:
            await asyncio.sleep(0.05)


async def at_work(made: PolicyEngine, processes: int) -> set[int]:
    """Waits for so many that are idle. → their pids."""
    async with asyncio.timeout(20):
        while made._idle.qsize() < processes:
            await asyncio.sleep(0.02)
    children = [made._idle.get_nowait() for _ in range(processes)]
    for child in children:
        made._idle.put_nowait(child)
    return {child._process.pid for child in children}


async def test_AZ_11_reasons_refuse_and_none_allows(tmp_path: Path) -> None:
    other = 'package hostler\n\ndeny contains "never, says the other file" if input.org_id == "rival"\n'
    async with engine(tmp_path, FRIDAYS, other) as made:
        allowed = await made.ask(EXAMPLE)
        assert (allowed.allowed, allowed.question_digest) == (True, EXAMPLE.digest())
        refused = await made.ask(replace(EXAMPLE, version="v2"))
        assert (refused.allowed, refused.reason) == (False, "no v2 for ann")
        odd = await made.ask(replace(EXAMPLE, version="v2", actor='a\x00\U0001f600"\\'))
        assert odd.reason == 'no v2 for a\x00\U0001f600"\\'
        both = await made.ask(replace(EXAMPLE, version="v2", org_id="rival"))
        assert set(both.reason.split("; ")) == {"no v2 for ann", "never, says the other file"}
        many = await asyncio.gather(*(made.ask(replace(EXAMPLE, version=f"v{n % 2 + 1}")) for n in range(50)))
        assert [answer.allowed for answer in many] == [n % 2 == 0 for n in range(50)]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("package hostler\n\ndeny contains x if {\n  input.a ==\n}\n", "0.rego:4: "),
        ("nonsense here", "0.rego:1: "),
        ("package other\nx := 1\n", "data.hostler.deny is undefined"),
        ("package hostler\ndeny := true\n", "data.hostler.deny is true or false and not a list of reasons"),
        ("package hostler\ndeny := [1]\n", "is a list of other things"),
        ("package hostler\ndeny contains x if x := nosuch(1)\n", "cannot be evaluated"),
        (f"package hostler\ndeny contains 1 if {BIG}\n", "took too much memory"),
    ],
)
async def test_a_file_that_cannot_be_taken_up_stops_the_start_and_says_where(
    source: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(HostlerError) as caught:
        async with engine(tmp_path, source, memory_mib=128):
            pass
    assert caught.value.code == "invalid_config"
    assert said in caught.value.message


async def test_a_file_that_anybody_could_write_or_that_is_none_is_refused(tmp_path: Path) -> None:
    open_file = tmp_path / "open.rego"
    open_file.write_text(FRIDAYS)
    open_file.chmod(0o666)
    for path in (open_file, tmp_path / "absent.rego", tmp_path):
        with pytest.raises(HostlerError) as caught:
            await PolicyEngine.open(PolicyEngineSettings(files=(str(path),)))
        assert (caught.value.code, str(path) in caught.value.message) == ("invalid_config", True)


async def test_AZ_11_a_rule_without_end_is_a_refusal_and_holds_nobody_up(tmp_path: Path) -> None:
    endless = f'package hostler\ndeny contains "x" if {{ input.version == "v2"; {BIG} }}\n'
    async with engine(tmp_path, endless, timeout_ms=300, memory_mib=4096) as made:
        pids = await at_work(made, 2)
        started = time.monotonic()
        stuck = [made.ask(replace(EXAMPLE, version="v2")) for _ in range(2)]  # every process
        turns = 0
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in stuck]
            while not all(task.done() for task in tasks):
                await asyncio.sleep(0.01)
                turns += 1
        assert time.monotonic() - started < 20
        assert turns > 3, "the loop went on meanwhile"  # of thirty, on a machine with nothing else to do
        for task in tasks:
            assert not task.result().allowed
            assert "policy engine is away: it gave no answer within 0.3 s" in task.result().reason
        await until_answered(made)
        assert not pids & await at_work(made, 2), "what hangs is ended, and no late answer is taken for another"


async def test_AZ_11_a_rule_that_eats_memory_is_ended_and_refused(tmp_path: Path) -> None:
    hungry = f'package hostler\ndeny contains "x" if {{ input.version == "v2"; {BIG} }}\n'
    async with engine(tmp_path, hungry, timeout_ms=10_000, memory_mib=128) as made:
        answer = await made.ask(replace(EXAMPLE, version="v2"))
        assert (answer.allowed, answer.reason) == (False, "the policy engine is away: it took too much memory")
        await until_answered(made)


async def test_AZ_11_a_process_that_dies_is_started_again(tmp_path: Path) -> None:
    async with engine(tmp_path, FRIDAYS, processes=1) as made:
        await until_answered(made)
        child = await made._idle.get()
        made._idle.put_nowait(child)
        os.kill(child._process.pid, signal.SIGKILL)
        answer = await made.ask(EXAMPLE)
        assert answer.allowed or "policy engine is away" in answer.reason
        await until_answered(made)


async def test_AZ_11_nonsense_instead_of_an_answer_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with engine(tmp_path, FRIDAYS, processes=1) as made:
        child = made._idle.get_nowait()
        made._idle.put_nowait(child)
        for nonsense in ({}, {"reasons": "none"}, {"reasons": [1]}, {"error": 1}):

            async def exchange(_: Any, said: Any = nonsense) -> Any:
                return said

            monkeypatch.setattr(child, "_exchange", exchange)
            with pytest.raises(Exception, match="cannot be read"):
                await child.ask({})


async def test_AZ_11_a_policy_that_fails_over_one_request_refuses_that_one(tmp_path: Path) -> None:
    fails = 'package hostler\ndeny contains "x" if to_number(input.version) == 1\n'
    async with engine(tmp_path, fails) as made:
        answer = await made.ask(EXAMPLE)
        assert not answer.allowed
        assert "policy engine is away: data.hostler.deny is undefined" in answer.reason


async def test_a_question_of_any_size_and_form_is_bounded(tmp_path: Path) -> None:
    async with engine(tmp_path, FRIDAYS) as made:
        answer = await made.ask(replace(EXAMPLE, inputs={"x": "y" * MAX_QUESTION}))
        assert (answer.allowed, answer.reason) == (False, "the request is too large for the policy engine")
    many = 'input.actor; some n in numbers.range(1, 900); x := sprintf("%d", [n])'
    async with engine(tmp_path, f"package hostler\ndeny contains x if {{ {many} }}\n") as made:
        assert len((await made.ask(EXAMPLE)).reason) <= 400


async def test_what_reads_a_tenants_inputs_can_open_nothing(tmp_path: Path) -> None:
    async with engine(tmp_path, FRIDAYS) as made:
        child = made._idle.get_nowait()
        made._idle.put_nowait(child)
        limits = Path(f"/proc/{child._process.pid}/limits").read_text()
        status = Path(f"/proc/{child._process.pid}/status").read_text()
        environment = Path(f"/proc/{child._process.pid}/environ").read_bytes()
        held = {str(each.readlink()) for each in Path(f"/proc/{child._process.pid}/fd").iterdir()}
    opened = next(line for line in limits.splitlines() if line.startswith("Max open files"))
    assert opened.split()[3:5] == ["0", "0"]
    assert "NoNewPrivs:\t1" in status
    assert b"HOME" not in environment
    assert {name.partition(":")[0] for name in held} <= {"pipe", "/dev/null", "socket"}


async def test_the_processes_end_with_the_control_plane(tmp_path: Path) -> None:
    async with engine(tmp_path, FRIDAYS, processes=3) as made:
        await until_answered(made)
        async with asyncio.timeout(20):
            while made._idle.qsize() < 3:
                await asyncio.sleep(0.02)
        children = [made._idle.get_nowait() for _ in range(3)]
    for child in children:
        async with asyncio.timeout(5):
            await child.ended()


async def test_the_example_that_we_ship_does_what_it_says() -> None:
    settings = PolicyEngineSettings(files=(str(ROOT / "control/policy.example.rego"),))
    made = await PolicyEngine.open(settings)
    try:
        assert (await made.ask(EXAMPLE)).allowed
        elsewhere = await made.ask(replace(EXAMPLE, sources={"pull.uri": "https://elsewhere.example.org/x"}))
        assert elsewhere.reason == "pull.uri fetches from a store that is not ours"
        lent = replace(EXAMPLE, asks_for="allocation", org_id="trial-1", sources={}, targets={"node_count": 5})
        assert "four nodes" in (await made.ask(lent)).reason
        assert (await made.ask(replace(lent, org_id="acme"))).allowed
        group = replace(EXAMPLE, target_kinds=("group",))
        assert "plan mode" in (await made.ask(group)).reason
        assert (await made.ask(replace(group, mode="plan"))).allowed
    finally:
        await made.close()
