"""Rows of log lines, and how many an operation has."""

from hostler.control.kernel.rows import Row

LINE_COST = 256  # of a line besides its text; the same as the node reckons with


class LogRow(Row, frozen=True, kw_only=True):
    """`id` stands on the same scale as event ids; the store gives it. `partial` is 0 or 1, as on the wire."""

    KEY = ("id",)

    id: int = 0
    operation_id: str
    task_id: str
    node_id: str
    attempt_uid: str
    step_id: str
    step_index: int
    stream: str
    text: str
    at_ms: int
    cluster: str | None = None
    partial: int = 0
    phase: str = ""


class LogUsageRow(Row, frozen=True, kw_only=True):
    """`cost` counts each kept line's text and 256 bytes more; `dropped` are lines that came beyond the quota."""

    KEY = ("operation_id",)

    operation_id: str
    cost: int = 0
    lines: int = 0
    dropped: int = 0
