"""The bundle of a task, fetched by the first that wants it and shared by all of its project."""

import asyncio
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from hostler.agent.bundles import place
from hostler.agent.bundles.contract import BundleSettings, Source
from hostler.agent.bundles.shelf import NEW, PART, Shelf, beside
from hostler.agent.bundles.transfer import Part, Transfer
from hostler.agent.containers.workload import TaskFacts
from hostler.agent.host.threads import start
from hostler.base.clock import Clock
from hostler.base.errors import HostlerError, error

T = TypeVar("T")
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ATTEMPT = re.compile(r"[A-Za-z0-9_]{1,128}", re.ASCII)
# Ends after which what was fetched is of no use. After the others it waits for the next try.
_WORTHLESS = frozenset(
    {"digest_mismatch", "size_mismatch", "too_large", "bad_range", "bad_response", "unsafe_archive", "bundle_not_bound"}
)


class BundleCache:
    """Implements `containers.workload.Bundles`. One per agent: nobody else writes below `folder`."""

    def __init__(self, folder: Path, source: Source, settings: BundleSettings, clock: Clock) -> None:
        self._source = source
        self._settings = settings
        self._shelf = Shelf(folder, settings.cache_bytes, clock)
        self._locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    async def fetch(self, facts: TaskFacts, sha256: str) -> Path:
        """The tree, in use by the attempt until `release`. Tasks that want the same wait for one transfer.

        Raises:
            HostlerError: `digest_mismatch`, `unsafe_archive`, `too_large`, `disk_full`, and what the control plane
                answered.
        """
        if not _SHA256.fullmatch(sha256) or not _ATTEMPT.fullmatch(facts.attempt_uid):
            raise error("binding_error", "a bundle is named by its sha256, an attempt by its id")
        tree = self._shelf.tree(facts.org_id, facts.project_id, sha256)
        lock = self._locks.setdefault(tree, asyncio.Lock())
        async with lock:
            if not await asyncio.to_thread(self._shelf.take, tree, facts.attempt_uid):
                try:
                    await self._make_room_and_tree(tree, facts)
                except BaseException:
                    await self.release(facts.attempt_uid)
                    raise
        return tree

    async def release(self, attempt_uid: str) -> None:
        """The attempt uses nothing any more; also for one that never did."""
        await asyncio.to_thread(self._shelf.release, lambda name: name == attempt_uid)

    async def tidy(self) -> None:
        """At a start, before anything is fetched: what a crash left goes; every hold stays."""
        await asyncio.to_thread(self._shelf.tidy)
        await asyncio.to_thread(self._shelf.evict)

    async def _make_room_and_tree(self, tree: Path, facts: TaskFacts) -> None:
        """On a full disk what no task uses goes first; then there is one more try."""
        try:
            await self._make(tree, facts)
        except HostlerError as err:
            if err.code != "disk_full" or not await asyncio.to_thread(self._shelf.evict, 0):
                raise
            await self._make(tree, facts)

    async def _make(self, tree: Path, facts: TaskFacts) -> None:
        path, scratch = beside(tree, PART), beside(tree, NEW)
        try:
            part = await asyncio.to_thread(Part, path, self._settings.reserve_bytes)
            try:
                transfer = Transfer(self._source, self._settings, facts.task_id, facts.attempt_uid, tree.name)
                await transfer.fill(part)
                size = await _stoppable(lambda stop: place.unpack(part.descriptor, scratch, self._settings, stop))
            finally:
                part.close()
        except HostlerError as err:
            if err.code in _WORTHLESS:
                path.unlink(missing_ok=True)
            raise
        await asyncio.shield(asyncio.to_thread(self._shelf.put, tree, size))
        await asyncio.to_thread(self._shelf.evict)


async def _stoppable(work: Callable[[threading.Event], T]) -> T:
    """In a thread that is told when nobody waits any more, and waited for all the same: it has the disk."""
    stop = threading.Event()
    future = start(lambda: work(stop), "hostler-bundle")
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([future])
        future.exception()
        raise
