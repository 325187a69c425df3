"""A control group for each helper, and so for the one command it runs: ended whole by one write (K6).

Below the agent's own group, which systemd delegates to it. Where there is none that can be written, the helper's
own way of ending a tree stands alone, and receipts say so.
"""

import contextlib
import hashlib
from pathlib import Path

_MEMBERSHIP, _MOUNTS = Path("/proc/self/cgroup"), Path("/proc/self/mountinfo")


class Group:
    """One group. All calls are cheap, and none raises for a group that is gone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def kill(self) -> None:
        """SIGKILL to everything in it at once, however it forked."""
        with contextlib.suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")

    def remove(self) -> bool:
        """Whether it is gone; it is not while a process of it is not yet reaped."""
        with contextlib.suppress(FileNotFoundError):
            try:
                self.path.rmdir()
            except OSError:
                return False
        return True


class Groups:
    """Makes them, and clears up those of an earlier life of the same agent.

    Args:
        owner: what tells this agent from others on the machine.
    """

    def __init__(self, owner: str) -> None:
        self._name = f"hostler-{hashlib.sha256(owner.encode()).hexdigest()[:12]}"
        self._base = _own_group()
        self._ended: list[Group] = []
        self._stale = [Group(path) for path in self._base.glob(f"{self._name}-*")] if self._base is not None else []

    def make(self, pid: int) -> Group | None:
        """A group with the process in it; None where there can be none."""
        self.clear()
        if self._base is None:
            return None
        group = Group(self._base / f"{self._name}-{pid}")
        try:
            group.path.mkdir()
            (group.path / "cgroup.procs").write_text(str(pid))
        except OSError:
            group.remove()
            self._base = None
            return None
        return group

    def end_stale(self) -> None:
        """Ends what an earlier life left, once its helpers have had the time to end and record it themselves."""
        stale, self._stale = self._stale, []
        for group in stale:
            self.ended(group)

    def ended(self, group: Group) -> None:
        """Nothing of it is wanted any more."""
        group.kill()
        self._ended.append(group)
        self.clear()

    def clear(self) -> None:
        self._ended = [group for group in self._ended if not group.remove()]


def _own_group() -> Path | None:
    """This process's own group in the unified hierarchy."""
    try:
        lines = _MEMBERSHIP.read_text().splitlines()
        mounts = [line.split() for line in _MOUNTS.read_text().splitlines()]
    except OSError:
        return None
    own = next((line.partition("::")[2] for line in lines if line.startswith("0::")), None)
    mounted = next((Path(words[4]) for words in mounts if words[words.index("-") + 1] == "cgroup2"), None)
    if own is None or mounted is None:
        return None
    path = mounted / own.lstrip("/")
    return path if (path / "cgroup.kill").exists() or path == mounted else None
