"""What must hold in the store after every story, whatever it was. Each is a query that finds nothing."""

import sqlite3

FINAL = "('succeeded', 'failed', 'canceled')"
ENDS = "('operation.completed', 'operation.failed', 'operation.canceled')"

NOTHING_FOUND = {
    "a row that refers to nothing": "SELECT * FROM pragma_foreign_key_check",
    "an open task of an ended operation": f"""
        SELECT t.task_id FROM local_tasks t JOIN operations o USING (operation_id)
        WHERE o.status IN {FINAL} AND t.state NOT IN {FINAL}""",
    "an ended operation without its time": f"""
        SELECT operation_id FROM operations WHERE (status IN {FINAL}) != (finished_at_ms > 0)""",
    "an attempt of an operation with two ends, or an ended one without": f"""
        SELECT o.operation_id FROM operations o LEFT JOIN events e
          ON e.operation_id = o.operation_id AND e.type IN {ENDS}
        GROUP BY o.operation_id HAVING count(e.id) != o.attempt_number - (o.status NOT IN {FINAL})""",
    "two envelopes of one sequence, or a sequence nobody gave out": """
        SELECT e.node_id FROM envelopes e JOIN node_cursors c USING (node_id) WHERE e.sequence > c.sequence""",
    "a task whose envelope has another digest than its row says": """
        SELECT t.task_id FROM local_tasks t JOIN envelopes e ON e.node_id = t.node_id AND e.sequence = t.sequence
        WHERE e.digest != t.envelope_digest""",
    "a step that claims a receipt which is not there": """
        SELECT s.task_id FROM operation_steps s WHERE s.receipt_digest != ''
        AND NOT EXISTS (SELECT 1 FROM receipts r WHERE r.digest = s.receipt_digest)""",
    "a present attempt that has no row": """
        SELECT t.task_id FROM local_tasks t LEFT JOIN task_attempts a USING (attempt_uid)
        WHERE a.task_id IS NULL OR a.task_id != t.task_id OR a.attempt_number != t.attempt_number""",
    "an ended task with an open attempt": f"""
        SELECT t.task_id FROM local_tasks t JOIN task_attempts a USING (attempt_uid)
        WHERE t.state IN {FINAL} AND a.state = 'open'""",
    "an audit line without actor, scope or result": """
        SELECT id FROM audit_logs WHERE scope = '' OR result = ''""",
    "a secret in any event": "SELECT id FROM events WHERE body LIKE '%hst1_%' OR body LIKE '%PRIVATE KEY%'",
}


def broken(db: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    """Every invariant that does not hold, with what breaks it."""
    found = {name: db.execute(query).fetchall() for name, query in NOTHING_FOUND.items()}
    return {name: rows for name, rows in found.items() if rows}
