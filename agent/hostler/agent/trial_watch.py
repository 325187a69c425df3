"""`hostler-agent trial`: watches over a version on trial, by the code of the version before (LC-16).

    ordered ─▶ link switched, units restarted ─▶ running ─▶ kept
                                                     └────▶ returning ─▶ link back, units restarted ─▶ returned

systemd starts it when a trial is ordered, at every boot while one is open, and again whenever it ends before the
trial has. Every phase is on disk before it is acted on, and acting twice does no harm, so it may end at any point.
What a version must have done is decided in `upgrade.judge`; here is only the looking and the acting.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from hostler.agent.host.systemd import Systemd
from hostler.agent.runner.faults import point
from hostler.agent.upgrade import ending, records, slots
from hostler.agent.upgrade.installed import AGENT_UNIT
from hostler.agent.upgrade.judge import (
    UNPROVEN_MS,
    Ask,
    Extend,
    Facts,
    Keep,
    Return,
    checks,
    decide,
    has_returned,
    unproven_ms,
)
from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.agent.upgrade.records import KEPT, ORDERED, RETURNING, RUNNING, Trial
from hostler.agent.upgrade.stand_in import RECORD_LOST
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger

_log = get_logger("hostler.agent.trial_watch")
LOOK_S = 0.5
RETURN_MS = 40_000  # the version before has so long to start again, then it is slot zero's turn
SWITCH, JUDGE, BACK = "trial.switch", "trial.judge", "trial.return"
_AGAIN_S = 2.0


class Watch:
    """One trial to its end.

    Args:
        renewed: whether a valid certificate lies there that is not the one of this serial.
        served: whether the control plane would serve this node now.
    """

    def __init__(
        self,
        places: Places,
        systemd: Systemd,
        boot_id: str,
        renewed: Callable[[str], bool],
        served: Callable[[], Awaitable[bool]],
    ) -> None:
        self._places = places
        self._systemd = systemd
        self._boot_id = boot_id
        self._renewed = renewed
        self._served = served
        self._good_ms = self._bad_ms = self._told_ms = 0

    async def run(self) -> None:
        """Returns when no trial is open."""
        while (trial := await self._on_record()) is not None:
            if not await self._step(trial):
                await asyncio.sleep(LOOK_S)
        before = slots.before(self._places)
        if before:
            await self._without_record(before)
        self._places.trial.unlink(missing_ok=True)  # nothing was switched yet, or it is over already

    async def _on_record(self) -> Trial | None:
        """Asked twice where it cannot be read: that may be for a moment."""
        trial = records.trial(self._places)
        if trial is None and slots.before(self._places):
            await asyncio.sleep(LOOK_S)
            trial = records.trial(self._places)
        return trial

    async def _without_record(self, before: str) -> None:
        """A trial that was begun, and that nobody can read: nobody proves the version any more. Back to the one
        before, which the link names that was made ahead of the switch."""
        now = slots.current(self._places)
        _log.error("trial.record_lost", slot=now, before=before)
        if now != before:
            with contextlib.suppress(HostlerError):  # it is told, where that can be written
                ending.note_lost(self._places, now, before, "upgrade_rolled_back", RECORD_LOST, _wall_ms())
            self._link_anyhow(before)
        await self._restart()
        ending.over(self._places)

    async def _step(self, trial: Trial) -> bool:
        """Whether something was done."""
        verdict = records.verdict(self._places, trial.key)
        if verdict is not None:  # cut off in the middle of saying so; of a return it is the last word
            if verdict.end == KEPT:
                ending.keep(self._places, trial, verdict.checks, verdict.at_ms)
            else:
                ending.over(self._places)
            return True
        if trial.phase == ORDERED:
            await self._switch(trial)
            return True
        return await (self._judge(trial) if trial.phase == RUNNING else self._return(trial))

    async def _switch(self, trial: Trial) -> None:
        """The restart comes first: cut off before the deadline is written, all of it is done again."""
        point("before_intent", SWITCH)
        slots.note_before(self._places, trial.from_slot)
        self._link(trial.slot)
        point("after_intent", SWITCH)
        await self._restart()
        point("after_effect", SWITCH)
        self._write(trial, phase=RUNNING, boot_id=self._boot_id, **self._deadline(trial.trial_ms))
        _log.info("trial.begun", version=trial.version, slot=trial.slot, from_version=trial.from_version)

    async def _judge(self, trial: Trial) -> bool:
        said, facts, now_ms = records.said(self._places), await self._facts(trial, trial.slot), _now_ms()
        decided = decide(trial, said, facts, now_ms)
        self._tell_unproven(trial, now_ms)
        if isinstance(decided, Ask):
            await self._ask()
        elif isinstance(decided, Extend):
            self._extend(trial, decided)
        elif isinstance(decided, Keep):
            point("before_intent", JUDGE)
            ending.keep(self._places, trial, checks(trial, said, facts), _wall_ms())
            _log.info("trial.kept", version=trial.version, extended=trial.extended)
        elif isinstance(decided, Return):
            point("before_intent", BACK)
            await self._give_up(trial, decided.reason, checks(trial, said, facts))
        else:
            return False
        return not isinstance(decided, Ask)

    def _tell_unproven(self, trial: Trial, now_ms: int) -> None:
        """Once an hour: nothing is done about it, so somebody has to hear of it."""
        since_ms = unproven_ms(trial, _wall_ms())
        if since_ms and (not self._told_ms or now_ms - self._told_ms >= UNPROVEN_MS):
            self._told_ms = now_ms
            _log.error("trial.unproven", version=trial.version, hours=since_ms // 3_600_000, extended=trial.extended)

    async def _give_up(self, trial: Trial, reason: str, held: dict[str, int]) -> None:
        """Where that cannot be written, as on a full disk, the version goes all the same, and once."""
        _log.error("trial.failed", version=trial.version, reason=reason, slot=trial.from_slot)
        changes: dict[str, str | int | dict[str, int]] = {
            "phase": RETURNING,
            "error_code": "upgrade_rolled_back",
            "reason": reason,
            "held": held,
            "boot_id": self._boot_id,
            "deadline_ms": 0,
        }
        try:
            self._write(trial, **changes)
        except HostlerError as err:
            _log.error("trial.not_written", error=err)
            if slots.current(self._places) == trial.slot:
                self._link_anyhow(trial.from_slot)
                if slots.current(self._places) != trial.slot:
                    await self._restart()
            await asyncio.sleep(_AGAIN_S)

    def _link_anyhow(self, slot: str) -> None:
        """Without the link the installed package runs, and taking it away needs no room."""
        try:
            self._link(slot)
        except OSError as err:
            _log.error("trial.not_linked", slot=slot, reason=err.strerror)
            slots.switch(self._places, PACKAGED)

    def _extend(self, trial: Trial, decided: Extend) -> None:
        for_server = decided.boots == trial.boots
        self._write(
            trial,
            deadline_ms=decided.deadline_ms,
            deadline_wall_ms=_wall_ms() + decided.deadline_ms - _now_ms(),
            boots=decided.boots,
            boot_id=self._boot_id,
            server_bad_ms=decided.server_bad_ms,
            extended=trial.extended + for_server,
        )
        _log.info("trial.extended", version=trial.version, boots=decided.boots, for_server=for_server)

    async def _return(self, trial: Trial) -> bool:
        """To the version before; and from that to slot zero, where it does not start any more."""
        here = trial.deadline_ms and trial.boot_id == self._boot_id
        if not here:
            with contextlib.suppress(OSError):  # the one of the switch will do
                slots.note_before(self._places, trial.from_slot)
            self._link(trial.from_slot)
            point("after_intent", BACK)
            await self._restart()
            point("after_effect", BACK)
            self._write(trial, boot_id=self._boot_id, **self._deadline(RETURN_MS))
            return True
        facts = await self._facts(trial, trial.from_slot)
        runs = has_returned(trial, records.said(self._places), facts, _now_ms())
        if runs is None:
            return False
        if not runs and trial.from_slot != PACKAGED:
            _log.error("trial.return_failed", version=trial.from_version, slot=trial.from_slot)
            reason = f"{trial.reason}; version {trial.from_version} did not start again either"
            self._write(trial, from_slot=PACKAGED, reason=reason, deadline_ms=0)
            return True
        ending.give_up(self._places, trial, trial.from_slot, trial.held, _wall_ms())
        _log.info("trial.returned", version=trial.version, slot=trial.from_slot, reason=trial.reason)
        return True

    def _link(self, slot: str) -> None:
        """Counts from here on are of this slot: the link stands before they begin."""
        slots.switch(self._places, slot)
        self._places.starts.unlink(missing_ok=True)
        self._places.evidence.unlink(missing_ok=True)

    async def _restart(self) -> None:
        """The session's unit follows the agent's. Until systemd takes it: without that nothing is switched."""
        while True:
            try:
                await self._systemd.begin(AGENT_UNIT, "restart")
            except HostlerError as err:
                _log.warning("trial.restart_refused", error=err)
                await asyncio.sleep(_AGAIN_S)
            else:
                return

    async def _facts(self, trial: Trial, slot: str) -> Facts:
        counts = self._starts(trial)
        return Facts(
            boot_id=self._boot_id,
            starts=counts.get(slot, 0),
            passed_over=any(name != slot for name in counts),
            up=await self._up(),
            renewed=self._renewed(trial.baseline_serial),
            server_good_ms=self._good_ms,
            server_bad_ms=self._bad_ms,
        )

    def _starts(self, trial: Trial) -> dict[str, int]:
        from hostler.agent.upgrade.launch import WATCHER, starts

        counts = starts({"key": trial.key}, str(self._places.base))
        return {name: times for name, times in counts.items() if not name.startswith(WATCHER)}

    async def _up(self) -> bool:
        """Where systemd does not answer, nothing is held against the version."""
        try:
            state = await self._systemd.unit_state(AGENT_UNIT)
        except HostlerError:
            return True
        return state.active == "active" or state.sub.startswith(("start", "running", "reload", "stop"))

    async def _ask(self) -> None:
        good = await self._served()
        if good:
            self._good_ms = _now_ms()
        else:
            self._bad_ms = _now_ms()
            _log.info("trial.control_plane_away")

    @staticmethod
    def _deadline(milliseconds: int) -> dict[str, int]:
        return {"deadline_ms": _now_ms() + milliseconds, "deadline_wall_ms": _wall_ms() + milliseconds}

    def _write(self, trial: Trial, **changes: str | int | dict[str, int]) -> None:
        records.write(self._places.trial, msgspec.structs.replace(trial, **changes))


def _now_ms() -> int:
    return int(time.monotonic() * 1000)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
