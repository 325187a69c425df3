"""How many nodes are in which state, for `/metrics` (OB-08)."""

import sqlite3

_COUNTS = """
SELECT
  total(state = 'active') AS active,
  total(state = 'revoked') AS revoked,
  total(state = 'active' AND connection = 'connected') AS connected,
  total(state = 'active' AND hold != '') AS held,
  total(state = 'active' AND drift != '') AS drifted,
  total(state = 'active' AND health = 'quarantined') AS quarantined,
  total(state = 'active' AND NOT EXISTS (
    SELECT 1 FROM certificates AS c WHERE c.node_id = nodes.node_id AND c.state IN ('issued', 'proved')
    AND c.not_after_ms > :now
  )) AS without_certificate
FROM nodes
"""


def counts(db: sqlite3.Connection, now_ms: int) -> dict[str, int]:
    cursor = db.execute(_COUNTS, {"now": now_ms})
    names = [column[0] for column in cursor.description]
    return {name: int(count) for name, count in zip(names, cursor.fetchone(), strict=True)}
