"""One blob, from its source to its final name, through as many tries as it takes.

The coroutine here owns the transfer: it alone decides, waits and saves. Threads do what blocks and
share with it only the gauge; it ends them by closing the connection under them.
"""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from hostler.agent.fetch.budget import TRANSIENT_STATUS, Budget, Transient, refusal_of, retry_after
from hostler.agent.fetch.checkpoint import Checkpoint, Mark, resumable, source_of
from hostler.agent.fetch.connection import Link, Target, dial, target_of, tls_context
from hostler.agent.fetch.partial import Partial
from hostler.agent.fetch.ranges import Accept, Answer, Held, StartOver, judge
from hostler.agent.fetch.redirects import Redirects
from hostler.agent.fetch.stream import Gauge, Grown, Limits, Stream
from hostler.agent.fetch.watch import Watch
from hostler.agent.host.fetch_settings import FetchSettings
from hostler.agent.host.threads import start
from hostler.base.clock import Clock, Deadline
from hostler.base.digest import same_digest
from hostler.base.errors import HostlerError, error

T = TypeVar("T")

# Ends after which what was fetched is of no use to anyone. After the others it waits to be resumed.
WORTHLESS = frozenset({"digest_mismatch", "size_mismatch", "too_large", "bad_range", "bad_response", "canceled"})


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is asked for.

    Attributes:
        name: final name in `directory`, an open descriptor.
        size, most: exact length and upper bound, 0 for neither.
        allowed: whether a URL may be asked at all; each redirect is put to it as well.
    """

    url: str
    sha256: str
    directory: int
    name: str
    mode: int
    size: int = 0
    most: int = 0
    retries: int = 20
    allowed: Callable[[str], bool]


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Who waits for it: the step's context, without the step."""

    settings: FetchSettings
    clock: Clock
    deadline: Deadline
    cancelled: asyncio.Event
    progress: Callable[[int, int], None]
    note: Callable[[str], None]
    saved: dict[str, Any]
    save: Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class Pulled:
    size_bytes: int
    bytes_transferred: int


async def pull(wanted: Wanted, owner: Owner) -> Pulled:
    """Raises every end that is not the right file at its place; see `WORTHLESS` for what is kept."""
    target = target_of(wanted.url)
    if not wanted.allowed(wanted.url):
        raise error("source_denied", f"{target.shown} is not among the allowed sources")
    if wanted.most and wanted.size > wanted.most:
        raise error("too_large", f"{wanted.size} bytes are more than the {wanted.most} allowed")
    file = Partial(wanted.directory, wanted.name, wanted.sha256)
    transfer = _Transfer(wanted, owner, target, file)
    try:
        return await transfer.run()
    except HostlerError as err:
        if err.code in WORTHLESS or not transfer.grown.offset:
            file.discard()
        raise
    finally:
        transfer.release()


