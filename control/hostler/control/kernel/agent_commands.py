"""Commands about the agents on the nodes; see `commands`."""

import msgspec

from hostler.control.kernel.actor import Actor
from hostler.pki.agent_report import AgentReport


class PublishReleases(msgspec.Struct, frozen=True, kw_only=True):
    """→ versions that are new. The engine has verified the metadata and the packages' digests before."""

    actor: Actor
    releases: tuple["ReleaseFacts", ...]
    correlation_id: str


class ReleaseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """As `hostler.pki.releases.Release`, without what only the node needs."""

    version: str
    suite: str
    commit: str
    file: str
    sha256: str
    size_bytes: int
    channels: tuple[str, ...]
    replaces: tuple[str, ...] = ()
    notes: str = ""


class StorePackage(msgspec.Struct, frozen=True, kw_only=True):
    """→ None. A package is here, whole and as it was signed: a line of the audit."""

    actor: Actor
    file: str
    sha256: str
    size_bytes: int
    correlation_id: str


class SetChannel(msgspec.Struct, frozen=True, kw_only=True):
    """What the nodes of a channel should run from now on; nothing is delivered by that alone."""

    actor: Actor
    channel: str
    version: str
    correlation_id: str


class SetNodeAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A node's channel, and for `pinned` its version."""

    actor: Actor
    node_id: str
    channel: str
    version: str = ""
    correlation_id: str


class RecordAgentReport(msgspec.Struct, frozen=True, kw_only=True):
    """A verified report of a node's agent. `document` is what was signed."""

    node_id: str
    report: AgentReport
    document: bytes


class StartAgentRun(msgspec.Struct, frozen=True, kw_only=True):
    """→ run id (API-15).

    Attributes:
        target_version: "" for the one that the node should run.
        token_id: of the one-use enrolment token that the edge made, where the plan needs one (`agent_matrix`); with the
            token's hash and end. The token itself is nobody's but the caller's.
        run_timeout_seconds: how long it may take in all, waiting for its node included; 0 for the control plane's own.
    """

    actor: Actor
    run_id: str
    node_id: str
    mode: str
    scenario: str
    target_version: str
    safety_policy: str
    token_id: str = ""
    token_sha256: str = ""
    token_expires_at_ms: int = 0
    run_timeout_seconds: int = 0
    rollout_id: str = ""
    correlation_id: str


class CancelAgentRun(msgspec.Struct, frozen=True, kw_only=True):
    """Ends a run that has not begun to change the node; a trial ends by itself."""

    actor: Actor
    run_id: str
    reason: str
    correlation_id: str


class AdvanceAgents(msgspec.Struct, frozen=True, kw_only=True):
    """Time has passed: deadlines of runs, soaking waves, URLs that have run out. → runs and rollouts that moved."""


class CreateRollout(msgspec.Struct, frozen=True, kw_only=True):
    """→ `rollout_plan.Plan` (API-20).

    Attributes:
        nodes, labels: those named, and of them those whose labels all match; with neither every active node that runs
            another version.
        dry_run: only the plan is answered; nothing is made.
    """

    actor: Actor
    rollout_id: str
    target_version: str
    nodes: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    settings: "RolloutSettings"
    dry_run: bool = False
    correlation_id: str


class RolloutSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a rollout goes (LC-15, LC-16).

    Attributes:
        canary: how many nodes go first, as the first wave.
        boundary: what makes the waves after it: a node label such as `region`, or `pool`, or `tenant`; "" for one.
        order: values of the boundary that go first, in this order; the others follow by name.
        max_parallel: runs at one time.
        success_percent: of a wave's nodes that must succeed before the next begins.
        max_failures: so many failed or returned nodes in the whole rollout pause it.
        approval: before which waves a person is asked: none, after_canary, each_wave.
        auto_rollback: bring the nodes that took the version back when the rollout pauses by itself.
        soak_seconds: how long a finished wave is watched before the next.
        run_timeout_seconds: how long one node may take, waiting for it to be idle included.
    """

    canary: int = 1
    boundary: str = ""
    order: tuple[str, ...] = ()
    max_parallel: int = 10
    success_percent: int = 100
    max_failures: int = 1
    approval: str = "none"
    auto_rollback: bool = True
    safety_policy: str = "drain"
    soak_seconds: int = 60
    run_timeout_seconds: int = 3600


class MoveRollout(msgspec.Struct, frozen=True, kw_only=True):
    """`action`: approve, pause, resume, abort, rollback. → the rollout's state.

    Attributes:
        wave: with approve, the one that may begin: what the person who approves has looked at.
        retry_failed: with resume, nodes that failed are tried once more.
    """

    actor: Actor
    rollout_id: str
    action: str
    wave: int = -1
    reason: str = ""
    retry_failed: bool = False
    correlation_id: str


AgentCommand = (
    PublishReleases
    | StorePackage
    | SetChannel
    | SetNodeAgent
    | RecordAgentReport
    | StartAgentRun
    | CancelAgentRun
    | AdvanceAgents
    | CreateRollout
    | MoveRollout
)
