"""The versions that lie on this node: which there are, which of them are whole, and the link to the one that runs.

Blocking: whoever runs a loop calls these from a thread, but for `current` and `listing`, which read a few small files.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from hostler.agent.upgrade import records
from hostler.agent.upgrade.launch import READY
from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.base.digest import sha256_hex
from hostler.base.errors import HostlerError, error
from hostler.pki import agent_report
from hostler.pki.manifest import MANIFEST, MAX_MANIFEST_BYTES, Manifest, differences, parse_manifest
from hostler.pki.releases import Release, may_install
from hostler.pki.storage import sync_directory

NEW = ".new-"
RELEASE = "release.json"  # beside the slots: what the update keys signed of each
_MARKS = (READY, RELEASE)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Found(NamedTuple):
    """A slot by what it says of itself."""

    name: str
    version: str
    commit: str
    suite: str
    python: str


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """That all of a slot is on disk, by its manifest; the launcher starts none without it."""

    manifest_sha256: str


class _Short(msgspec.Struct, frozen=True):
    """The head of a manifest: what is needed of it without its list of files."""

    version: str
    commit: str
    suite: str
    python: str


def current(places: Places) -> str:
    """The slot that the next start picks, unless it is not whole or has failed its starts."""
    return _named(places, places.current) or PACKAGED


def switch(places: Places, slot: str) -> None:
    """The next start picks `slot`; whoever looks sees the one before or this one. On disk when it returns."""
    if slot == PACKAGED:
        places.current.unlink(missing_ok=True)
        sync_directory(places.base)
    else:
        _link(places, places.current, slot)


def before(places: Places) -> str:
    """The slot that ran before the trial; "" outside of one."""
    return _named(places, places.before)


def note_before(places: Places, slot: str) -> None:
    """On disk when it returns; `slot` may be slot zero."""
    if before(places) != slot:
        _link(places, places.before, slot)


def forget_before(places: Places) -> None:
    """On disk when it returns."""
    places.before.unlink(missing_ok=True)
    sync_directory(places.base)


def _named(places: Places, link: Path) -> str:
    try:
        leads = link.readlink()
    except OSError:
        return ""
    plain = len(leads.parts) == 2 and leads.parts[0] == places.slots.name
    return leads.name if plain and not leads.name.startswith(".") else ""


def _link(places: Places, link: Path, slot: str) -> None:
    fresh = places.base / f".{link.name}.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(f"{places.slots.name}/{slot}")
    fresh.replace(link)
    sync_directory(places.base)


def found(places: Places, slot: str) -> Found | None:
    """None for one that is not there, or has no manifest."""
    try:
        with (places.home(slot) / MANIFEST).open("rb") as file:
            short = msgspec.json.decode(file.read(MAX_MANIFEST_BYTES), type=_Short)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return Found(slot, short.version, short.commit, short.suite, short.python)


def every(places: Places) -> tuple[Found, ...]:
    """Slot zero first."""
    try:
        names = sorted(path.name for path in places.slots.iterdir() if not path.name.startswith("."))
    except OSError:
        names = []
    return tuple(one for name in (PACKAGED, *names) if (one := found(places, name)) is not None)


def damage(places: Places, slot: str) -> tuple[str, ...]:
    """What of a slot is not as it was built; reads every file of it."""
    home = places.home(slot)
    try:
        manifest = read_manifest(home)
        units = None if slot == PACKAGED else home / "units"
        unmarked = () if is_ready(places, slot) else (READY,)
        return unmarked + differences(home, manifest, units=units, bytecode=True)
    except (HostlerError, OSError):
        return (MANIFEST,)


def read_manifest(home: Path) -> Manifest:
    """Raises `OSError`, `release_untrusted`."""
    with (home / MANIFEST).open("rb") as file:
        return parse_manifest(file.read(MAX_MANIFEST_BYTES + 1))


def is_ready(places: Places, slot: str) -> bool:
    """Whether it was staged to its end; dpkg answers for slot zero."""
    ready = records.read(_beside(places, slot, READY), Ready)
    return slot == PACKAGED or (ready is not None and ready.manifest_sha256 == _manifest_digest(places, slot))


def note_ready(places: Places, slot: str) -> None:
    """When everything of it is on disk. Raises `file_error`."""
    records.write(_beside(places, slot, READY), Ready(manifest_sha256=_manifest_digest(places, slot)))


def forget_ready(places: Places, slot: str) -> None:
    _beside(places, slot, READY).unlink(missing_ok=True)
    sync_directory(places.slots)


def _manifest_digest(places: Places, slot: str) -> str:
    try:
        return sha256_hex((places.home(slot) / MANIFEST).read_bytes())
    except OSError:
        return ""


def _beside(places: Places, slot: str, what: str) -> Path:
    return places.slots / f".{slot}.{what}"


def whole(places: Places, version: str, *, first: str = "") -> Found | None:
    """A slot of that version that is as it was built: `first` if it is, else any but one that failed its trial,
    else any."""
    bad = records.book(places).bad
    fitting = [one for one in every(places) if one.version == version]
    fitting.sort(key=lambda one: (one.name != first, one.name in bad, one.name == PACKAGED, one.name))
    return next((one for one in fitting if not damage(places, one.name)), None)


def free_name(places: Places, version: str, commit: str) -> str:
    """For a new slot of a version; another one of it may lie there, damaged and in use."""
    stem = f"{version}-{commit[:8]}"
    names = [stem, *(f"{stem}.{number}" for number in range(2, 100))]
    return next(name for name in names if not places.home(name).exists())


def release_of(places: Places, slot: str) -> Release | None:
    """What the update keys signed of a slot when it was staged; None for slot zero, which dpkg has installed."""
    return records.read(_beside(places, slot, RELEASE), Release)


def note_release(places: Places, slot: str, release: Release) -> None:
    records.write(_beside(places, slot, RELEASE), release)


def prepare(places: Places) -> None:
    """The directories, whatever the umask. Raises `file_error`."""
    try:
        for folder, mode in ((places.base, 0o755), (places.slots, 0o755), (places.fetched, 0o700)):
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(mode)
    except OSError as err:
        raise error("file_error", f"{err.filename} cannot be made: {err.strerror}") from err


def prune(places: Places, keep: frozenset[str]) -> tuple[str, ...]:
    """Removes slots that nobody goes back to, and what broken stages left; → their names."""
    trial = records.trial(places)
    book = records.book(places)
    kept = (
        keep
        | {current(places), before(places), book.previous, places.running()}
        | ({trial.slot, trial.from_slot} if trial else set())
    )
    names = [path.name for path in places.slots.iterdir()]
    for name in names:  # the marks first: what is half removed is no slot
        slot = next((name[1 : -len(mark) - 1] for mark in _MARKS if name.endswith(f".{mark}")), "")
        if slot and slot not in kept:
            (places.slots / name).unlink(missing_ok=True)
    sync_directory(places.slots)
    gone = [name for name in names if name not in kept and not name.endswith(_MARKS)]
    for name in gone:
        shutil.rmtree(places.slots / name, ignore_errors=True)
        with contextlib.suppress(OSError):  # a file that was cut off while it was written
            (places.slots / name).unlink(missing_ok=True)
    left = {one.name for one in every(places)}
    tidy = msgspec.structs.replace(
        book,
        good=tuple(name for name in book.good if name in left),
        bad={name: why for name, why in book.bad.items() if name in left},
    )
    if tidy != book:
        records.write(places.book, tidy)
    return tuple(sorted(gone))


def listing(places: Places, running: str = "") -> tuple[agent_report.Slot, ...]:
    """For the node's report. `running`: the slot of this process; by default as `Places.running` says."""
    running = running or places.running()
    book, trial = records.book(places), records.trial(places)
    previous, there = trial.from_slot if trial else book.previous, every(places)
    version = next((one.version for one in there if one.name == running), "")

    def state(one: Found) -> str:
        if one.name == running:
            return "running"
        if one.name in book.bad:
            return "bad"
        if one.name == previous:
            return "previous"
        if one.name == PACKAGED:
            return "packaged"
        if one.name in book.good:
            return "kept"
        return "staged" if _is_ahead(places, one, version) else "superseded"

    return tuple(agent_report.Slot(version=one.version, commit=one.commit, state=state(one)) for one in there)


def _is_ahead(places: Places, one: Found, running_version: str) -> bool:
    """Whether a node that runs `running_version` might go there."""
    release = release_of(places, one.name)
    try:
        if release is not None:
            may_install(release, running_version)
    except HostlerError:
        return False
    return release is not None


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[int]:
    """An open directory, by its descriptor."""
    descriptor = os.open(folder, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
