"""The file that grows beside its final place, and becomes it by one rename.

Every name is used relative to the open directory, never as a path, so that nothing that is swapped
meanwhile is followed. The partial file is ours alone: a link, another's file or one that another
transfer holds is not written to.
"""

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable

from hostler.agent.fetch.checkpoint import Checkpoint, Mark
from hostler.agent.fetch.stream import Gauge, Grown, disk_error
from hostler.base.errors import error

PREFIX = ".hostler-part-"
READ_BYTES = 1 << 20
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # not to hang on a planted FIFO


def partial_name(sha256: str) -> str:
    return PREFIX + sha256[:16]


class Partial:
    """Owns one descriptor. `directory` stays the caller's."""

    def __init__(self, directory: int, final_name: str, sha256: str) -> None:
        """Opens what is there or makes it. Raises `file_error` or `disk_full`."""
        self._directory, self._final, self._name = directory, final_name, partial_name(sha256)
        try:
            self.descriptor = self._open()
        except OSError as err:
            raise disk_error(err) from err
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            self.close()
            raise error("file_error", f"{self._final} is being fetched by another step") from err

    def _open(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            try:
                descriptor = os.open(self._name, _FLAGS, dir_fd=self._directory)
            except OSError as err:
                if isinstance(err, FileNotFoundError):
                    raise
                os.unlink(self._name, dir_fd=self._directory)  # a link, or what cannot be opened
            else:
                if self._is_ours(descriptor):
                    return descriptor
                os.close(descriptor)
                os.unlink(self._name, dir_fd=self._directory)
        return os.open(self._name, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._directory)

    @staticmethod
    def _is_ours(descriptor: int) -> bool:
        found = os.fstat(descriptor)
        return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1

    def resume(
        self, checkpoint: Checkpoint, gauge: Gauge, stopped: Callable[[], bool]
    ) -> tuple[Grown, tuple[Mark, ...]]:
        """Reads again what the checkpoint proves, and cuts off everything behind it.

        Returns the file standing at the last mark that still fits, and the marks that do. An altered
        byte costs what lies behind the mark before it, not the transfer.
        """
        grown, held = Grown(self.descriptor), hashlib.sha256()
        good: list[Mark] = []
        try:
            os.lseek(self.descriptor, 0, os.SEEK_SET)
            for mark in checkpoint.marks:
                read = self._read_up_to(held, mark.offset - (good[-1].offset if good else 0), gauge, stopped)
                if not read or held.hexdigest() != mark.sha256:
                    break
                good.append(mark)
                grown.offset, grown.digest = mark.offset, held.copy()
            os.ftruncate(self.descriptor, grown.offset)
            os.lseek(self.descriptor, grown.offset, os.SEEK_SET)
        except OSError as err:
            raise disk_error(err) from err
        gauge.written = grown.offset
        return grown, tuple(good)

    def _read_up_to(self, held: "hashlib._Hash", count: int, gauge: Gauge, stopped: Callable[[], bool]) -> bool:
        """False when the file ends before. A stop leaves the file as it is."""
        room = memoryview(bytearray(min(READ_BYTES, max(count, 1))))
        while count > 0:
            if stopped():
                raise error("canceled", "reading the partial file again was stopped")
            got = os.readv(self.descriptor, [room[: min(count, len(room))]])
            if got == 0:
                return False
            held.update(room[:got])
            count -= got
            gauge.written += got
        return True

    def sync(self, grown: Grown) -> Mark | None:
        """A mark of all there is, on disk."""
        if not grown.offset:
            return None
        try:
            os.fdatasync(self.descriptor)
        except OSError as err:
            raise disk_error(err) from err
        return Mark(grown.offset, grown.digest.copy().hexdigest())

    def finish(self, mode: int) -> None:
        """Data first, then the name, then the directory: after a power cut there is the old file or
        the whole new one (K7)."""
        try:
            os.fchmod(self.descriptor, mode)
            os.fsync(self.descriptor)
            os.rename(self._name, self._final, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            os.fsync(self._directory)
        except OSError as err:
            raise disk_error(err) from err

    def discard(self) -> None:
        """Leaves nothing that could be mistaken for the artifact or cached as such (A3)."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._name, dir_fd=self._directory)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1
