"""A slot that does not start any more, outside of any trial: the launcher runs another in its place, which looks at it.

What is not as it was built is left for good, and told as a return (EV-09). What is whole may have failed for another
reason, such as a configuration that nobody could read: only its bytecode goes, and the next start tries it again.
"""

import contextlib
import shutil

import msgspec

from hostler.agent.upgrade import ending, records, slots
from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger
from hostler.pki.agent_report import Evidence

_log = get_logger("hostler.agent.upgrade.stand_in")
RECORD_LOST = "the record of its trial cannot be read, so nothing proves it any more"


def forget_starts(places: Places) -> None:
    """The slot has run for a while, or was stopped in order."""
    if not places.trial.exists():
        with contextlib.suppress(OSError):
            places.starts.unlink(missing_ok=True)


def evidence(places: Places, running: str) -> tuple[Evidence, ...]:
    """That another slot than the one of the link runs. During a trial that is the watcher's matter."""
    chosen = slots.before(places) or slots.current(places)
    if not running or chosen in (running, PACKAGED) or places.trial.exists():
        return ()
    return (Evidence(kind="slot", name=chosen, expected="runs", found=f"did not start; {running} runs in its place"),)


def settle(places: Places, running: str, at_ms: int) -> None:
    """For an agent that has run for a while from the slot `running`. Blocking; may be repeated.

    Raises:
        HostlerError: `file_error`.
    """
    if places.trial.exists():
        return
    before = slots.before(places)
    if before and not places.trial.exists():
        _without_record(places, before, at_ms)
    forget_starts(places)
    chosen = slots.current(places)
    if chosen in (running, PACKAGED):
        return
    damage = slots.damage(places, chosen)
    if damage:
        leave(places, chosen, running, damage, at_ms)
    else:
        _log.error("slot.did_not_start", slot=chosen, running=running)
        for folder in [*places.home(chosen).rglob("__pycache__")]:
            shutil.rmtree(folder, ignore_errors=True)


def leave(places: Places, slot: str, to_slot: str, damage: tuple[str, ...], at_ms: int) -> None:
    """For good. What is told comes first: a power cut behind it has it done again."""
    reason = f"{len(damage)} of its files are not as they were built, such as {damage[0]}"
    _log.error("slot.damaged", slot=slot, to=to_slot, reason=reason)
    ending.note_lost(places, slot, to_slot, "slot_damaged", reason, at_ms)
    book = records.book(places)
    changed = msgspec.structs.replace(
        book,
        good=tuple(name for name in book.good if name != slot),
        bad=book.bad | {slot: reason},
        previous="" if book.previous in (slot, to_slot) else book.previous,
    )
    records.write(places.book, changed)
    slots.switch(places, to_slot)


def refuge(places: Places, running: str) -> str:
    """Where to go from a slot that is damaged: to the one before, if that is whole, else to the installed package."""
    previous = records.book(places).previous
    whole = previous not in ("", running) and slots.found(places, previous) and not slots.damage(places, previous)
    return previous if whole else PACKAGED


def _without_record(places: Places, before: str, at_ms: int) -> None:
    """Both files of a trial are gone but for the link: nobody watches, and nothing proves the version."""
    given_up = slots.current(places)
    if given_up != before:
        with contextlib.suppress(HostlerError):
            ending.note_lost(places, given_up, before, "upgrade_rolled_back", RECORD_LOST, at_ms)
        slots.switch(places, before)
    ending.over(places)
