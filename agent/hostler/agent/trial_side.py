"""What an agent does while a version is on trial: it says that it runs, renews its certificate, and notes what holds.

Loaded only where a trial is on record when the agent starts. The watcher, which is of the version before, reads it.
"""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from hostler.agent.upgrade import records
from hostler.agent.upgrade.places import Places
from hostler.agent.upgrade.records import RETURNING, Said, Trial
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger
from hostler.base.version import __version__

if TYPE_CHECKING:
    from hostler.agent.daemon import Daemon

_log = get_logger("hostler.agent.trial_side")
LOOK_S = 0.5
NUDGE_S = 5.0  # between two wishes for a certificate, while the control plane has us
HOLD_S = 10.0  # a session that lasts so long is held


class TrialSide:
    """Loop `run`: until the trial is over."""

    def __init__(self, agent: "Daemon", places: Places, slot: str) -> None:
        self._agent = agent
        self._places = places
        self._slot = slot
        self._mark = 0  # the outbox row that the first task's end stands in, or one behind it
        self._asked_at = float("-inf")
        self._renewed_at = float("inf")  # as that: on the monotonic clock, for the other may be set meanwhile

    async def run(self) -> None:
        said: Said | None = None
        before: Trial | None = None
        while (trial := records.trial(self._places)) is not None:
            if said is None or said.key != trial.key:
                said = Said(key=trial.key, slot=self._slot, version=__version__)
            fresh = self._look(trial, said)
            if fresh != said:
                self._note(fresh)
            if fresh != said or trial != before:
                self._agent.report.refresh()
            said, before = fresh, trial
            await asyncio.sleep(LOOK_S)
        self._agent.report.refresh()

    def _note(self, said: Said) -> None:
        try:
            records.write(self._places.evidence, said)
        except HostlerError as err:
            _log.error("trial.not_told", error=err)
        self._agent.report.refresh()

    def _look(self, trial: Trial, said: Said) -> Said:
        now_ms = self._agent.clock.now_ms()
        if not said.started_ms:
            said = msgspec.structs.replace(said, started_ms=now_ms)
        if trial.phase == RETURNING or self._slot != trial.slot:
            return said
        if not said.renewed_ms and self._is_renewed(trial):
            said = msgspec.structs.replace(said, renewed_ms=now_ms)
            self._renewed_at = self._agent.clock.monotonic()
        if said.renewed_ms and not said.connected_ms and self._holds():
            said = msgspec.structs.replace(said, connected_ms=now_ms)
        if not said.task_done_ms and self._has_done_one(trial):
            said = msgspec.structs.replace(said, task_done_ms=now_ms)
        return said

    def _is_renewed(self, trial: Trial) -> bool:
        """Asks for a certificate at once, and again whenever the session stands: its own pause may be long by then."""
        if self._agent.renewal.current.facts.serial != trial.baseline_serial:
            return True
        now, first = self._agent.clock.monotonic(), self._asked_at < 0
        if first or (now - self._asked_at >= NUDGE_S and self._agent.session.state == "connected"):
            self._asked_at = now
            self._agent.renewal.renew_within(0)
        return False

    def _holds(self) -> bool:
        """The session that began with the new certificate, that is."""
        since = self._agent.clock.monotonic() - self._renewed_at
        return min(since, self._agent.session.heard_for_seconds) >= HOLD_S

    def _has_done_one(self, trial: Trial) -> bool:
        """A task has ended since, and the control plane has taken everything up to its end."""
        journal = self._agent.journal
        if not self._mark and journal.has_succeeded(but=trial.task_id):
            _, self._mark = journal.outbox_weight()
        return 0 < self._mark <= journal.acknowledged
