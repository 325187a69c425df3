"""What is written down of versions and trials: small files, each replaced whole and synced before it counts.

All are root's and hold no secret. Whatever cannot be read is as if it were not there: no file here is needed to run.
A version reads what a later one wrote, after a way back: fields are only ever added, and those unknown are passed over.
"""

from pathlib import Path
from typing import TypeVar

import msgspec

from hostler.agent.upgrade.places import Places
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.base.strict import decode_record
from hostler.pki.agent_report import Returned
from hostler.pki.storage import write_public

T = TypeVar("T")
_log = get_logger("hostler.agent.upgrade")
_MOST_BYTES = 1 << 20
_VERDICTS_KEPT = 8

ORDERED, RUNNING, RETURNING = "ordered", "running", "returning"
ACTIVATE, ROLLBACK = "activate", "rollback"
KEPT, RETURNED = "kept", "returned"


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A version on trial, as its order began it and the watcher carries it on.

    Fields are only ever added: the version before and the one on trial both read it.

    Attributes:
        key: the attempt of the task that ordered it; what else is written of the trial names it.
        slot, from_slot: names; `packaged` is slot zero.
        phase: ordered (nothing switched yet), running, returning.
        baseline_serial: of the certificate before; a renewed one has another.
        boot_id, deadline_ms: the deadline is on the monotonic clock of that boot, 0 before the switch.
        boots: how often the machine has started since.
        server_bad_ms: when the control plane was last seen to be at fault, on the same clock; 0 for never.
        extended: how often the deadline moved for the control plane's sake.
        error_code, reason, held: why it returns, and which checks had held, in that phase.
    """

    key: str
    task_id: str
    kind: str
    version: str
    commit: str
    slot: str
    from_version: str
    from_slot: str
    trial_ms: int
    baseline_serial: str
    boot_id: str
    ordered_ms: int
    requested_reason: str = ""
    phase: str = ORDERED
    deadline_ms: int = 0
    deadline_wall_ms: int = 0
    boots: int = 1
    server_bad_ms: int = 0
    extended: int = 0
    error_code: str = ""
    reason: str = ""
    held: dict[str, int] = {}


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What the version that runs says of itself during a trial. Moments are Unix milliseconds, 0 for not yet."""

    key: str
    slot: str
    version: str
    started_ms: int = 0
    renewed_ms: int = 0
    connected_ms: int = 0
    task_done_ms: int = 0


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """How a trial ended. `checks` are the moments at which they held (LC-21)."""

    key: str
    task_id: str
    end: str
    version: str
    commit: str
    slot: str
    from_version: str
    to_version: str
    checks: dict[str, int]
    extended: int
    boots: int
    at_ms: int
    error_code: str = ""
    reason: str = ""


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """What this node has learned of its slots.

    Attributes:
        good: slots that have stood a trial here, the last one last.
        bad: slots that have not, and why.
        previous: what ran before the present one; "" for nothing.
    """

    good: tuple[str, ...] = ()
    bad: dict[str, str] = {}
    previous: str = ""


class _Verdicts(msgspec.Struct, frozen=True):
    newest_last: tuple[Verdict, ...] = ()


def trial(places: Places) -> Trial | None:
    return read(places.trial, Trial)


def said(places: Places) -> Said | None:
    return read(places.evidence, Said)


def book(places: Places) -> Book:
    return read(places.book, Book) or Book()


def returned(places: Places) -> Returned | None:
    """The last return to an earlier version on this node."""
    return read(places.returned, Returned)


def verdict(places: Places, key: str) -> Verdict | None:
    found = read(places.verdicts, _Verdicts) or _Verdicts()
    return next((one for one in found.newest_last if one.key == key), None)


def note_verdict(places: Places, made: Verdict) -> None:
    found = read(places.verdicts, _Verdicts) or _Verdicts()
    others = tuple(one for one in found.newest_last if one.key != made.key)
    write(places.verdicts, _Verdicts((*others, made)[-_VERDICTS_KEPT:]))


def read(path: Path, type_: type[T]) -> T | None:
    try:
        with path.open("rb") as file:
            return decode_record(file.read(_MOST_BYTES), type_)
    except FileNotFoundError:
        return None
    except (OSError, HostlerError) as err:
        _log.warning("upgrade.record_unreadable", path=str(path), error_type=type(err).__name__)
        return None


def write(path: Path, value: msgspec.Struct) -> None:
    """On disk when it returns. Raises `file_error`."""
    try:
        write_public(path, msgspec.json.encode(value))
    except OSError as err:
        raise error("file_error", f"{path} cannot be written: {err.strerror}") from err
