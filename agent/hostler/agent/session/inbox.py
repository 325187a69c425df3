"""What came down, handed to the pipeline in order. Bounded: a flood waits on the wire, not in memory."""

import asyncio

from hostler.wire.node import CatalogUpdate, KeysetUpdate, Tasks, WorkerPolicy

Item = Tasks | CatalogUpdate | KeysetUpdate | WorkerPolicy


class Inbox:
    """One producer side (stream or long poll), one consumer (the pipeline)."""

    def __init__(self, size: int = 64) -> None:
        self._items: asyncio.Queue[Item] = asyncio.Queue(size)

    async def put(self, item: Item) -> None:
        await self._items.put(item)

    async def get(self) -> Item:
        return await self._items.get()
