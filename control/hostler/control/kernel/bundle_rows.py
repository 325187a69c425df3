"""Rows of code bundles: whose they are, and when they were of use last. The bytes lie in files beside the store."""

from hostler.control.kernel.rows import Row

HELD, DELETED = "held", "deleted"


class BundleRow(Row, frozen=True, kw_only=True):
    """One project's hold on one bundle; two projects with the same bytes have two rows and two files (JB-08)."""

    KEY = ("org_id", "project_id", "sha256")

    org_id: str
    project_id: str
    sha256: str
    size_bytes: int
    created_by: str
    created_at_ms: int
    last_used_ms: int
    state: str = HELD
