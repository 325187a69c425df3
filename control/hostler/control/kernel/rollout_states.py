"""Words of rollouts and of their nodes."""

PENDING, RUNNING, SOAKING, ROLLING_BACK = "pending", "running", "soaking", "rolling_back"
SUCCEEDED, FAILED, ROLLED_BACK, SKIPPED = "succeeded", "failed", "rolled_back", "skipped"
AWAITING_APPROVAL, PAUSED, ABORTED = "awaiting_approval", "paused", "aborted"

ROLLOUT_STATES = (RUNNING, AWAITING_APPROVAL, PAUSED, ROLLING_BACK, SUCCEEDED, FAILED, ABORTED, ROLLED_BACK)
NODE_STATES = (PENDING, RUNNING, SOAKING, ROLLING_BACK, SUCCEEDED, FAILED, ROLLED_BACK, SKIPPED)
OPEN = frozenset({PENDING, RUNNING, SOAKING, ROLLING_BACK})  # of a node
CHECKS = ("version_reported", "service_healthy", "renewal_works", "schedulable")  # LC-21

# why a pending node has not begun
NODE_AWAY, NODE_UNHEALTHY, RUN_IN_PROGRESS, SERVER_BUSY = (
    "node_away",
    "node_unhealthy",
    "run_in_progress",
    "server_busy",
)
