"""How a trial ends, in an order that a power cut cannot break: what is written last is that it is over."""

import msgspec

from hostler.agent.upgrade import records, slots
from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.agent.upgrade.records import KEPT, RETURNED, ROLLBACK, Trial, Verdict
from hostler.pki.agent_report import Returned
from hostler.pki.storage import sync_directory

_MOST_GOOD = 8


def keep(places: Places, trial: Trial, checks: dict[str, int], at_ms: int) -> None:
    """The version stays. May be repeated."""
    records.note_verdict(places, _verdict(trial, KEPT, trial.version, checks, at_ms))
    book = records.book(places)
    good = (*(name for name in book.good if name != trial.slot), trial.slot)[-_MOST_GOOD:]
    bad = {name: why for name, why in book.bad.items() if name != trial.slot}
    previous = trial.from_slot if trial.from_slot != trial.slot else book.previous
    records.write(places.book, records.Book(good=good, bad=bad, previous=previous))
    if trial.kind == ROLLBACK:
        _note_return(places, trial, trial.from_version, trial.version, trial.requested_reason, at_ms)
    over(places)


def give_up(places: Places, trial: Trial, to_slot: str, checks: dict[str, int], at_ms: int) -> None:
    """The node has returned to `to_slot`. May be repeated."""
    to = slots.found(places, to_slot)
    to_version = to.version if to else trial.from_version
    book = records.book(places)
    good = tuple(name for name in book.good if name != trial.slot)
    bad = book.bad if trial.slot == PACKAGED else book.bad | {trial.slot: trial.reason}
    records.write(places.book, msgspec.structs.replace(book, good=good, bad=bad))
    _note_return(places, trial, trial.version, to_version, trial.reason, at_ms)
    records.note_verdict(places, _verdict(trial, RETURNED, to_version, checks, at_ms))
    over(places)


def note_lost(places: Places, given_up: str, to_slot: str, error_code: str, reason: str, at_ms: int) -> None:
    """The node goes from one slot to another without a trial on record."""
    from_, to = slots.found(places, given_up), slots.found(places, to_slot)
    told = Returned(
        version=from_.version if from_ else given_up,
        to_version=to.version if to else "",
        task_id="",
        error_code=error_code,
        reason=reason,
        at_ms=at_ms,
    )
    records.write(places.returned, told)


def _note_return(places: Places, trial: Trial, version: str, to_version: str, reason: str, at_ms: int) -> None:
    told = Returned(
        version=version,
        to_version=to_version,
        task_id="" if trial.kind == ROLLBACK else trial.task_id,
        error_code=trial.error_code,
        reason=reason,
        at_ms=at_ms,
    )
    records.write(places.returned, told)


def over(places: Places) -> None:
    """In this order: a link to the one before, and no record, is a trial whose record was lost."""
    places.evidence.unlink(missing_ok=True)
    places.starts.unlink(missing_ok=True)
    slots.forget_before(places)
    places.trial.unlink(missing_ok=True)
    sync_directory(places.base)


def _verdict(trial: Trial, end: str, to_version: str, checks: dict[str, int], at_ms: int) -> Verdict:
    return Verdict(
        key=trial.key,
        task_id=trial.task_id,
        end=end,
        version=trial.version,
        commit=trial.commit,
        slot=trial.slot,
        from_version=trial.from_version,
        to_version=to_version,
        checks=checks,
        extended=trial.extended,
        boots=trial.boots,
        at_ms=at_ms,
        error_code=trial.error_code,
        reason=trial.reason,
    )