@dataclass
class _Transfer:
    wanted: Wanted
    owner: Owner
    target: Target
    file: Partial
    gauge: Gauge = field(default_factory=Gauge)
    checkpoint: Checkpoint = field(init=False)
    grown: Grown = field(init=False)
    budget: Budget = field(init=False)
    watch: Watch = field(init=False)
    tls: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        settings = self.owner.settings
        self.checkpoint = resumable(self.owner.saved, self.wanted.url)
        self.grown = Grown(self.file.descriptor)
        ground = int(settings.min_rate_bytes_per_s * settings.rate_window_seconds)
        self.budget = Budget(self.wanted.retries, ground, settings.backoff_base_seconds, settings.backoff_cap_seconds)
        self.watch = Watch(self.owner.deadline, self.owner.cancelled, settings, self.gauge, self._tick)

    async def run(self) -> Pulled:
        self.tls = await self._blocking(partial(tls_context, self.owner.settings))
        await self._resume()
        while not self._complete():
            try:
                await self._try_once()
                break
            except Transient as err:
                cause, after_s = error("source_unreachable", str(err)), err.after_s
            except StartOver as err:
                if err.blame:
                    self.budget.blame(err.reason)
                cause, after_s = err.reason, 0.0
                await self._start_over()
            await self._keep_mark()
            await self._before_next_try(cause, after_s)
        return await self._finish()

    def _complete(self) -> bool:
        """Everything was here already: the agent ended between the last byte and the rename."""
        total = self.wanted.size or self.checkpoint.total
        return 0 < total == self.grown.offset

    async def _resume(self) -> None:
        resume = partial(self.file.resume, self.checkpoint, self.gauge, lambda: self.watch.stopped)
        self.grown, marks = await self._blocking(resume)
        # Without a byte held there is no version to continue.
        held = replace(self.checkpoint, marks=marks)
        self.checkpoint = held if marks else Checkpoint(source=source_of(self.wanted.url))
        self.budget.furthest = self.grown.offset
        if self.grown.offset:
            self.owner.note(f"resumes at byte {self.grown.offset}")

    async def _try_once(self) -> None:
        """One request with its redirects, one body. Returns when the source has no more to send."""
        held = Held(self.grown.offset, self.checkpoint.total, self.checkpoint.validator)
        if held.offset and not held.validator.if_range():
            await self._start_over()
            held = Held()
        async with Redirects(self.target, self.wanted.allowed, self.owner.settings.max_redirects) as hops:
            while True:
                dialled = await self.watch.dialled(dial(hops.target, self.owner.settings))
                link = hops.adopt(Link(dialled, hops.target))
                opening = partial(link.open, self.tls, held, self.owner.settings.read_timeout_seconds)
                answer = await self._blocking(opening, link)
                if not hops.follow(answer):
                    break
            self._refuse_status(answer, hops.target)
            accept = judge(answer, held)
            await self._take(accept, link)

    def _refuse_status(self, answer: Answer, target: Target) -> None:
        if answer.status in TRANSIENT_STATUS:
            after = retry_after(answer.get("retry-after"), self.owner.clock.now_ms())
            raise Transient(f"{target.shown} answered with status {answer.status}", after_s=after)
        if 400 <= answer.status < 600 and answer.status != 416:
            raise refusal_of(answer.status, target.shown)

    async def _take(self, accept: Accept, link: Link) -> None:
        wanted, settings = self.wanted, self.owner.settings
        if wanted.most and accept.total > wanted.most:
            raise error("too_large", f"the source has {accept.total} bytes, {wanted.most} are allowed")
        if wanted.size and accept.total and accept.total != wanted.size:
            raise error("size_mismatch", f"the source has {accept.total} bytes, not {wanted.size}")
        if accept.start == 0:
            await self._start_over()
        seen = accept.validator
        self.checkpoint = replace(self.checkpoint, etag=seen.etag, last_modified=seen.last_modified, total=accept.total)
        self._refuse_full_disk(max(accept.length, 0))
        limits = Limits(
            length=accept.length,
            size=wanted.size,
            most=wanted.most,
            free=partial(self._refuse_full_disk, 0),
            mark_bytes=settings.mark_bytes,
            mark_seconds=settings.mark_seconds,
        )
        loop = asyncio.get_running_loop()

        def marked(mark: Mark) -> None:
            loop.call_soon_threadsafe(self._marked, mark)

        stream = Stream(self.grown, self.gauge, limits, marked)
        try:
            await self._blocking(partial(stream.run, link), link)
        finally:
            self.budget.advanced(self.grown.offset)

    def _marked(self, mark: Mark) -> None:
        self.checkpoint = self.checkpoint.with_mark(mark)
        self.watch.unsaved = True

    def _refuse_full_disk(self, more: int) -> None:
        found = os.fstatvfs(self.file.descriptor)
        free, reserve = found.f_bavail * found.f_frsize, self.owner.settings.disk_reserve_bytes
        if free - more < reserve:
            raise error("disk_full", f"{free} bytes are free, {more} are to come and {reserve} stay reserved")

    async def _tick(self) -> None:
        total = self.wanted.size or self.checkpoint.total
        self.owner.progress(self.gauge.written, total)
        if self.watch.unsaved:
            self.watch.unsaved = False
            await self.owner.save(self.checkpoint.to_json())

    async def _keep_mark(self) -> None:
        mark = await self._blocking(partial(self.file.sync, self.grown))
        if mark is not None and mark.offset > self.checkpoint.offset:
            self.checkpoint = self.checkpoint.with_mark(mark)
            await self.owner.save(self.checkpoint.to_json())

    async def _start_over(self) -> None:
        had_marks = bool(self.checkpoint.marks)
        await self._blocking(self.grown.empty)
        self.gauge.written = 0
        self.checkpoint = Checkpoint(source=self.checkpoint.source)
        if had_marks:
            await self.owner.save(self.checkpoint.to_json())

    async def _before_next_try(self, cause: HostlerError, after_s: float) -> None:
        wait = self.budget.again(cause, after_s=after_s, left_s=self.owner.deadline.remaining())
        self.owner.note(f"{cause.message}; tries again in {wait:.1f} s from byte {self.grown.offset}")
        await self.watch.pause(wait)

    async def _finish(self) -> Pulled:
        if self.wanted.size and self.grown.offset != self.wanted.size:
            raise error("size_mismatch", f"{self.grown.offset} bytes arrived, not {self.wanted.size}")
        found = self.grown.digest.hexdigest()
        if not same_digest(found, self.wanted.sha256):
            raise error("digest_mismatch", f"{self.target.shown} has sha256 {found}, not {self.wanted.sha256}")
        await self._blocking(partial(self.file.finish, self.wanted.mode))
        self.owner.progress(self.grown.offset, self.grown.offset)
        return Pulled(self.grown.offset, self.gauge.received)

    async def _blocking(self, work: Callable[[], T], link: Link | None = None) -> T:
        return await self.watch.worker(start(work, "fetch"), link)

    def release(self) -> None:
        self.watch.when_idle(self.file.close)
