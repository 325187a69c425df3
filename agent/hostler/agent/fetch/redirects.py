"""Redirects inside the allowlist, and the connections they leave behind (AR-06)."""

from collections.abc import Callable
from types import TracebackType
from typing import Self
from urllib.parse import urljoin

from hostler.agent.fetch.connection import Link, Target, target_of
from hostler.agent.fetch.ranges import Answer
from hostler.base.errors import error

STATUSES = frozenset({301, 302, 303, 307, 308})


class Redirects:
    """Where the next request of one try goes. Closes the links of that try at its end."""

    def __init__(self, target: Target, allowed: Callable[[str], bool], most: int) -> None:
        self.target = target
        self._allowed, self._left, self._most = allowed, most, most
        self._link: Link | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop()

    def adopt(self, link: Link) -> Link:
        self._link = link
        return link

    def follow(self, answer: Answer) -> bool:
        """Whether there is a next hop; `target` is it then.

        Raises `source_denied` for a hop that is not allowed by itself, whoever sent us there.
        """
        if answer.status not in STATUSES:
            return False
        self._drop()
        if self._left <= 0:
            raise error("source_denied", f"{self.target.shown} redirects more than {self._most} times")
        self._left -= 1
        location = answer.get("location")
        if not location:
            raise error("source_denied", f"{self.target.shown} redirects to nowhere")
        try:
            url = urljoin(self.target.url, location).partition("#")[0]
        except ValueError as err:
            raise error("source_denied", f"{self.target.shown} redirects to no well-formed URL") from err
        hop = target_of(url)
        if not self._allowed(url):
            raise error("source_denied", f"{self.target.shown} redirects to {hop.shown}, which is no allowed source")
        self.target = hop
        return True

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()
