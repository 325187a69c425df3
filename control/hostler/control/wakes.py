"""Who waits for what. Everything here happens on the loop, after a commit."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable

MAX_TOPICS = 20_000


class Wakes:
    """Events for nodes with new envelopes, positions of topics, and callbacks for revoked nodes."""

    def __init__(self) -> None:
        self._nodes: dict[str, asyncio.Event] = {}
        self._news: dict[str, int] = {}
        self._scheduling: dict[str, str] = {}
        self._desired: dict[str, str] = {}
        self.catalogs = 0  # rises with every published catalog
        self._newest: OrderedDict[str, int] = OrderedDict()
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._revoked: list[Callable[[str], None]] = []

    def node(self, node_id: str) -> asyncio.Event:
        """Set when the node has something to be sent; whoever sends clears it first, then reads."""
        return self._nodes.setdefault(node_id, asyncio.Event())

    def news(self, node_id: str) -> int:
        """Rises whenever something new is stored for the node: nothing has to be read while it stands."""
        return self._news.get(node_id, 0)

    def schedule(self, scheduling: dict[str, str]) -> None:
        """What operators now want of nodes; remembered for those that have a session."""
        self._scheduling |= {node_id: word for node_id, word in scheduling.items() if node_id in self._nodes}

    def scheduling(self, node_id: str) -> str:
        """What has changed since the node's session began, "" for nothing."""
        return self._scheduling.get(node_id, "")

    def desire(self, desired: dict[str, str]) -> None:
        """Which agent nodes should have now; remembered for those that have a session."""
        self._desired |= {node_id: version for node_id, version in desired.items() if node_id in self._nodes}

    def desired(self, node_id: str) -> str | None:
        """What has changed since the node's session began, None for nothing."""
        return self._desired.get(node_id)

    def forget(self, node_id: str) -> None:
        """The node's session ended; the next one asks for a new event."""
        self._scheduling.pop(node_id, None)
        self._desired.pop(node_id, None)
        self._nodes.pop(node_id, None)
        self._news.pop(node_id, None)

    def revoked(self, callback: Callable[[str], None]) -> None:
        self._revoked.append(callback)

    async def changed(self, topic: str, after: int, timeout_s: float) -> bool:
        """True once the log of `topic` (an operation id, or `*`) has moved past `after`, False at the timeout."""
        if self._newest.get(topic, 0) > after:
            return True
        event = asyncio.Event()
        self._waiting.setdefault(topic, set()).add(event)
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
            return True
        except TimeoutError:
            return False
        finally:
            waiting = self._waiting.get(topic)
            if waiting is not None:
                waiting.discard(event)
                if not waiting:
                    self._waiting.pop(topic, None)

    def newest(self, topic: str) -> int:
        """The newest id of a topic that anybody was told of, 0 for none."""
        return self._newest.get(topic, 0)

    def touch(self, topic: str) -> None:
        """Wakes the followers of a topic for something that is not in the log."""
        for event in self._waiting.get(topic, ()):
            event.set()

    def publish(self, topics: dict[str, int], nodes: Iterable[str], revoked: Iterable[str]) -> None:
        for topic, position in topics.items():
            self._newest[topic] = position
            self._newest.move_to_end(topic)
            self.touch(topic)
        while len(self._newest) > MAX_TOPICS:
            self._newest.popitem(last=False)
        for node_id in nodes:
            if node_id in self._nodes:
                self._news[node_id] = self._news.get(node_id, 0) + 1
                self._nodes[node_id].set()
        for node_id in revoked:
            for callback in self._revoked:
                callback(node_id)

    def publish_all_nodes(self) -> None:
        """A new catalog: every session has something to send."""
        self.catalogs += 1
        for event in self._nodes.values():
            event.set()
