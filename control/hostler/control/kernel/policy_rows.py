"""Rows of what each scope adds to the policy (DM-03)."""

from hostler.control.kernel.rows import Row

ANY_TYPE = "*"
SCOPES = ("global", "tenant", "project")


class PolicyRow(Row, frozen=True, kw_only=True):
    """One scope's overlay for an operation type, or for `*`. `overlay` is its JSON, `revision` counts its writes."""

    KEY = ("scope", "scope_id", "operation_type")

    scope: str
    scope_id: str
    operation_type: str
    overlay: str
    revision: int
    updated_by: str
    updated_at_ms: int
