"""OB-07, P9: what every container runtime owes of output: whole, in order, followed to the end."""

import asyncio

import pytest

from hostler.agent.containers import following
from hostler.agent.containers.runtime import State
from support.runtimes import Bed, Gate

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("containers")]


async def test_OB_07_ten_thousand_lines_resume_in_the_middle_without_gap_or_repeat(bed: Bed) -> None:
    made = await bed.start("i=0; while [ $i -lt 10000 ]; do echo line $i; i=$((i+1)); done")
    await bed.runtime.wait(made)
    lines = await bed.output(made)
    assert [line.text for line in lines] == [f"line {n}" for n in range(10_000)]
    for cut in (0, 4_999, 9_998):
        rest = await bed.output(made, lines[cut].cursor, follow=False)
        assert [line.text for line in rest] == [f"line {n}" for n in range(cut + 1, 10_000)]
    assert await bed.output(made, lines[-1].cursor) == []


async def test_OB_07_streams_are_told_apart_and_a_last_line_without_newline_is_kept(bed: Bed) -> None:
    made = await bed.start("echo out; echo err >&2; echo; printf 'no newline'")
    lines = await bed.output(made)
    assert [line.text for line in lines if line.stream == "stderr"] == ["err"]
    assert [(line.text, line.whole) for line in lines if line.stream == "stdout"] == [
        ("out", True), ("", True), ("no newline", False),
    ]  # fmt: skip
    assert await bed.output(made, lines[-1].cursor) == []


async def test_OB_07_lines_longer_than_a_buffer_are_whole(bed: Bed) -> None:
    made = await bed.start("head -c 100000 /dev/zero | tr '\\0' x; echo; echo after")
    assert [(len(line.text), line.whole) for line in await bed.output(made)] == [(100_000, True), (5, True)]


async def test_OB_07_logs_are_followed_to_the_end(bed: Bed, gate: Gate) -> None:
    made = await bed.start(f"echo 1; {gate.wait}; for i in 2 3; do echo $i; sleep 0.3; done", binds=gate.binds)
    arrived = []
    async for line in bed.runtime.logs(made, follow=True):
        arrived.append((line.text, (await bed.runtime.status(made)).ended))
        gate.open()
    assert [text for text, _ in arrived] == ["1", "2", "3"]
    assert not arrived[0][1]


async def test_P9_whoever_follows_hears_of_writes_and_of_the_end_and_waits_for_no_tick(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower that looked now and then instead would look again in an hour."""
    monkeypatch.setattr(following, "_TOLD_PAUSE_S", 3600.0)
    made = await bed.start("sleep 1; echo out; sleep 1; printf end")
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        waiting = group.create_task(bed.runtime.wait(made))
        told = group.create_task(bed.output(made))
    assert [(line.text, line.whole) for line in told.result()] == [("out", True), ("end", False)]
    assert waiting.result().state is State.EXITED


async def test_OB_07_logs_keep_to_their_size(bed: Bed) -> None:
    line = "head -c 20000 /dev/zero | tr '\\0' y; echo"
    flood = f"i=0; while [ $i -lt 60 ]; do {line}; i=$((i+1)); sleep 0.05; done; echo end"
    made = await bed.start(flood, log_bytes=200_000)
    await bed.runtime.wait(made)
    lines = await bed.output(made)
    assert lines[-1].text == "end"
    if bed.runtime.name == "process":
        assert sum(len(line.text) for line in lines) <= 200_000
