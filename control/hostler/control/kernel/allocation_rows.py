"""Rows of allocations, of their hold on nodes, of each link of a chain, and of what keeps nodes from being chosen."""

from hostler.control.kernel.rows import Row


class AllocationRow(Row, frozen=True, kw_only=True):
    """A tenant's hold on nodes (DM-11). `labels`, `nodes` and `inputs` are JSON."""

    KEY = ("allocation_id",)
    FIXED = (
        "org_id",
        "project_id",
        "external_id",
        "request_digest",
        "requested_by",
        "correlation_id",
        "labels",
        "nodes",
        "node_count",
        "inputs",
        "provision_ref",
        "created_at_ms",
    )

    allocation_id: str
    org_id: str
    project_id: str
    external_id: str
    request_digest: str
    requested_by: str
    correlation_id: str
    labels: str
    nodes: str
    node_count: int
    inputs: str
    provision_ref: str
    created_at_ms: int
    deadline_ms: int  # until when it waits for nodes
    state: str = "requested"
    error_code: str = ""
    error_message: str = ""
    active_at_ms: int = 0
    release_requested_ms: int = 0
    finished_at_ms: int = 0  # every node is proved clean, or gone


class LeaseRow(Row, frozen=True, kw_only=True):
    """One node of one allocation. `link` is the newest of its chain."""

    KEY = ("allocation_id", "node_id")

    allocation_id: str
    node_id: str
    state: str = "provisioning"
    link: str = "provision"
    revoke_operation_id: str = ""  # the newest forced revoke outside the chain (OD-17)
    error_code: str = ""
    error_message: str = ""
    finished_at_ms: int = 0


class LinkRow(Row, frozen=True, kw_only=True):
    """One link of a node's chain; `tries` counts the operations it took."""

    KEY = ("allocation_id", "node_id", "link")

    allocation_id: str
    node_id: str
    link: str
    ref: str
    operation_id: str
    state: str
    tries: int
    deadline_ms: int
    started_at_ms: int
    finished_at_ms: int = 0
    error_code: str = ""
    error_message: str = ""


class CordonRow(Row, frozen=True, kw_only=True):
    """One party's wish that nothing new comes to a node (DM-22); each party lifts its own. `kind` "" is lifted."""

    KEY = ("node_id", "owner")

    node_id: str
    owner: str
    kind: str
    reason: str
    actor: str
    at_ms: int
