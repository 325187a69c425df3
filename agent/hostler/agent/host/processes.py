"""Who runs on this node."""

import os
from contextlib import suppress
from pathlib import Path

COMM_BYTES = 15  # what the kernel keeps of a name


class Processes:
    def __init__(self, root: Path) -> None:
        self._proc = root / "proc"

    def count(self, executable: str) -> int:
        """Processes whose executable file, or whose own name, is `executable`; the dead that nobody
        has waited for do not count."""
        pids = (entry for entry in _entries(self._proc) if entry.name.isdigit())
        return sum(1 for pid in pids if _is(pid, executable))


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _is(process: Path, executable: str) -> bool:
    """A process that ends while it is looked at is no longer there."""
    with suppress(OSError):
        name, state = _name_and_state((process / "stat").read_bytes())
        if state in ("Z", "X"):
            return False
        file_name = _file_name(process)
        cut_short = not file_name and executable[:COMM_BYTES] == name  # all there is to compare
        return executable in (file_name, name) or cut_short
    return False


def _name_and_state(stat: bytes) -> tuple[str, str]:
    """`pid (name) state ...`; the name may hold anything, brackets and line ends too."""
    head, _, rest = stat.rpartition(b")")
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    return name, rest.strip()[:1].decode("ascii", "replace")


def _file_name(process: Path) -> str:
    """ "" for kernel threads, and for others' processes when we may not look."""
    try:
        target = os.readlink(process / "exe")  # noqa: PTH115  # the text, not a path to follow
    except OSError:
        return ""
    return target.removesuffix(" (deleted)").rpartition("/")[2]


def hangs(pid: int) -> bool:
    """Whether a process of this machine, or a direct child of it, waits in the kernel where no signal reaches it."""
    waits = False
    for thread in _entries(Path(f"/proc/{pid}/task")):
        with suppress(OSError):
            waits = waits or _state(thread / "stat") == "D"
            waits = waits or any(_state(Path(f"/proc/{child}/stat")) == "D" for child in _children(thread))
    return waits


def _children(thread: Path) -> list[str]:
    return (thread / "children").read_text().split()


def _state(stat: Path) -> str:
    return stat.read_text().rpartition(")")[2].split()[0]
