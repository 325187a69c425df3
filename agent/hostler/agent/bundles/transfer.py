"""One bundle into one partial file: resumed where it stood, hashed on the way, whole or not at all."""

import asyncio
import contextlib
import hashlib
import math
import os
import random
from pathlib import Path

from hostler.agent.bundles.contract import BundleSettings, Source
from hostler.agent.fetch.budget import Budget
from hostler.agent.host.files import write_error
from hostler.base.digest import same_digest
from hostler.base.errors import HostlerError, error

_GROUND = 1 << 20
_BASE_S, _CAP_S = 0.2, 30.0
_READ_BYTES = 1 << 20
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_LATER = frozenset({"controller_unreachable", "store_unavailable", "rate_limited"})


class Part:
    """The file that grows. Blocking; `offset` bytes of it are counted in the digest."""

    def __init__(self, path: Path, reserve_bytes: int) -> None:
        self._path, self._reserve = path, reserve_bytes
        self._digest = hashlib.sha256()
        self.offset = 0
        try:
            self.descriptor = os.open(path, _FLAGS, 0o600)
            while data := os.read(self.descriptor, _READ_BYTES):
                self._digest.update(data)
                self.offset += len(data)
        except OSError as err:
            raise write_error(f"the bundle {path.stem}", err) from err

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, data: bytes) -> None:
        """Raises `disk_full`, `file_error`."""
        try:
            found = os.fstatvfs(self.descriptor)
            if found.f_bavail * found.f_frsize - len(data) < self._reserve:
                raise error("disk_full", f"a bundle needs room, and {self._reserve} bytes stay reserved")
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self.descriptor, rest) :]
        except OSError as err:
            raise write_error(f"the bundle {self._path.stem}", err) from err
        self._digest.update(data)
        self.offset += len(data)

    def begin_again(self) -> None:
        os.ftruncate(self.descriptor, 0)
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        self._digest, self.offset = hashlib.sha256(), 0

    def close(self) -> None:
        os.close(self.descriptor)


class Transfer:
    """Fills a part until it has the digest."""

    def __init__(self, source: Source, settings: BundleSettings, task_id: str, attempt_uid: str, sha256: str) -> None:
        self._source = source
        self._settings = settings
        self._of = (task_id, attempt_uid, sha256)
        self._sha256 = sha256

    async def fill(self, part: Part) -> None:
        """Raises `digest_mismatch`, `size_mismatch`, `bad_range`, `too_large`, `disk_full` and the sender's own."""
        rng = random.Random()
        budget = Budget(self._settings.retries, _GROUND, _BASE_S, _CAP_S, rng)
        while not self._is_whole(part):
            resumed = part.offset
            try:
                await self._some(part)
            except HostlerError as err:
                if err.code not in _LATER:
                    raise
                budget.advanced(part.offset)
                await asyncio.sleep(budget.again(err, left_s=math.inf))
                continue
            if not self._is_whole(part):
                wrong = error("digest_mismatch", f"{part.offset} bytes came, and they are not {self._sha256}")
                if not resumed:
                    raise wrong
                budget.blame(wrong)  # what lay here may be what is wrong: once more, from the first byte
                await asyncio.to_thread(part.begin_again)

    def _is_whole(self, part: Part) -> bool:
        return same_digest(part.sha256, self._sha256)

    async def _some(self, part: Part) -> None:
        """Up to the end of the bundle. Raises `controller_unreachable` where the stream ends before."""
        total = 0
        async with contextlib.aclosing(self._source(*self._of, part.offset)) as pieces:
            async for piece in pieces:
                total = piece.total
                if total > self._settings.max_bytes:
                    raise error("too_large", f"the bundle has {total} bytes, and {self._settings.max_bytes} are taken")
                if piece.offset != part.offset or not piece.data:
                    raise error("bad_range", f"bytes from {part.offset} were asked for, and from {piece.offset} came")
                if part.offset + len(piece.data) > total:
                    raise error("size_mismatch", f"more than the {total} bytes of the bundle came")
                await asyncio.to_thread(part.write, piece.data)
        if part.offset < total:
            raise error("controller_unreachable", f"the bundle was cut at {part.offset} of {total} bytes")
