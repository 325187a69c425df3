"""U2, LC-16: a control plane that keeps turning a node away decides nothing, neither for a version nor against it; and
after an hour somebody hears of it."""

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from unit.agent.upgrade.test_judge import ALL, START, TRIAL, facts, without

from hostler.agent.self_report import SelfReport
from hostler.agent.standing import Standing
from hostler.agent.trial_watch import Watch
from hostler.agent.upgrade import records
from hostler.agent.upgrade.judge import UNPROVEN_MS, Extend, Keep, Wait, decide, unproven_ms
from hostler.agent.upgrade.places import PACKAGED
from hostler.agent.upgrade.records import ORDERED, RETURNING, RUNNING, Trial
from hostler.agent.upgrade.survey import Seen, Self, judge
from hostler.pki.agent_report import DriftState
from support.slots import installed_in, places_in

HOUR = UNPROVEN_MS


def test_U2_after_a_day_of_throttling_it_is_still_on_trial_and_then_judged() -> None:
    trial, now, said = TRIAL, START, without("connected_ms", "task_done_ms")
    while now < START + 24 * HOUR:
        now += 60_000
        decided = decide(trial, said, facts(server_bad_ms=now), now)
        assert isinstance(decided, Extend)
        trial = msgspec.structs.replace(trial, deadline_ms=decided.deadline_ms, server_bad_ms=now)
    assert decide(trial, ALL, facts(server_bad_ms=now), now) == Keep()
    assert decide(trial, said, facts(server_bad_ms=now, server_good_ms=now + 1), now + 1) == Wait()


@pytest.mark.parametrize(("phase", "after", "since"), [
    (RUNNING, HOUR, 0), (RUNNING, HOUR + 1, HOUR + 1), (RUNNING, -HOUR, 0),
    (ORDERED, 2 * HOUR, 0), (RETURNING, 2 * HOUR, 0),
])  # fmt: skip
def test_U2_it_is_told_after_an_hour(phase: str, after: int, since: int) -> None:
    trial = msgspec.structs.replace(TRIAL, phase=phase, ordered_ms=1000)
    assert unproven_ms(trial, 1000 + after) == since


def test_LC_04_it_is_drift_with_evidence() -> None:
    me = Self(
        version="2.0.0", commit="c" * 40, desired_version="2.0.0", certificate="", config=Path("/x"), config_digest="",
        unproven="on trial for 3 h",
    )  # fmt: skip
    state, (evidence,) = judge(me, Seen(whole=True))
    assert (state, evidence.kind, evidence.expected) == (DriftState.CONFIG_DRIFT, "trial", "proved")
    assert evidence.found == "on trial for 3 h"


class Agent:
    """As much of one as a report and its standing look at."""

    def __init__(self, places: Any, now_ms: int) -> None:
        self.installed, self.clock = installed_in(places, PACKAGED), SimpleNamespace(now_ms=lambda: now_ms)
        self.renewal, self.resolver = SimpleNamespace(drift=""), SimpleNamespace(drift="")
        self.session, self.host = SimpleNamespace(clock_skew_ms=0), SimpleNamespace(hung=[])
        self.workloads, self.capabilities = SimpleNamespace(lost_devices={}), {}
        self.me = SimpleNamespace(node_id="n")


@pytest.mark.parametrize(("hours", "told"), [(0.5, ""), (3, "trial_unproven")])
def test_U2_the_node_says_so_here_and_there(tmp_path: Path, hours: float, told: str) -> None:
    """`drift` stands in status.json, in hellos and in heartbeats."""
    places = places_in(tmp_path)
    records.write(places.trial, msgspec.structs.replace(TRIAL, ordered_ms=1000))
    agent: Any = Agent(places, 1000 + int(hours * HOUR))
    agent.report = SelfReport(agent, tmp_path / "agent.toml", random.Random())
    made = agent.report._made(Seen(whole=True))
    assert Standing(agent).drift() == told
    assert [each.found for each in made.evidence if each.kind == "trial"] == (["on trial for 3 h"] if told else [])
    places.trial.unlink()
    agent.report._made(Seen(whole=True))
    assert Standing(agent).drift() == "", "it is over"


def test_U2_the_watcher_logs_it_once_an_hour(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever has only the host reads it there, and nothing is done about it."""
    places = places_in(tmp_path)
    records.write(places.trial, msgspec.structs.replace(TRIAL, ordered_ms=1, deadline_ms=1 << 60))

    async def served() -> bool:
        return False

    class Systemd:
        async def unit_state(self, unit: str) -> Any:
            return SimpleNamespace(active="active", sub="running")

    async def looked() -> Trial | None:
        watch: Any = Watch(places, Systemd(), "boot", lambda serial: True, served)  # type: ignore[arg-type]
        for _ in range(3):
            trial = records.trial(places)
            assert trial is not None
            await watch._judge(trial)
        return records.trial(places)

    after = asyncio.run(looked())
    assert after is not None
    assert after.phase == RUNNING
    assert [record.message for record in caplog.records].count("trial.unproven") == 1
