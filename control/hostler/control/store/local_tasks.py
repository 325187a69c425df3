"""The one module that reads tasks (DM-15, FD-24).

Everything that decides or delivers goes through the view `local_tasks` and so never sees a task that was
handed to another cluster; only the `…SHOWN` read the table itself, for people who look at an operation or a job.
"""

from hostler.control.kernel.endpoint_rows import EndpointRow
from hostler.control.kernel.job_rows import JobRow
from hostler.control.kernel.rows import OperationRow, TaskRow
from hostler.control.store.tables import STATEMENTS

COLUMNS = STATEMENTS[TaskRow].columns
_T = ", ".join(f"t.{name}" for name in TaskRow.__struct_fields__)
_J = ", ".join(f"j.{name}" for name in JobRow.__struct_fields__)

ONE = f"SELECT {COLUMNS} FROM local_tasks WHERE task_id = ?"  # noqa: S608
OF_OPERATION = f"SELECT {COLUMNS} FROM local_tasks WHERE operation_id = ?"  # noqa: S608
OPEN_ON_NODE = (
    f"SELECT {COLUMNS} FROM local_tasks WHERE node_id = ? AND finished_at_ms = 0"  # noqa: S608
    " ORDER BY sequence, task_id"
)
BUSY_NODES = "SELECT DISTINCT node_id FROM local_tasks WHERE finished_at_ms = 0 AND node_id != ''"
ASSIGNED = f"SELECT {COLUMNS} FROM local_tasks WHERE finished_at_ms = 0 AND state = 'assigned'"  # noqa: S608
# CROSS JOIN fixes the order of the loops, so that the index is walked and not the whole history.
# Waits too long: past its operation's deadline, or signed, not taken, and its node is there to take it again.
OVERDUE = f"""
    SELECT {_T} FROM nodes n
    CROSS JOIN local_tasks t ON t.node_id = n.node_id AND t.finished_at_ms = 0
    JOIN operations o ON o.operation_id = t.operation_id
    JOIN node_cursors c ON c.node_id = t.node_id
    WHERE t.state IN ('queued', 'assigned') AND (t.sequence = 0 OR t.sequence > c.accepted_sequence)
      AND (o.deadline_ms <= :now
           OR (n.connection = 'connected' AND t.sequence > 0 AND t.expires_at_ms <= :now))
    ORDER BY t.task_id LIMIT :limit
"""  # noqa: S608
# An order to cancel that passed its window unanswered; it is signed again while the node is there.
UNANSWERED = f"""
    SELECT {_T} FROM nodes n
    CROSS JOIN local_tasks t ON t.node_id = n.node_id AND t.finished_at_ms = 0
    JOIN envelopes e ON e.node_id = t.node_id AND e.sequence = t.cancel_sequence
    WHERE n.connection = 'connected' AND t.cancel_requested = 1 AND e.expires_at_ms <= :now LIMIT :limit
"""  # noqa: S608
# A node that has room took it and does not say that it began; signed within the window of times.
STALLED = f"""
    SELECT {_T} FROM nodes n
    CROSS JOIN local_tasks t ON t.node_id = n.node_id AND t.finished_at_ms = 0
    JOIN node_cursors c ON c.node_id = t.node_id
    WHERE n.connection = 'connected' AND n.hold = '' AND n.state = 'active'
      AND t.state = 'assigned' AND t.cancel_requested = 0 AND t.sequence BETWEEN 1 AND c.accepted_sequence
      AND t.expires_at_ms <= :until AND t.expires_at_ms > :after
      AND (SELECT count(*) FROM local_tasks r
           WHERE r.node_id = n.node_id AND r.finished_at_ms = 0 AND r.state = 'running') < n.parallel_tasks
    ORDER BY t.expires_at_ms, t.task_id LIMIT :limit
"""  # noqa: S608
# What a node has not taken yet: above its mark, and still the newest word about an open task, or about an attempt of
# it that was replaced while the node was away.
UNDELIVERED = """
    SELECT e.sequence, e.envelope FROM envelopes e
    JOIN node_cursors c ON c.node_id = e.node_id
    JOIN local_tasks t ON t.task_id = e.task_id
    WHERE e.node_id = :node AND e.sequence > :after AND e.sequence > c.accepted_sequence
      AND ((t.node_id = e.node_id AND t.finished_at_ms = 0
            AND (t.sequence = e.sequence OR t.cancel_sequence = e.sequence))
           OR EXISTS (SELECT 1 FROM stray_attempts s WHERE s.task_id = e.task_id AND s.ended_at_ms = 0
                      AND s.node_id = e.node_id AND s.cancel_sequence = e.sequence))
    ORDER BY e.sequence LIMIT :limit
"""
SIGNED = """
    SELECT t.task_id, t.operation_id, t.node_id, t.state, e.envelope FROM local_tasks t
    JOIN envelopes e ON e.node_id = t.node_id AND e.sequence = t.sequence
    WHERE t.finished_at_ms = 0 ORDER BY t.task_id
"""
ENVELOPE = """
    SELECT e.envelope FROM local_tasks t
    JOIN operations o ON o.operation_id = t.operation_id
    JOIN nodes n ON n.node_id = t.node_id
    JOIN envelopes e ON e.node_id = t.node_id AND e.sequence = t.sequence
    WHERE t.operation_id = :operation AND o.project_id = :project AND :node IN (n.node_id, n.name)
    ORDER BY t.replica_index LIMIT 1
"""
_O = ", ".join(f"o.{name}" for name in OperationRow.__struct_fields__)
WAITING_OPERATIONS = f"""
    SELECT {_O} FROM operations o
    WHERE o.tasks_queued > 0 AND (:type = '' OR o.operation_type = :type) AND EXISTS (
      SELECT 1 FROM local_tasks t JOIN nodes n ON n.node_id = t.node_id
      WHERE t.operation_id = o.operation_id AND t.state = 'queued' AND t.waiting_for = ''
        AND n.connection = 'connected' AND n.hold = '')
    ORDER BY o.operation_id LIMIT :limit
"""  # noqa: S608
# Placed on a node that has been silent for longer than the job puts up with (EF-06).
REROUTE = f"""
    SELECT {_T} FROM nodes n
    CROSS JOIN local_tasks t ON t.node_id = n.node_id AND t.finished_at_ms = 0
    JOIN jobs j ON j.job_id = t.operation_id
    WHERE n.connection = 'lost' AND t.state IN ('assigned', 'running')
      AND j.reroute_after_ms > 0 AND n.last_seen_ms + j.reroute_after_ms <= :now
    ORDER BY t.task_id LIMIT :limit
"""  # noqa: S608
# Has used up what it may with what runs now, in it and below it.
BEYOND_BUDGET = f"""
    SELECT {_J} FROM jobs j WHERE j.budget_ms > 0 AND j.gone_ms = 0 AND j.budget_ms <= j.task_ms + (
      WITH RECURSIVE tree (job_id) AS (
        SELECT j.job_id
        UNION SELECT c.job_id FROM tree JOIN jobs c ON c.parent_id = tree.job_id AND c.parent_id != '')
      SELECT coalesce(sum(max(0, :now - t.started_at_ms)), 0) FROM tree
      CROSS JOIN local_tasks t ON t.operation_id = tree.job_id
      WHERE t.finished_at_ms = 0 AND t.started_at_ms > 0)
    ORDER BY j.job_id LIMIT :limit
"""  # noqa: S608
# A job's tasks for people, a page of them, with the node of the present attempt.
OF_JOB_SHOWN = """
    SELECT t.task_id, t.replica_index AS task_index, t.state, t.node_id, coalesce(n.name, t.node_id) AS node,
      coalesce(n.connection, '') AS connection, t.attempt_number, t.attempt_uid, t.error_code, t.error_message,
      t.cancel_requested, t.waiting_for, j.pending, j.leaving, j.failures, j.preemptions, j.reason, j.detail
    FROM job_tasks j JOIN tasks t ON t.task_id = j.task_id LEFT JOIN nodes n ON n.node_id = t.node_id
    WHERE j.job_id = :job AND j.task_index > :after ORDER BY j.task_index LIMIT :limit
"""
OPEN_COUNTS = "SELECT state, count(*) FROM local_tasks WHERE finished_at_ms = 0 GROUP BY state"
SHOWN = f"SELECT {COLUMNS} FROM tasks WHERE operation_id = ? ORDER BY replica_index, task_id"  # noqa: S608
IDS_SHOWN = "SELECT task_id FROM tasks WHERE operation_id = ?"
_E = ", ".join(f"e.{name}" for name in EndpointRow.__struct_fields__)
# An endpoint lives as long as its lease and the attempt that holds it, whichever is shorter (TE-11).
_LIVE = """FROM endpoints e JOIN local_tasks t ON t.task_id = e.task_id AND t.attempt_uid = e.attempt_uid
    JOIN nodes n ON n.node_id = e.node_id
    WHERE e.state = 'registered' AND t.finished_at_ms = 0
      AND (e.lease_deadline_ms IS NULL OR e.lease_deadline_ms > :now) AND e.project_id = :project"""
