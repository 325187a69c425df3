"""LC-04, LC-22: how often a node looks at itself follows the control plane, not the pause that has begun."""

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hostler.agent.self_report import SelfReport
from support.workloads import until


@pytest.mark.parametrize(("every_s", "looks"), [(10, 2), (1800, 1)])
async def test_LC_22_a_shorter_pace_begins_at_once_and_a_longer_one_with_the_next_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_s: int, looks: int
) -> None:
    agent: Any = SimpleNamespace(clock=SimpleNamespace(now_ms=lambda: 1))
    report, seen = SelfReport(agent, tmp_path / "agent.toml", random.Random(1)), list[int]()
    monkeypatch.setattr(report, "_look", lambda: seen.append(1))
    monkeypatch.setattr(report, "refresh", lambda **_: None)
    running = asyncio.create_task(report.run())
    while not seen:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    report.wanted("", every_s)
    await until(lambda: len(seen) >= looks)
    await asyncio.sleep(0.3)
    running.cancel()
    assert len(seen) == looks
