"""What systemd starts: picks the slot that runs, and becomes its program. The same for every version.

Standard library only. It never refuses to start something: a slot that is not whole, or that has failed its starts on
trial, is passed over for the one before, and in the end for the installed package.
"""

# ruff: noqa: PTH105, PTH113, PTH115, PTH118, PTH123, S606, T201 - it runs before anything is set up, and pathlib costs more than all it does

import json
import os
import sys

BASE = "/var/lib/hostler-agent"
PACKAGED = "/usr/lib/hostler-agent"
PACKAGED_NAME = "packaged"
MOST_STARTS = 3
PROGRAM = "bin/hostler-agent"
MOST_BYTES = 8 << 20  # of any file that is read here


def candidates(arguments: list[str], base: str = BASE) -> list[str]:
    """Names of slots, the one to run first."""
    trial = _read(os.path.join(base, "trial.json"))
    before = str(trial.get("from_slot", PACKAGED_NAME))
    if arguments[:1] == ["trial"]:
        return [before, PACKAGED_NAME]
    names = [_current(base)]
    if trial:
        counts = starts(trial, base)
        names = [name for name in (*names, before) if counts.get(name, 0) < MOST_STARTS]
    return [*names, PACKAGED_NAME]


def starts(trial: dict[str, object], base: str = BASE) -> dict[str, int]:
    """Slot to how often it was started during this trial, since the machine was."""
    found = _read(os.path.join(base, "starts.json"))
    counts = found.get("counts")
    mine = found.get("key") == trial.get("key") and found.get("boot_id") == _boot_id()
    if not mine or not isinstance(counts, dict):
        return {}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def is_whole(home: str) -> bool:
    """Whether a slot can be started at all: everything it starts with is there, for the Python that is."""
    manifest = _read(os.path.join(home, "manifest.json"))
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    there = all(os.path.isfile(os.path.join(home, name)) for name in ("pyvenv.cfg", "bin/python3", PROGRAM))
    return there and manifest.get("python") == python


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
    """Notes one start of a slot while a version is on trial."""
    trial = _read(os.path.join(base, "trial.json"))
    if not trial:
        return
    counts = starts(trial, base)
    counts[name] = counts.get(name, 0) + 1
    path = os.path.join(base, "starts.json")
    try:
        with open(path + ".new", "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)  # the session's process, which nobody trusts with more, picks by it too
            json.dump({"key": trial.get("key"), "boot_id": _boot_id(), "counts": counts}, file)
        os.replace(path + ".new", path)
    except OSError as err:
        print(f"hostler-agent: {path} cannot be written: {err.strerror}", file=sys.stderr)


def main(arguments: list[str], base: str = BASE, packaged: str = PACKAGED) -> None:
    """Does not come back."""
    name, home = pick(arguments, base, packaged)
    if arguments[:1] == ["run"] and "INVOCATION_ID" in os.environ and os.geteuid() == 0:
        count(name, base)
    python = os.path.join(home, "bin/python3")
    try:
        os.execv(python, [python, "-I", os.path.join(home, PROGRAM), *arguments])
    except OSError as err:
        print(f"hostler-agent: {python} cannot be started: {err.strerror}", file=sys.stderr)
    python = os.path.join(packaged, "bin/python3")
    os.execv(python, [python, "-I", os.path.join(packaged, PROGRAM), *arguments])


def _current(base: str) -> str:
    """The slot that the link names; only a plain name of a slot counts."""
    try:
        folder, _, name = os.readlink(os.path.join(base, "current")).rpartition("/")
    except OSError:
        return PACKAGED_NAME
    return name if folder == "slots" and name and not name.startswith(".") else PACKAGED_NAME


def _read(path: str) -> dict[str, object]:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    main(sys.argv[1:])
