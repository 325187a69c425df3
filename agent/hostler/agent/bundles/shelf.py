"""What lies on this node's disk, and who uses it. Blocking.

    FOLDER/PROJECT/SHA256          the tree: owned by the agent, writable by nobody
    FOLDER/PROJECT/SHA256.part     a transfer that goes on, or was cut
    FOLDER/PROJECT/SHA256.new      being unpacked; of no use after a crash
    FOLDER/PROJECT/SHA256.use      `size`, and a file for each attempt that uses it; its time is that of the last use

PROJECT is a digest of tenant and project: nothing of another project is ever found, by whatever digest (AZ-10).
"""

import contextlib
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from hostler.agent.bundles import place
from hostler.agent.host.files import write_error
from hostler.base.clock import Clock
from hostler.base.logs import get_logger

_log = get_logger("hostler.agent.bundles")
PART, NEW, USE, GONE, SIZE = ".part", ".new", ".use", ".gone", "size"
_STALE_MS = 86_400_000


def beside(tree: Path, ending: str) -> Path:
    return tree.with_name(tree.name + ending)


class Shelf:
    """Nobody else writes below `folder`."""

    def __init__(self, folder: Path, most_bytes: int, clock: Clock) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._clock = clock
        self._uses = threading.Lock()  # a tree is taken into use, or away, never both

    def tree(self, org_id: str, project_id: str, sha256: str) -> Path:
        project = hashlib.sha256(f"{org_id}\0{project_id}".encode()).hexdigest()[:32]
        return self._folder / project / sha256

    def take(self, tree: Path, attempt_uid: str) -> bool:
        """Into use, before anybody may take it away; → whether it is there. Raises `disk_full`, `file_error`."""
        use = beside(tree, USE)
        with self._uses:
            try:
                use.mkdir(parents=True, exist_ok=True, mode=0o700)
                (use / attempt_uid).touch(mode=0o600)
                self._used(use)
            except OSError as err:
                raise write_error(f"the bundle {tree.name}", err) from err
            return tree.is_dir()

    def put(self, tree: Path, size: int) -> None:
        """What was unpacked beside it becomes the tree; the transfer has done its work.

        Raises `disk_full`, `file_error`.
        """
        use = beside(tree, USE)
        try:
            (use / SIZE).write_text(str(size))
            place.put(beside(tree, NEW), tree)
            beside(tree, PART).unlink(missing_ok=True)
            self._used(use)
        except OSError as err:
            raise write_error(f"the bundle {tree.name}", err) from err
        _log.info("bundle.unpacked", sha256=tree.name, bytes=size)

    def release(self, ends: Callable[[str], bool]) -> None:
        """Every hold of an attempt for which that is so."""
        with self._uses:
            for use in self._folder.glob(f"*/*{USE}"):
                for held in use.iterdir():
                    if held.name != SIZE and ends(held.name):
                        held.unlink(missing_ok=True)
                        self._used(use)

    def evict(self, most_bytes: int | None = None) -> int:
        """Least recently used first, until the rest fits; what a task uses stays. → how many went."""
        kept = sorted(self._kept(), key=lambda each: each.used_ns)
        over = sum(each.size for each in kept) - (self._most_bytes if most_bytes is None else most_bytes)
        gone = 0
        for each in kept:
            if over <= 0:
                break
            if self._take_away(each.tree):
                over -= each.size
                gone += 1
        return gone

    def tidy(self) -> None:
        """What a crash left: trees half made or half gone, and transfers that nobody went on with for a day."""
        for path in [*self._folder.glob(f"*/*{NEW}"), *self._folder.glob(f"*/*{GONE}")]:
            place.remove(path)
        for use in self._folder.glob(f"*/*{USE}"):
            if not use.with_name(use.name.removesuffix(USE)).is_dir() and all(h.name == SIZE for h in use.iterdir()):
                shutil.rmtree(use, ignore_errors=True)
        for part in self._folder.glob(f"*/*{PART}"):
            with contextlib.suppress(OSError):
                if part.stat().st_mtime * 1000 < self._clock.now_ms() - _STALE_MS:
                    part.unlink()

    def _take_away(self, tree: Path) -> bool:
        use, gone = beside(tree, USE), beside(tree, GONE)
        with self._uses:
            if not tree.is_dir():
                return False  # another one made room at the same time
            if any(held.name != SIZE for held in use.iterdir()):
                return False
            tree.rename(gone)
            shutil.rmtree(use, ignore_errors=True)
        place.remove(gone)
        _log.info("bundle.evicted", sha256=tree.name)
        return True

    def _kept(self) -> "Iterator[_Kept]":
        for use in self._folder.glob(f"*/*{USE}"):
            tree = use.with_name(use.name.removesuffix(USE))
            with contextlib.suppress(OSError, ValueError):
                if tree.is_dir():
                    yield _Kept(tree, int((use / SIZE).read_text()), use.stat().st_mtime_ns)

    def _used(self, use: Path) -> None:
        now_ns = self._clock.now_ms() * 1_000_000
        os.utime(use, ns=(now_ns, now_ns))


class _Kept(NamedTuple):
    tree: Path
    size: int
    used_ns: int
