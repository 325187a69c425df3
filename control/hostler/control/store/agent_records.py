"""What people are shown of agents: of a node's, of runs, of releases and channels (API-14, API-19)."""

from typing import Any

import msgspec

from hostler.control.store.records import NodeView


class NodeAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    agent_channel, desired_agent_version, reported_agent_version: the first two are wanted, the last the agent's own
        word in its hello (LC-01, LC-02).
    badge: Current, Outdated, Config drift, Cert repair or Unknown build (LC-06).
    drift_state: of the agent's own signed report (LC-04).
    last_probe_at_ms, next_probe_at_ms: when it looked at itself, and when it will (LC-22); by the node's clock.
    run_state: of the newest lifecycle run, with what it waits for.
    """

    node_id: str
    badge: str
    agent_channel: str
    pinned_version: str
    desired_agent_version: str
    reported_agent_version: str
    agent_commit: str
    suite: str
    drift_state: str
    last_probe_at_ms: int
    next_probe_at_ms: int
    trial_version: str
    desired_delivery_mode: str
    last_delivery_attempt_at_ms: int
    last_delivery_result: str
    last_delivery_correlation_id: str
    run_id: str
    run_state: str
    waiting_for: str


class AdminNode(NodeView, frozen=True, kw_only=True):
    """A node as operators of the platform see it."""

    agent: NodeAgent


class AgentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Over all active nodes. `agent_drift` counts every one that is not current, unknown builds too (LC-05)."""

    agent_current: int = 0
    agent_drift: int = 0
    unknown_build: int = 0


class AdminNodes(msgspec.Struct, frozen=True, kw_only=True):
    """A page, and the cards over all nodes."""

    items: tuple[AdminNode, ...]
    next_cursor: str
    summary: AgentSummary


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A lifecycle run; see `kernel.agent_rows.AgentRunRow` for its words. `project_id` is the node's now."""

    run_id: str
    node_id: str
    node_name: str
    project_id: str
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
    state: str
    waiting_for: str
    next_action: Any
    stage_operation_id: str
    operation_id: str
    verify_operation_id: str
    checks: Any
    cordoned: bool
    deadline_ms: int
    started_at_ms: int
    finished_at_ms: int
    error_code: str
    error_message: str


class ReleaseView(msgspec.Struct, frozen=True, kw_only=True):
    """A package. `channels` is empty for one that was withdrawn."""

    version: str
    suite: str
    commit_id: str
    file: str
    sha256: str
    size_bytes: int
    channels: Any
    replaces: Any
    notes: str
    published_at_ms: int
    published_by: str


class ChannelView(msgspec.Struct, frozen=True, kw_only=True):
    """`version` is "" until somebody names one."""

    channel: str
    version: str
    changed_at_ms: int
    changed_by: str
    nodes: int


class Lifecycle(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored about a node's agent: the row, its last report (DSSE JSON), and its newest run."""

    agent: NodeAgent
    report: bytes
    run: RunView | None
