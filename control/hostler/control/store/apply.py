"""Decision → rows and events, in the transaction that is open (DM-12)."""

import sqlite3
from collections.abc import Sequence

from msgspec.structs import astuple

from hostler.control.kernel.model import Decision
from hostler.control.kernel.rows import EnvelopeRow, EventRow, LogRow, ReceiptRow, Row
from hostler.control.store.tables import NAMES, STATEMENTS
from hostler.control.store.view import StoreView

_ORDER = {type_: place for place, type_ in enumerate(NAMES)}
EVERYTHING = "*"  # the topic of whoever follows the whole log
_RECEIPT = STATEMENTS[ReceiptRow].insert.replace("INSERT", "INSERT OR IGNORE", 1)


class Applier:
    """Writes decisions. Events and log lines share one scale of ids, kept here and read at start."""

    def __init__(self, db: sqlite3.Connection, view: StoreView) -> None:
        self._db = db
        self._view = view
        self._next = 0
        self.reload()

    def reload(self) -> None:
        """Takes up the scale of ids from what is stored."""
        query = "SELECT max(coalesce((SELECT max(id) FROM events), 0), coalesce((SELECT max(id) FROM log_lines), 0))"
        self._next = int(self._db.execute(query).fetchone()[0])

    def apply(self, decision: Decision) -> dict[str, int]:
        """Writes everything; returns topic → newest id, for those who follow an operation."""
        for type_ in sorted(decision.inserts, key=_ORDER.__getitem__):
            rows = decision.inserts[type_]
            statements = STATEMENTS[type_]
            self._db.executemany(statements.insert, map(statements.values, rows))
            self._view.remember(type_, rows)
        for type_ in sorted(decision.updates, key=_ORDER.__getitem__):
            rows = decision.updates[type_]
            statements = STATEMENTS[type_]
            self._db.executemany(statements.update, map(statements.changes, rows))
            self._view.remember(type_, rows)
        if decision.envelopes:
            statements = STATEMENTS[EnvelopeRow]
            self._db.executemany(statements.insert, map(statements.values, decision.envelopes))
        if decision.receipts:
            self._db.executemany(_RECEIPT, map(astuple, decision.receipts))
        return self._append(decision)

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
        """Inserts rows under the next ids; the newest id of each operation."""
        first = self._next + 1
        self._next += len(rows)
        values = [(number, *astuple(row)[1:]) for number, row in enumerate(rows, first)]
        self._db.executemany(STATEMENTS[type_].insert, values)
        return {row.operation_id: number for number, row in enumerate(rows, first)}
