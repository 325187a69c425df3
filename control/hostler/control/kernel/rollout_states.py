"""Words of rollouts and of their nodes, and the sets of them that mean something."""

PENDING, RUNNING, SOAKING, ROLLING_BACK = "pending", "running", "soaking", "rolling_back"
SUCCEEDED, FAILED, ROLLED_BACK, SKIPPED = "succeeded", "failed", "rolled_back", "skipped"
AWAITING_APPROVAL, PAUSED, ABORTED = "awaiting_approval", "paused", "aborted"

ROLLOUT_STATES = (RUNNING, AWAITING_APPROVAL, PAUSED, ROLLING_BACK, SUCCEEDED, FAILED, ABORTED, ROLLED_BACK)
NODE_STATES = (PENDING, RUNNING, SOAKING, ROLLING_BACK, SUCCEEDED, FAILED, ROLLED_BACK, SKIPPED)
CHECKS = ("version_reported", "service_healthy", "renewal_works", "schedulable")  # LC-21

# of a node
CHANGING = frozenset({RUNNING, ROLLING_BACK})  # a run of it is open
UNPROVED = CHANGING | {PENDING}  # its wave cannot be watched yet
OPEN = UNPROVED | {SOAKING}  # it has no end yet
MAY_HAVE_IT = frozenset({SOAKING, SUCCEEDED, FAILED})  # the version may be there by the rollout's doing
WENT_WRONG = frozenset({FAILED, ROLLED_BACK, ROLLING_BACK})  # with an error code: the version failed there

# of a rollout
WAITS_FOR_PEOPLE = frozenset({AWAITING_APPROVAL, PAUSED})
WATCHED = WAITS_FOR_PEOPLE | {RUNNING}  # too many failures pause it
MAY: dict[str, frozenset[str]] = {  # what a person may do, from where
    "approve": frozenset({AWAITING_APPROVAL}),
    "pause": frozenset({RUNNING, AWAITING_APPROVAL}),
    "resume": frozenset({PAUSED}),
    "abort": WATCHED | {ROLLING_BACK},
    "rollback": WATCHED | {SUCCEEDED, FAILED, ABORTED},
}

# why a node has not begun, or is not on its way back
NODE_AWAY, NODE_UNHEALTHY, RUN_IN_PROGRESS, SERVER_BUSY, WAITING_FOR_OPERATOR = (
    "node_away",
    "node_unhealthy",
    "run_in_progress",
    "server_busy",
    "waiting_for_operator",
)
