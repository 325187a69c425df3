"""A file system that hangs as a dead NFS server does: whoever looks into it waits where no signal reaches him.

A bare FUSE mount whose server takes requests and never answers. `release` answers for it: all come back with an error.
"""

import ctypes
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import ALL, need_root

_libc = ctypes.CDLL(None, use_errno=True)
_REQUEST, _ANSWER = struct.Struct("=IIQQIIII"), struct.Struct("=IiQ")
_INIT, _BUFFER = 26, 1 << 18
_FORCE_AND_DETACH = 1 | 2


class Hanging:
    """`path`: below it every name hangs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if _libc.mount(b"hanging", bytes(path), b"fuse.hanging", 0, options) != 0:
            os.close(self._fd)
            raise OSError(ctypes.get_errno(), "the hanging file system cannot be mounted")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Everybody who hangs comes back."""
        if self._fd >= 0:
            _libc.umount2(bytes(self.path), _FORCE_AND_DETACH)
            self._thread.join(5)
            os.close(self._fd)
            self._fd = -1

    def _serve(self) -> None:
        while True:
            try:
                data = os.read(self._fd, _BUFFER)
            except OSError:
                return  # unmounted
            _, operation, unique, *_ = _REQUEST.unpack_from(data)
            if operation == _INIT:
                _, minor, ahead, _ = struct.unpack_from("=IIII", data, _REQUEST.size)
                said = struct.pack("=IIIIHHI", 7, min(minor, 31), ahead, 0, 0, 0, 131_072).ljust(64, b"\0")
                os.write(self._fd, _ANSWER.pack(_ANSWER.size + len(said), 0, unique) + said)


@contextmanager
def hanging(path: Path) -> Iterator[Hanging]:
    """Mounted over `path`; gone afterwards, and nobody hangs any more."""
    need_root()
    if not Path("/dev/fuse").exists():
        message = "this kernel has no FUSE, so nothing can be made to hang"
        pytest.fail(message) if ALL else pytest.skip(message)
    path.mkdir(parents=True, exist_ok=True)
    made = Hanging(path)
    try:
        yield made
    finally:
        made.release()
