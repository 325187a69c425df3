"""The node's own signed word about its agent: what runs, what differs from what was built or asked for (LC-04, LC-22).

Loop `SelfReport.run`: looks at the agent's files now and then, and whenever another version is wanted; the report goes
with the next hello and the next heartbeat. Between two looks only what is told at once is told anew: a trial, a
certificate, what is wanted.
"""

import asyncio
import contextlib
import random
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hostler.base.digest import sha256_hex
from hostler.base.logs import get_logger
from hostler.base.version import __commit__, __version__

if TYPE_CHECKING:
    from hostler.agent.daemon import Daemon
    from hostler.agent.upgrade.survey import Seen, Self
    from hostler.pki.agent_report import AgentReport, Trial

_log = get_logger("hostler.agent.self_report")
EVERY_S = 900.0
_JITTER = 0.1
_MOST_S, _LEAST_S = 86_400.0, 10.0


class SelfReport:
    """Args:
    config: the file that the agent was started with.
    """

    def __init__(self, agent: "Daemon", config: Path, rng: random.Random) -> None:
        self._agent, self._config, self._rng = agent, config, rng
        self._config_digest = _digest(config)
        self._every_s = EVERY_S
        self._sooner = asyncio.Event()
        self._desired = ""
        self._seen: Seen | None = None
        self._looked_ms = self._next_ms = 0
        self._newest: AgentReport | None = None
        self._untold = False
        self.unproven = ""  # for how long a version runs on trial that nobody could prove, in words
        self.document = b""  # the newest, signed; b"" before the first look

    def wanted(self, version: str, every_s: int) -> None:
        """What the control plane asks for."""
        before, self._every_s = self._every_s, min(max(float(every_s), _LEAST_S), _MOST_S) if every_s > 0 else EVERY_S
        if version != self._desired or self._every_s < before:  # a pause that has begun may be a long one
            self._desired = version[:64]
            self._sooner.set()

    def look_again(self) -> None:
        """At once."""
        self._sooner.set()

    def next(self) -> bytes:
        """The newest, if it was not given before."""
        untold, self._untold = self._untold, False
        return self.document if untold else b""

    def told(self) -> bytes:
        """The newest, for a hello."""
        self._untold = False
        return self.document

    async def run(self) -> None:
        while True:
            self._sooner.clear()
            pause_s = self._every_s * self._rng.uniform(1 - _JITTER, 1 + _JITTER)
            self._seen = await asyncio.to_thread(self._look)
            self._looked_ms = self._agent.clock.now_ms()
            self._next_ms = self._looked_ms + int(1000 * pause_s)
            self.refresh(looked=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._sooner.wait()

    def refresh(self, *, looked: bool = False) -> None:
        """Says what has changed since the last look; nothing before the first."""
        if self._seen is None:
            return
        made = self._made(self._seen)
        if not looked and self._newest is not None and _same(made, self._newest):
            return
        from hostler.pki.agent_report import sign_report

        if self._newest is None or self._newest.state != made.state:
            _log.info("agent.state", state=made.state, evidence=[each.name for each in made.evidence[:8]])
        self._newest, self.document, self._untold = made, sign_report(made, self._agent.me.signer), True
        self._agent.outgoing.beat_now()

    @property
    def state(self) -> str:
        return str(self._newest.state) if self._newest else "unknown"

    def _self(self) -> "Self":
        from hostler.agent.upgrade.survey import Self

        return Self(
            version=__version__,
            commit=__commit__,
            desired_version=self._desired,
            certificate=self._agent.renewal.drift,
            config=self._config,
            config_digest=self._config_digest,
            unproven=self.unproven,
        )

    def _look(self) -> "Seen":
        from hostler.agent.upgrade import survey

        installed = self._agent.installed
        return survey.look(installed.places, installed.running, self._self())

    def _made(self, seen: "Seen") -> "AgentReport":
        from hostler.agent.upgrade import records, slots, survey
        from hostler.pki.agent_report import AgentReport

        installed, trial = self._agent.installed, self._trial()
        me = self._self()
        state, evidence = survey.judge(me, seen)
        return AgentReport(
            node_id=self._agent.me.node_id,
            at_ms=self._agent.clock.now_ms(),
            version=me.version,
            commit=me.commit,
            suite=seen.suite,
            desired_version=me.desired_version,
            state=state,
            evidence=evidence,
            files_digest=seen.files_digest,
            units_digest=seen.units_digest,
            config_digest=seen.config_digest,
            slots=slots.listing(installed.places, installed.running) if installed.running else (),
            trial=trial,
            returned=records.returned(installed.places) if installed.running else None,
            looked_ms=self._looked_ms,
            next_at_ms=self._next_ms,
        )

    def _trial(self) -> "Trial | None":
        """What is on record of the version that runs on trial here; notes whether that takes too long."""
        from hostler.agent.upgrade import judge, records
        from hostler.pki.agent_report import Trial

        places = self._agent.installed.places
        on_record = records.trial(places) if self._agent.installed.running else None
        self.unproven = ""
        if on_record is None or on_record.phase != records.RUNNING:
            return None
        since_ms = judge.unproven_ms(on_record, self._agent.clock.now_ms())
        self.unproven = f"on trial for {since_ms // 3_600_000} h" if since_ms else ""
        said = records.said(places)
        held = said if said is not None and said.key == on_record.key else None
        return Trial(
            version=on_record.version,
            from_version=on_record.from_version,
            task_id=on_record.task_id,
            deadline_ms=on_record.deadline_wall_ms,
            started_ms=held.started_ms if held else 0,
            renewed_ms=held.renewed_ms if held else 0,
            connected_ms=held.connected_ms if held else 0,
            task_done_ms=held.task_done_ms if held else 0,
        )


def _digest(path: Path) -> str:
    try:
        return sha256_hex(path.read_bytes())
    except OSError:
        return ""


def _same(one: "AgentReport", other: "AgentReport") -> bool:
    return msgspec.structs.replace(one, at_ms=0) == msgspec.structs.replace(other, at_ms=0)
