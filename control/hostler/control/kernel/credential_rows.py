"""Rows of minted credentials: who asked, for what, what came of it. Never the material."""

from hostler.control.kernel.rows import Row


class RunnerKeyRow(Row, frozen=True):
    """Signs a node's requests for credentials; recorded when the node enrols, for its whole life."""

    KEY = ("node_id",)

    node_id: str
    spki: bytes
    recorded_at_ms: int


class MintRow(Row, frozen=True, kw_only=True):
    """One request that was let through."""

    KEY = ("attempt_uid", "step_id", "number")
    FIXED = (
        "task_id",
        "operation_id",
        "node_id",
        "credential_type",
        "intent",
        "request_digest",
        "asked_at_ms",
    )

    attempt_uid: str
    step_id: str
    number: int
    task_id: str
    operation_id: str
    node_id: str
    credential_type: str
    intent: str
    request_digest: str
    asked_at_ms: int
    state: str = "asked"
    minter: str = ""
    error_code: str = ""
    expires_at_ms: int = 0
    ended_at_ms: int = 0
