"""Decisions → rows and events, in the transaction that is open (DM-12).

Rows of all commands of a group are held back and written together, each row once: a task that is signed,
begun and ended in one group is one insert. Whoever asks SQL first has them written (`flush`), so nobody ever
sees less than what was decided.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import astuple

from hostler.control.kernel.artifacts import ArtifactRow
from hostler.control.kernel.log_rows import LogRow
from hostler.control.kernel.model import KEYS, Decision
from hostler.control.kernel.rows import EnvelopeRow, EventRow, ReceiptRow, Row
from hostler.control.store.tables import NAMES, STATEMENTS
from hostler.control.store.view import StoreView

EVERYTHING = "*"  # the topic of whoever follows the whole log
_RECEIPT = STATEMENTS[ReceiptRow].insert.replace("INSERT", "INSERT OR IGNORE", 1)
_ARTIFACT = STATEMENTS[ArtifactRow].insert.replace("INSERT", "INSERT OR IGNORE", 1)
_ORDER = tuple(type_ for type_ in NAMES if type_ in KEYS)


class Applier:
    """Takes decisions and writes them. Events and log lines share one scale of ids, read at start."""

    def __init__(self, db: sqlite3.Connection, view: StoreView) -> None:
        self._db = db
        self._view = view
        view.before_query = self.flush
        self._inserts: dict[type[Row], dict[Any, Row]] = {}
        self._updates: dict[type[Row], dict[Any, Row]] = {}
        self._envelopes: list[EnvelopeRow] = []
        self._receipts: list[ReceiptRow] = []
        self._artifacts: list[ArtifactRow] = []
        self._numbered: dict[type[Row], list[tuple[Any, ...]]] = {EventRow: [], LogRow: []}
        self._dirty = False
        self._pruned_logs = 0
        self._next = 0
        self.reset()

    def reset(self) -> None:
        """Forgets what was held back and takes up the scale of ids from what is stored."""
        for held in (self._inserts, self._updates, self._envelopes, self._receipts, self._artifacts):
            held.clear()
        for numbered in self._numbered.values():
            numbered.clear()
        self._dirty, self._pruned_logs = False, 0
        query = "SELECT max(coalesce((SELECT max(id) FROM events), 0), coalesce((SELECT max(id) FROM log_lines), 0))"
        self._next = int(self._db.execute(query).fetchone()[0])

    def add(self, decision: Decision) -> dict[str, int]:
        """Takes a decision whole; returns topic → newest id, for those who follow an operation."""
        for type_, rows in decision.inserts.items():
            key = KEYS[type_]
            self._inserts.setdefault(type_, {}).update((key(row), row) for row in rows)
            self._view.remember(type_, rows)
        for type_, rows in decision.updates.items():
            self._change(type_, rows)
            self._view.remember(type_, rows)
        self._envelopes += decision.envelopes
        self._receipts += decision.receipts
        self._artifacts += decision.artifacts
        topics = self._append(decision)
        if decision.deletes:
            self._delete(decision.deletes)
        if decision.pruned_logs:
            self._pruned_logs = max(self._pruned_logs, decision.pruned_logs)
        self._dirty = True  # last: a full cache may have flushed what was added so far
        return topics

    def _delete(self, deletes: Mapping[type[Row], Sequence[Any]]) -> None:
        """After everything that was held back, and from the cache too: nobody reads such a row again."""
        self._dirty = True
        self.flush()
        for type_, keys in deletes.items():
            condition = " AND ".join(f"{name} = ?" for name in type_.KEY)
            rows = (key if isinstance(key, tuple) else (key,) for key in keys)
            self._db.executemany(f"DELETE FROM {NAMES[type_]} WHERE {condition}", rows)  # noqa: S608 - our own names
            self._view.drop(type_, keys)

    def _change(self, type_: type[Row], rows: list[Row]) -> None:
        """A row that is still to be inserted is inserted as it is now."""
        key = KEYS[type_]
        inserts = self._inserts.get(type_)
        updates = self._updates.setdefault(type_, {})
        for row in rows:
            of = key(row)
            if inserts is not None and of in inserts:
                inserts[of] = row
            else:
                updates[of] = row

    def _append(self, decision: Decision) -> dict[str, int]:
        topics: dict[str, int] = {}
        if decision.events:
            topics |= self._number(EventRow, decision.events)
        if decision.logs:
            topics |= self._number(LogRow, decision.logs)
        if topics:
            topics.pop("", None)
            topics[EVERYTHING] = self._next
        return topics

    def _number(self, type_: type[Row], rows: Sequence[EventRow | LogRow]) -> dict[str, int]:
        """Gives rows the next ids; the newest id of each operation and allocation."""
        first = self._next + 1
        self._next += len(rows)
        self._numbered[type_] += [(number, *astuple(row)[1:]) for number, row in enumerate(rows, first)]
        topics = {row.operation_id: number for number, row in enumerate(rows, first)}
        if type_ is EventRow:
            for number, row in enumerate(rows, first):
                if row.resource_name.startswith("allocations/"):  # type: ignore[union-attr]  # an event has it
                    topics[row.resource_name] = number  # type: ignore[union-attr]
        return topics

    def flush(self) -> None:
        """Writes what was held back.

        Raises:
            sqlite3.Error: also for a value that SQLite cannot hold, such as a number of more than 64 bits: its group
                is undone, and whoever brought it fails alone.
        """
        if not self._dirty and not self._inserts and not self._updates:
            return
        self._dirty = False
        try:
            self._flush()
        except (OverflowError, ValueError) as err:
            raise sqlite3.IntegrityError(f"a value cannot be stored: {type(err).__name__}") from err

    def _flush(self) -> None:
        for type_ in _ORDER:
            self._write(type_)
        if self._envelopes:
            self._db.executemany(STATEMENTS[EnvelopeRow].insert, map(astuple, self._envelopes))
            self._envelopes.clear()
        if self._receipts:
            self._db.executemany(_RECEIPT, map(astuple, self._receipts))
            self._receipts.clear()
        if self._artifacts:
            self._db.executemany(_ARTIFACT, map(astuple, self._artifacts))
            self._artifacts.clear()
        for type_, values in self._numbered.items():
            if values:
                self._db.executemany(STATEMENTS[type_].insert, values)
                values.clear()
        if self._pruned_logs:
            self._db.execute("DELETE FROM log_lines WHERE id <= ?", (self._pruned_logs,))
            self._pruned_logs = 0

    def _write(self, type_: type[Row]) -> None:
        """Updates first: a name that one node gave up may be taken by another in the same group."""
        updates = self._updates.pop(type_, None)
        if updates:
            statements = STATEMENTS[type_]
            self._db.executemany(statements.update, map(statements.changes, updates.values()))
        inserts = self._inserts.pop(type_, None)
        if inserts:
            statements = STATEMENTS[type_]
            self._db.executemany(statements.insert, map(statements.values, inserts.values()))
