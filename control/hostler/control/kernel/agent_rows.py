"""Rows of the agents on the nodes: releases there are, what each node should run, runs that bring it there, rollouts.

Times are Unix milliseconds, 0 for never. Booleans are 0 and 1; `plan`, `checks` and the like are JSON.
"""

from hostler.control.kernel.rows import Row


class ReleaseRow(Row, frozen=True, kw_only=True):
    """A package of one version for one Debian release, as the update keys signed it."""

    KEY = ("version", "suite")
    FIXED = ("file", "published_at_ms", "published_by")

    version: str
    suite: str
    commit_id: str
    file: str
    sha256: str
    size_bytes: int
    channels: str  # JSON list
    replaces: str  # JSON list of higher versions that it may replace
    notes: str
    published_at_ms: int
    published_by: str


class ChannelRow(Row, frozen=True, kw_only=True):
    """Which version a channel's nodes should run: stable, candidate. `pinned` nodes name their own."""

    KEY = ("channel",)

    channel: str
    version: str
    changed_at_ms: int
    changed_by: str


class NodeAgentRow(Row, frozen=True, kw_only=True):
    """What a node's agent should be, and what it said of itself last (LC-01..05, LC-22).

    The version that it runs is `nodes.agent_version`: only its own hello sets that (LC-02).
    """

    KEY = ("node_id",)

    node_id: str
    channel: str = "stable"
    pinned_version: str = ""  # by a person, for the channel `pinned`
    desired_version: str = ""  # of an open run, else its channel's or the pinned one; "" until somebody names one
    delivery_mode: str = ""  # reimage, manual_install, rebootstrap
    commit_id: str = ""
    suite: str = ""
    drift_state: str = "unknown"
    report: bytes = b""  # DSSE JSON, hostler.pki.agent_report
    reported_at_ms: int = 0
    next_report_ms: int = 0
    trial_version: str = ""  # of the report: what is on trial, and the task that activated it
    trial_task_id: str = ""
    returned_at_ms: int = 0  # of the last return that was told of (EV-09)
    last_delivery_attempt_ms: int = 0
    last_delivery_result: str = ""  # the run's state
    last_delivery_correlation_id: str = ""
    run_id: str = ""  # the newest


class AgentRunRow(Row, frozen=True, kw_only=True):
    """A lifecycle run: one node to one version by one mode (LC-07..14, API-15).

    Attributes:
        kind: what the matrix of scenarios and modes says of it, see `agent_matrix`.
        state: waiting, delivering, trial, awaiting_operator, verifying, then for good: succeeded, failed, rolled_back,
            canceled.
        waiting_for: why it waits: node_busy, node_away, draining; "" when it does not.
        next_action: JSON for people: what to do by hand, without secrets.
        operation_id, stage_operation_id, verify_operation_id: of the signed tasks; "" where there is none.
        checks: JSON object, check to the moment it held: version_reported, service_healthy, renewal_works, schedulable.
        baseline_serial: of the certificate in use when it began; a newer one proves the renewal.
        progress: JSON, `agent_progress.Progress`.
    """

    KEY = ("run_id",)
    FIXED = (
        "node_id",
        "mode",
        "scenario",
        "target_version",
        "from_version",
        "kind",
        "safety_policy",
        "rollout_id",
        "requested_by",
        "correlation_id",
        "created_at_ms",
    )

    run_id: str
    node_id: str
    mode: str
    scenario: str
    target_version: str
    from_version: str
    kind: str
    safety_policy: str
    rollout_id: str
    requested_by: str
    correlation_id: str
    created_at_ms: int
    state: str = "waiting"
    waiting_for: str = ""
    next_action: str = "{}"
    stage_operation_id: str = ""
    operation_id: str = ""
    verify_operation_id: str = ""
    checks: str = "{}"
    baseline_serial: str = ""
    progress: str = "{}"
    cordoned: int = 0
    deadline_ms: int = 0
    started_at_ms: int = 0
    finished_at_ms: int = 0
    error_code: str = ""
    error_message: str = ""


class RolloutRow(Row, frozen=True, kw_only=True):
    """A version brought to many nodes in waves (LC-15, LC-16, DM-07).

    Attributes:
        state: awaiting_approval, running, paused, rolling_back, then for good: succeeded, failed, aborted, rolled_back.
            An aborted one has its end once the last run of it has.
        settings: JSON, `agent_commands.RolloutSettings`.
        waves: how many there are.
        wave: index of the wave in progress; 0 is the canary.
        wave_started_ms: since when its nodes may begin; anew after each pause.
        soaking_until_ms: the wave is watched until then; 0 while nodes of it have not ended.
        approved_wave: waves up to this one may start.
        failures: since the rollout began, or since a person resumed it.
        turning_back: 1 while nodes that have the version are brought back to the one before.
        error_code: why it paused by itself; "" where a person asked, or nothing is wrong.
        failed_node_id: the node that was the last reason for that.
    """

    KEY = ("rollout_id",)
    FIXED = ("target_version", "settings", "waves", "requested_by", "correlation_id", "created_at_ms")

    rollout_id: str
    target_version: str
    settings: str
    waves: int
    requested_by: str
    correlation_id: str
    created_at_ms: int
    state: str = "running"
    wave: int = 0
    wave_started_ms: int = 0
    soaking_until_ms: int = 0
    approved_wave: int = 0
    failures: int = 0
    turning_back: int = 0
    reason: str = ""
    error_code: str = ""
    failed_node_id: str = ""
    finished_at_ms: int = 0


class RolloutNodeRow(Row, frozen=True, kw_only=True):
    """One node of a rollout.

    Attributes:
        boundary: what made its wave: `canary`, or the value of the label.
        state: pending, running, soaking (it has the version and is watched), rolling_back, then for good: succeeded,
            failed, rolled_back, skipped.
        waiting_for: why a node has not begun, or is not on its way back yet: node_away, node_unhealthy, server_busy,
            run_in_progress, waiting_for_operator.
        not_before_ms: it is not tried again before that.
        tries: runs begun towards the version.
        took_at_ms: when its run succeeded, 0 for never.
        failed_check: of those of LC-21, the one that did not hold.
        forgiven: 1 for a failure that a person has seen and left behind.
    """

    KEY = ("rollout_id", "node_id")
    FIXED = ("wave", "boundary")

    rollout_id: str
    node_id: str
    wave: int
    boundary: str
    state: str = "pending"
    waiting_for: str = ""
    not_before_ms: int = 0
    from_version: str = ""
    run_id: str = ""
    rollback_run_id: str = ""
    tries: int = 0
    started_at_ms: int = 0
    took_at_ms: int = 0
    failed_check: str = ""
    forgiven: int = 0
    error_code: str = ""
    reason: str = ""
    finished_at_ms: int = 0


AGENT_ROWS: tuple[type[Row], ...] = (ReleaseRow, ChannelRow, NodeAgentRow, AgentRunRow, RolloutRow, RolloutNodeRow)
