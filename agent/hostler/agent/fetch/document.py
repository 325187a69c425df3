"""A small answer, whole in memory: a manifest, a token. Same connection, same rules as for a blob."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from hostler.agent.fetch.blob import Owner
from hostler.agent.fetch.budget import TRANSIENT_STATUS, Budget, Transient, retry_after
from hostler.agent.fetch.connection import Headers, Link, dial, no_headers, target_of, tls_context
from hostler.agent.fetch.ranges import Answer, Held
from hostler.agent.fetch.redirects import Redirects
from hostler.agent.fetch.stream import Gauge
from hostler.agent.fetch.watch import Watch
from hostler.agent.host.threads import start
from hostler.base.errors import error

_PIECE = 65_536
_NO_PROGRESS = 1 << 62  # a small answer is read anew each time: no try is progress over the one before


@dataclass(frozen=True, kw_only=True)
class Question:
    """Attributes:
    most: bytes of the answer that are read; more is `too_large`.
    allowed: whether a URL may be asked; each redirect is put to it as well.
    """

    url: str
    most: int
    allowed: Callable[[str], bool]
    headers: Headers = no_headers
    accept: str = "*/*"
    retries: int = 5


@dataclass(frozen=True)
class Document:
    """What was answered, whatever the status below 500."""

    answer: Answer
    body: bytes


async def read(question: Question, owner: Owner) -> Document:
    """Raises `source_denied`, `source_unreachable`, `bad_response`, `too_large`, `timeout`, `canceled`."""
    settings = owner.settings
    if not question.allowed(question.url):
        raise error("source_denied", f"{target_of(question.url).shown} is not among the allowed sources")
    gauge = Gauge()
    watch = Watch(owner.deadline, owner.cancelled, settings, gauge)
    tls = await watch.worker(start(partial(tls_context, settings), "fetch"), None)
    budget = Budget(question.retries, _NO_PROGRESS, settings.backoff_base_seconds, settings.backoff_cap_seconds)
    while True:
        try:
            async with Redirects(target_of(question.url), question.allowed, settings.max_redirects) as hops:
                while True:
                    link = hops.adopt(Link(await watch.dialled(dial(hops.target, settings)), hops.target))
                    more: Mapping[str, str] = {"Accept": question.accept} | dict(question.headers(hops.target))
                    opening = partial(link.open, tls, Held(), settings.read_timeout_seconds, more)
                    answer = await watch.worker(start(opening, "fetch"), link)
                    del more, opening
                    if not hops.follow(answer):
                        break
                _refuse(answer, hops.target.shown, owner.clock.now_ms())
                body = await _body(watch, link, answer, question.most, gauge)
                return Document(answer, body)
        except Transient as err:
            cause = error("source_unreachable", str(err))
            wait = budget.again(cause, after_s=err.after_s, left_s=owner.deadline.remaining())
            owner.note(f"{cause.message}; tries again in {wait:.1f} s")
            await watch.pause(wait)


def _refuse(answer: Answer, shown: str, now_ms: int) -> None:
    if answer.status in TRANSIENT_STATUS or answer.status >= 500:
        after = retry_after(answer.get("retry-after"), now_ms)
        raise Transient(f"{shown} answered with status {answer.status}", after_s=after)
    encoding = answer.get("content-encoding").strip().lower()
    if encoding not in ("", "identity"):
        raise error("bad_response", f"{shown} encodes its answer as {encoding[:40]!r}, unasked")


async def _body(watch: Watch, link: Link, answer: Answer, most: int, gauge: Gauge) -> bytes:
    text = answer.get("content-length").strip()
    length = int(text) if text.isascii() and text.isdigit() and len(text) < 18 and not answer.chunked else -1

    def work() -> bytes:
        kept, room = bytearray(), memoryview(bytearray(_PIECE))
        while len(kept) != length and (count := link.read_into(room)):
            kept += room[:count]
            gauge.received += count
            if len(kept) > most:
                raise error("too_large", f"the answer is longer than {most} bytes")
        if length >= 0 and len(kept) < length:
            raise Transient("the source cut its answer")
        return bytes(kept[:length] if length >= 0 else kept)

    future: asyncio.Future[bytes] = start(work, "fetch")
    return await watch.worker(future, link)
