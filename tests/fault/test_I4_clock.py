"""I4: a clock that is an hour or a year off, or jumps in the middle of a task."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from hostler.agent.admission.admit import admit
from hostler.agent.admission.verdict import Admitted
from hostler.agent.config import AgentConfig
from hostler.agent.daemon import Daemon
from hostler.agent.journal.journal import Journal
from hostler.agent.lifecycle.enroll import Enrolment, enroll
from hostler.base.clock import Deadline, SystemClock
from hostler.base.strict import convert
from support import builders
from support.agent import refused
from support.control import FrozenClock
from support.keys import NOW, Keys
from support.outside import ask_in_process
from support.plane import Plane, plane

KEYS = Keys()
CATALOG = builders.catalog(KEYS)
HOUR, YEAR = 3_600_000, 365 * 86_400_000


@pytest.mark.parametrize("wrong", [-YEAR, -HOUR, -1, HOUR, YEAR - 1])
def test_I4_a_task_is_taken_neither_early_nor_late_however_wrong_the_clock_is(wrong: int) -> None:
    spec = builders.task(KEYS, CATALOG, not_before_ms=NOW, expires_at_ms=NOW + 60_000)
    verdict = admit(builders.envelope(KEYS, spec), builders.view(KEYS, CATALOG), NOW + wrong)
    assert refused(verdict) == ("not_yet_valid" if wrong < 0 else "expired", "freshness")


def test_I4_a_clock_behind_every_catalog_and_keyset_opens_nothing_that_a_right_one_would_not() -> None:
    """An NTP lie into the past brings no expired signature back that the node has not already accepted."""
    spec = builders.task(KEYS, CATALOG, not_before_ms=NOW, expires_at_ms=NOW + 60_000)
    sent = builders.envelope(KEYS, spec)
    assert isinstance(admit(sent, builders.view(KEYS, CATALOG), NOW), Admitted)
    again = admit(sent, builders.view(KEYS, CATALOG, high_sequence=spec.sequence), NOW)
    assert refused(again) == ("stale_sequence", "sequence"), "what was seen stays seen, whatever the time is"


class Jumping(FrozenClock):
    """Wall time that jumps, while the monotonic one goes on as before."""

    def __init__(self) -> None:
        super().__init__()
        self.steady = 0.0

    def monotonic(self) -> float:
        return self.steady


async def test_I4_a_deadline_does_not_follow_the_wall_clock() -> None:
    clock = Jumping()
    deadline = Deadline.after(10, clock)
    for jump in (YEAR, -2 * YEAR, HOUR):
        clock.move(jump)
        assert deadline.remaining() == 10
        assert not deadline.passed()
    clock.steady = 10
    assert deadline.passed()
    await asyncio.sleep(0)


async def test_I4_a_node_whose_clock_is_off_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real agent beside a real control plane; only what the agent's clock shows is moved."""
    async with plane(tmp_path) as control:
        await control.publish()
        agent = await real_agent(control, tmp_path)
        monkeypatch.setattr(agent.clock, "now_ms", lambda: SystemClock().now_ms() - HOUR)
        running = asyncio.create_task(agent.run())
        try:
            async with asyncio.timeout(20):
                while (await control.call("GET", "/api/v1/admin/nodes/gpu-1"))["drift"] != "clock_skew":
                    agent.outgoing.beat_now()
                    await asyncio.sleep(0.05)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait([running])


async def real_agent(control: Plane, home: Path) -> Daemon:
    """Enrolled by its own means, in this process but for its session process."""
    config = convert(
        {
            "state_dir": str(home / "agent"),
            "trust_file": str(home / "pki" / "trust.json"),
            "control": {"address": control.config.node_listen, "enroll_address": control.config.enroll_listen},
            "files": {"root": str(home / "root")},
            "containers": {"node_address": "127.0.0.1"},
        },
        AgentConfig,
    )
    token = await control.token("gpu-1")
    wanted = Enrolment(
        state_dir=config.state,
        trust_file=Path(config.trust_file),
        address=config.control.enroll_address,
        labels={},
    )
    await enroll(ask_in_process, wanted, token, SystemClock())
    return Daemon(config, await Journal.open(config.state / "journal.db", SystemClock()))
