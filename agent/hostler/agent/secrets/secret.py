"""`Secret`: bytes that live in one place, which can be wiped.

The place is an anonymous file (`memfd_create`), mapped here and locked into memory: it is never swapped out,
in no core file, in no child's memory, and gone with the process however that ends. Its size is sealed, and
so is writing except through our own mapping. A child gets a read-only descriptor of it, and sees nothing but
zeros once it is wiped.

A `bytes` or `str` cannot be wiped in Python. So material comes in by `bytearray`, which is wiped, or straight
from a descriptor, and nothing here gives it out as either.
"""

import contextlib
import ctypes
import fcntl
import mmap
import os
import weakref
from collections.abc import Iterator
from typing import NoReturn

from hostler.base.errors import error

MAX_BYTES = 64 * 1024
SCRUBBED = "[secret]"
MIN_SCRUBBED = 6  # bytes of a line; a shorter one would turn up in harmless text
_MFD_NOEXEC_SEAL = 0x0008  # Linux 6.3
_F_SEAL_FUTURE_WRITE = 0x0010  # Linux 5.1
_SEALS = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | _F_SEAL_FUTURE_WRITE


class Secret:
    """Attributes:
    wiped: whether the bytes are gone.
    """

    __slots__ = ("__weakref__", "_fd", "_finish", "_map", "_size")

    def __init__(self, size: int) -> None:
        """Room for `size` bytes, all zero. Use `take` or `read_from`.

        Raises:
            HostlerError: `secret_memory` for no bytes, too many, or memory that cannot be locked.
        """
        if not 0 < size <= MAX_BYTES:
            raise error("secret_memory", f"a secret has 1 to {MAX_BYTES} bytes")
        try:
            self._fd, self._map = _locked_memory(size)
        except OSError as err:
            raise error("secret_memory", f"memory for a secret cannot be had: {err.strerror}") from err
        self._size = size
        # Also runs at the end of the process and when the last reference goes.
        self._finish = weakref.finalize(self, _wipe, self._map, self._fd)

    @classmethod
    def take(cls, source: bytearray) -> "Secret":
        """Moves the bytes here and wipes `source`, also when that fails. Raises `secret_memory`."""
        try:
            secret = cls(len(source))
            secret._map[:] = source
        finally:
            source[:] = bytes(len(source))
        secret._seal()
        return secret

    @classmethod
    def read_from(cls, fd: int, limit: int = MAX_BYTES) -> "Secret":
        """Reads a descriptor to its end, straight into place. Raises `secret_memory`, `OSError`."""
        scratch = cls(limit)
        try:
            with memoryview(scratch._map) as room:
                count = 0
                while count < limit and (more := os.readv(fd, [room[count:]])):
                    count += more
                if not 0 < count < limit:
                    raise error("secret_memory", f"a secret read here has 1 to {limit - 1} bytes")
                secret = cls(count)
                with memoryview(secret._map) as place:
                    place[:] = room[:count]
        finally:
            scratch.close()
        secret._seal()
        return secret

    @property
    def wiped(self) -> bool:
        return not self._finish.alive

    def descriptor(self) -> int:
        """A new read-only descriptor at the start of the bytes, for one child. The caller closes it.

        Raises:
            HostlerError: `unknown_handle` once it is wiped.
        """
        if self.wiped:
            raise error("unknown_handle", "the secret has been wiped")
        return os.open(f"/proc/self/fd/{self._fd}", os.O_RDONLY | os.O_CLOEXEC)

    def scrub(self, text: str) -> str:
        """`text` without any line of the secret of at least `MIN_SCRUBBED` bytes."""
        if self.wiped:
            return text
        data = text.encode(errors="surrogatepass")
        with memoryview(self._map) as whole:
            for start, end in self._lines():
                with whole[start:end] as line:
                    if data.find(line) >= 0:
                        data = data.replace(line, SCRUBBED.encode())
        return data.decode(errors="surrogatepass")

    def close(self) -> None:
        """Overwrites the bytes and gives the memory back; again is harmless."""
        self._finish()

    def _lines(self) -> Iterator[tuple[int, int]]:
        start = 0
        while start < self._size:
            end = self._map.find(b"\n", start, self._size)
            end = self._size if end < 0 else end
            if end - start >= MIN_SCRUBBED:
                yield start, end
            start = end + 1

    def _seal(self) -> None:
        fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, _SEALS)

    # -- no way out by accident ----------------------------------------------------------------

    def __repr__(self) -> str:
        return SCRUBBED

    def __format__(self, spec: str) -> str:
        return SCRUBBED

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """For pickle and copy."""
        raise TypeError("a secret cannot be copied")


def _anonymous_file() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("hostler-secret", flags | _MFD_NOEXEC_SEAL)
    except OSError:  # a kernel before 6.3
        return os.memfd_create("hostler-secret", flags)


def _locked_memory(size: int) -> tuple[int, mmap.mmap]:
    fd = _anonymous_file()
    try:
        os.ftruncate(fd, size)
        os.fchmod(fd, 0o444)  # whoever was given a descriptor may open it again, to read
        mapped = mmap.mmap(fd, size)
        _keep_to_ourselves(mapped)
    except BaseException:
        os.close(fd)
        raise
    return fd, mapped


def _keep_to_ourselves(mapped: mmap.mmap) -> None:
    """Not swapped, not dumped, not inherited. Raises `OSError` when it cannot be locked."""
    mapped.madvise(mmap.MADV_DONTDUMP)
    mapped.madvise(mmap.MADV_DONTFORK)
    start = (ctypes.c_char * len(mapped)).from_buffer(mapped)
    try:
        locked = ctypes.CDLL(None, use_errno=True).mlock(ctypes.byref(start), ctypes.c_size_t(len(mapped)))
    finally:
        del start  # it keeps the mapping from being closed
    if locked != 0:
        raise OSError(ctypes.get_errno(), "mlock")


def _wipe(mapped: mmap.mmap, fd: int) -> None:
    mapped[:] = bytes(len(mapped))
    with contextlib.suppress(BufferError):  # somebody still looks; at zeros
        mapped.close()
    os.close(fd)
