"""What systemd starts: picks the slot that runs, and becomes its program. The same for every version.

Standard library only. It never refuses to start something: a slot that is not whole, or that has failed its starts, is
passed over for the one before, and in the end for the installed package. A trial whose record is lost is over: what
ran before it runs.
"""

# ruff: noqa: PTH105, PTH113, PTH115, PTH118, PTH123, S606, T201 - it runs before anything is set up, and pathlib costs more than all it does

import json
import os
import sys

BASE = "/var/lib/hostler-agent"
PACKAGED = "/usr/lib/hostler-agent"
PACKAGED_NAME = "packaged"
MOST_STARTS = 3  # of a version on trial, and of its watcher
MOST_LOOSE_STARTS = 5  # of one that has stood its trial, until it has run for a while or was stopped in order
PROGRAM = "bin/hostler-agent"
READY = "ready.json"  # .NAME.ready.json beside a slot: written when all of it is on disk
WATCHER = "watcher of "
MOST_BYTES = 8 << 20  # of any file that is read here


def candidates(arguments: list[str], base: str = BASE) -> list[str]:
    """Names of slots, the one to run first."""
    trial = _read(os.path.join(base, "trial.json"))
    lost = "" if trial else linked(base, "before")  # what ran before a trial that nobody can read
    counts = starts(trial, base)
    if arguments[:1] == ["trial"]:
        before = lost or str(trial.get("from_slot", PACKAGED_NAME))
        return [before, PACKAGED_NAME] if counts.get(WATCHER + before, 0) < MOST_STARTS else [PACKAGED_NAME]
    if trial:
        before, most = str(trial.get("from_slot", PACKAGED_NAME)), MOST_STARTS
    else:
        before = str(_read(os.path.join(base, "book.json")).get("previous", ""))
        rounds = counts.get(PACKAGED_NAME, 0) // MOST_LOOSE_STARTS  # where nothing starts, each has its turn again
        most = MOST_LOOSE_STARTS * (1 + rounds)
    names = [lost or linked(base, "current") or PACKAGED_NAME, before]
    return [*(name for name in names if name and counts.get(name, 0) < most), PACKAGED_NAME]


def starts(trial: dict[str, object], base: str = BASE) -> dict[str, int]:
    """Slot to how often it was started, since the machine was: during this trial; outside of any, since it last ran
    for a while. A watcher stands under its slot's name with `WATCHER` before it."""
    found = _read(os.path.join(base, "starts.json"))
    counts = found.get("counts")
    boots = ("", found.get("boot_id"))  # the session's unit hides the boot's name from its process
    mine = found.get("key") == trial.get("key", "") and _boot_id() in boots
    if not mine or not isinstance(counts, dict):
        return {}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def is_whole(home: str) -> bool:
    """Whether a slot can be started at all: it was staged to the end, everything it starts with is there, and for the
    Python that is. Whether its libraries are there shows when it starts: to read them all takes longer than that."""
    import hashlib  # where the installed package runs, nobody waits for it

    data = _bytes(os.path.join(home, "manifest.json"))
    slots, _, slot = home.rpartition("/")
    ready = _read(os.path.join(slots, f".{slot}.{READY}")).get("manifest_sha256")
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    there = all(os.path.isfile(os.path.join(home, name)) for name in ("pyvenv.cfg", "bin/python3", PROGRAM))
    return there and ready == hashlib.sha256(data).hexdigest() and _parsed(data).get("python") == python


def pick(arguments: list[str], base: str = BASE, packaged: str = PACKAGED) -> tuple[str, str]:
    """Name and directory of the slot to run."""
    for name in candidates(arguments, base):
        if name == PACKAGED_NAME:
            break  # its turn: it may be what is on trial, and nothing behind it comes first
        home = os.path.join(base, "slots", name)
        if is_whole(home):
            return name, home
    return PACKAGED_NAME, packaged


def count(name: str, base: str = BASE) -> None:
    """Notes one start of a slot, or of its watcher."""
    trial = _read(os.path.join(base, "trial.json"))
    counts = starts(trial, base)
    if not trial and name == PACKAGED_NAME and not counts:
        return  # the usual case: it is nobody's fallback
    counts[name] = counts.get(name, 0) + 1
    path = os.path.join(base, "starts.json")
    try:
        with open(path + ".new", "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)  # the session's process, which nobody trusts with more, picks by it too
            json.dump({"key": trial.get("key", ""), "boot_id": _boot_id(), "counts": counts}, file)
        os.replace(path + ".new", path)
    except OSError as err:
        print(f"hostler-agent: {path} cannot be written: {err.strerror}", file=sys.stderr)


def main(arguments: list[str], base: str = BASE, packaged: str = PACKAGED) -> None:
    """Does not come back."""
    name, home = pick(arguments, base, packaged)
    verb = arguments[0] if arguments else ""
    if verb in ("run", "trial") and "INVOCATION_ID" in os.environ and os.geteuid() == 0:
        count(name if verb == "run" else WATCHER + name, base)
    python = os.path.join(home, "bin/python3")
    try:
        os.execv(python, [python, "-I", os.path.join(home, PROGRAM), *arguments])
    except OSError as err:
        print(f"hostler-agent: {python} cannot be started: {err.strerror}", file=sys.stderr)
    python = os.path.join(packaged, "bin/python3")
    os.execv(python, [python, "-I", os.path.join(packaged, PROGRAM), *arguments])


def linked(base: str, link: str) -> str:
    """The slot that a link of ours names; "" for none. Only a plain name of a slot counts."""
    try:
        folder, _, name = os.readlink(os.path.join(base, link)).rpartition("/")
    except OSError:
        return ""
    return name if folder == "slots" and name and not name.startswith(".") else ""


def _bytes(path: str) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(MOST_BYTES)
    except (OSError, ValueError, TypeError):
        return b""


def _parsed(data: bytes) -> dict[str, object]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _read(path: str) -> dict[str, object]:
    return _parsed(_bytes(path))


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    main(sys.argv[1:])
