"""Commands as they were executed, each with its moment and the ids it drew; and the store's state as one digest."""

import hashlib
import sqlite3
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hostler.control.engine import Engine, SystemIds
from hostler.control.kernel.all_commands import Command
from hostler.control.kernel.model import Settings
from support.control import Fleet, FrozenClock, fleet_in
from support.keys import Keys


class Recorded(NamedTuple):
    now_ms: int
    command: Command


class RecordedIds:
    """The system's randomness, written down."""

    def __init__(self) -> None:
        self._source = SystemIds()
        self.drawn: list[str | bytes] = []

    def new(self, prefix: str, now_ms: int) -> str:
        made = self._source.new(prefix, now_ms)
        self.drawn.append(made)
        return made

    def nonce(self) -> bytes:
        made = self._source.nonce()
        self.drawn.append(made)
        return made


class ReplayedIds:
    """The same draws in the same order; another draw than the recorded one ends the replay."""

    def __init__(self, drawn: Iterable[str | bytes]) -> None:
        self._drawn: Iterator[str | bytes] = iter(drawn)

    def new(self, prefix: str, now_ms: int) -> str:
        made = next(self._drawn)
        assert isinstance(made, str), "an id was drawn where a nonce was"
        assert made.startswith(f"{prefix}_"), f"an id {prefix} was drawn where {made} was"
        return made

    def nonce(self) -> bytes:
        made = next(self._drawn)
        assert isinstance(made, bytes), "a nonce was drawn where an id was"
        return made

    def left(self) -> int:
        return sum(1 for _ in self._drawn)


class RecordedFleet(Fleet):
    """A fleet whose every command is written down, refused ones too."""

    def __init__(self, engine: Engine, keys: Keys, clock: FrozenClock) -> None:
        super().__init__(engine, keys, clock)
        self.recorded: list[Recorded] = []

    async def execute(self, command: Any) -> Any:
        self.recorded.append(Recorded(self.clock.now, command))
        return await super().execute(command)


async def replay(
    recorded: Iterable[Recorded], ids: ReplayedIds, keys: Keys, directory: Path, settings: Settings | None = None
) -> str:
    """The digest of a fresh store after the same commands; refusals are part of the history."""
    from hostler.base.errors import HostlerError

    clock = FrozenClock()
    async with fleet_in(directory, keys=keys, clock=clock, ids=ids, settings=settings) as fleet:
        for now_ms, command in recorded:
            clock.now = now_ms
            try:
                await fleet.engine.execute(command)
            except HostlerError:
                continue
    assert ids.left() == 0
    return state_hash(directory / "control.db")


def state_hash(store: Path) -> str:
    """SHA-256 over every row of every table, in order of its columns' values."""
    db = sqlite3.connect(store)
    try:
        digest = hashlib.sha256()
        for table in tables(db):
            digest.update(f"\0{table}\0".encode())
            columns = len(db.execute(f"SELECT * FROM {table} LIMIT 0").description)
            order = ", ".join(str(n) for n in range(1, columns + 1))
            for row in db.execute(f"SELECT * FROM {table} ORDER BY {order}"):
                for value in row:
                    data = _bytes(value)
                    digest.update(struct.pack(">Q", len(data)) + data)
        return digest.hexdigest()
    finally:
        db.close()


def tables(db: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    return [row[0] for row in db.execute(query)]


def count_events(store: Path) -> dict[str, int]:
    db = sqlite3.connect(store)
    try:
        return dict(db.execute("SELECT type, count(*) FROM events GROUP BY type"))
    finally:
        db.close()


def _bytes(value: object) -> bytes:
    """With its type, so that a number is never taken for its text."""
    return b"b" + value if isinstance(value, bytes) else f"{type(value).__name__} {value}".encode()