ENDPOINTS_NAMED = f"""
    SELECT {_E}, n.name AS node_name {_LIVE} AND e.org_id = :org AND e.namespace = :namespace
      AND (:name = '' OR e.name = :name) ORDER BY e.name, e.task_id, e.endpoint_id LIMIT :limit
"""
ENDPOINTS_SHOWN = f"""
    SELECT {_E}, n.name AS node_name {_LIVE} AND (:namespace = '' OR e.namespace = :namespace)
      AND (:name = '' OR e.name = :name) AND (e.task_id, e.endpoint_id) > (:task, :endpoint)
    ORDER BY e.task_id, e.endpoint_id LIMIT :limit
"""
ENDPOINT_SHOWN = f"SELECT {_E}, n.name AS node_name {_LIVE} AND e.task_id = :task AND e.endpoint_id = :endpoint"
ENDPOINTS_OVER = f"""
    SELECT {_E} FROM endpoints e INDEXED BY endpoints_live
    LEFT JOIN local_tasks t ON t.task_id = e.task_id AND t.attempt_uid = e.attempt_uid
    WHERE e.state = 'registered' AND (e.lease_deadline_ms <= :now OR t.task_id IS NULL OR t.finished_at_ms != 0)
    LIMIT :limit
"""  # noqa: S608
# The job that a running attempt belongs to, for who speaks for it (`rpc.task_calls`).
CALLER = """
    SELECT o.org_id, o.project_id, o.operation_id, o.operation_type, o.requested_by_user_id, o.correlation_id,
      o.cancel_requested_ms, o.inputs, t.task_id, t.attempt_uid, t.node_id, t.replica_index, t.state
    FROM local_tasks t JOIN operations o ON o.operation_id = t.operation_id
    WHERE t.task_id = :task AND t.attempt_uid = :attempt AND t.node_id = :node AND t.finished_at_ms = 0
"""
