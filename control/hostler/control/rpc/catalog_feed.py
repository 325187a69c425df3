"""The signed catalog as a message, read from the store once a version and shared by every session."""

from typing import NamedTuple

from hostler.control.engine import Engine
from hostler.v1 import node_pb2
from hostler.wire.codec_node import control_message
from hostler.wire.node import CatalogUpdate


class Update(NamedTuple):
    version: int
    message: node_pb2.ControlMessage


class CatalogFeed:
    """`stale` marks that a newer catalog may be in the store; the next session that asks reads it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._current: Update | None = None
        self._published = -1

    async def newer_than(self, version: int) -> Update | None:
        """The catalog, if it is above `version`."""
        published = self._engine.wakes.catalogs
        if published != self._published:
            stored = await self._engine.reader.catalog()
            self._published = published
            if stored is not None:
                number, manifest, documents = stored
                message = control_message(CatalogUpdate(manifest, tuple(documents)))
                self._current = Update(number, message)
        if self._current is None or self._current.version <= version:
            return None
        return self._current
