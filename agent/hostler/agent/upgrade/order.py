"""From a step's wish to a trial on record: what may be switched to, from where, and by whose authority."""

from typing import NamedTuple

from hostler.agent.upgrade import records, slots
from hostler.agent.upgrade.installed import Installed
from hostler.agent.upgrade.offered import check_offered
from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.agent.upgrade.records import ACTIVATE, ROLLBACK, Trial
from hostler.agent.upgrade.slots import Found
from hostler.base.errors import error
from hostler.base.version import __commit__, __version__
from hostler.pki.releases import may_install, version_key


class Who(NamedTuple):
    """The task that orders it, and when (Unix milliseconds)."""

    key: str
    task_id: str
    boot_id: str
    now_ms: int


def check_free(places: Places, key: str) -> None:
    """Raises `trial_open` while another task's version is on trial."""
    open_ = records.trial(places)
    if open_ is not None and open_.key != key:
        raise error("trial_open", f"version {open_.version} is on trial on this node, by task {open_.task_id}")


def activation(installed: Installed, version: str, who: Who, trial_seconds: int, *, repair: bool) -> Trial | None:
    """None where that version runs already, whole, and nothing is to be repaired. Blocking: reads the slot.

    Raises:
        HostlerError: `upgrade_not_staged`, `downgrade_denied`, `release_withdrawn`, `release_stale`.
    """
    places = installed.places
    slot = slots.whole(places, version, first=installed.running)
    if slot is None:
        raise error("upgrade_not_staged", f"version {version} does not lie on this node, whole")
    if slot.name == installed.running and not repair:
        return None
    _check_order(places, slot)
    if slot.name not in (installed.running, PACKAGED):
        check_offered(installed, slot, who.now_ms)
    return _trial(installed, slot, who, trial_seconds, ACTIVATE, "")


def rollback(installed: Installed, to_version: str, who: Who, trial_seconds: int, reason: str) -> Trial:
    """What has stood a trial here may be returned to, whatever is signed by now: a node that has to go back goes.

    Raises:
        HostlerError: `upgrade_not_staged`; as `activation` for a version that has not stood a trial here.
    """
    places, book = installed.places, records.book(installed.places)
    if to_version:
        slot = slots.whole(places, to_version, first=book.previous or PACKAGED)
    else:
        slot = slots.found(places, book.previous or PACKAGED)
        slot = None if slot is None or slots.damage(places, slot.name) else slot
    if slot is None or slot.name == installed.running:
        raise error("upgrade_not_staged", f"there is no {to_version or 'earlier version'} on this node to return to")
    if slot.name not in (*book.good, book.previous, PACKAGED):
        _check_order(places, slot)
        check_offered(installed, slot, who.now_ms)
    return _trial(installed, slot, who, trial_seconds, ROLLBACK, reason)


def _check_order(places: Places, slot: Found) -> None:
    """Down only where the release itself names the running version as replaced (U3)."""
    release = slots.release_of(places, slot.name)
    if release is not None:
        may_install(release, __version__)
    elif version_key(slot.version) < version_key(__version__):
        raise error("downgrade_denied", f"version {slot.version} is older than {__version__}, and nothing allows that")


def _trial(installed: Installed, slot: Found, who: Who, seconds: int, kind: str, reason: str) -> Trial:
    before = _before(installed, slot)
    return Trial(
        key=who.key,
        task_id=who.task_id,
        kind=kind,
        version=slot.version,
        commit=slot.commit,
        slot=slot.name,
        from_version=before.version,
        from_slot=before.name,
        trial_ms=seconds * 1000,
        baseline_serial=installed.serial(),
        boot_id=who.boot_id,
        ordered_ms=who.now_ms,
        requested_reason=reason,
    )


def _before(installed: Installed, slot: Found) -> Found:
    """Where a failed trial returns to: what runs now, unless that is what is to be mended."""
    places = installed.places
    for name in (installed.running, records.book(places).previous, PACKAGED):
        found = slots.found(places, name) if name else None
        if found is not None and name != slot.name and not slots.damage(places, name):
            return found
    return Found(PACKAGED, __version__, __commit__, "", "")
