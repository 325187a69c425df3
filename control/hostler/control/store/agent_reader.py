"""The agents' part of `Reader`."""

from collections.abc import Callable, Coroutine
from typing import Any

from hostler.base.clock import Clock
from hostler.control.store import agent_queries
from hostler.control.store.agent_records import AdminNodes, ChannelView, Lifecycle, ReleaseView, RunView
from hostler.control.store.records import Page

Ask = Callable[..., Coroutine[Any, Any, Any]]


class AgentReader:
    """Made by `Reader`, which runs the queries."""

    def __init__(self, ask: Ask, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock

    async def wanted(self, node_id: str) -> tuple[str, str]:
        """The strongest wish of all parties (`schedulable`, `cordoned`, `draining`), and the agent's version."""
        found: tuple[str, str] = await self._ask(agent_queries.wanted, node_id)
        return found

    async def nodes(self, chosen: dict[str, str], cursor: str, page_size: int) -> AdminNodes:
        """See `store.agent_queries.nodes`."""
        found: AdminNodes = await self._ask(agent_queries.nodes, self._clock.now_ms(), chosen, cursor, page_size)
        return found

    async def lifecycle(self, node_id: str) -> Lifecycle | None:
        found: Lifecycle | None = await self._ask(agent_queries.lifecycle, self._clock.now_ms(), node_id)
        return found

    async def run(self, run_id: str) -> RunView | None:
        found: RunView | None = await self._ask(agent_queries.run, run_id)
        return found

    async def runs(self, chosen: dict[str, str], cursor: str, page_size: int) -> Page[RunView]:
        """Newest first; `chosen` is among node_id, state, rollout_id."""
        found: Page[RunView] = await self._ask(agent_queries.runs, chosen, cursor, page_size)
        return found

    async def releases(self, cursor: str, page_size: int) -> Page[ReleaseView]:
        found: Page[ReleaseView] = await self._ask(agent_queries.releases, cursor, page_size)
        return found

    async def package(self, file: str) -> str:
        """SHA-256 of the file of a release that is offered; "" for none."""
        found: str = await self._ask(agent_queries.package, file)
        return found

    async def channels(self) -> list[ChannelView]:
        found: list[ChannelView] = await self._ask(agent_queries.channels)
        return found
