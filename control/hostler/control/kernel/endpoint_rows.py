"""Rows of endpoints: leased names of running tasks."""

from hostler.control.kernel.rows import Row


class EndpointRow(Row, frozen=True, kw_only=True):
    """A name that leads to an address, for as long as its lease and the attempt that holds it (TE-11, DM-21).

    Attributes:
        endpoint_id: chosen by the task; the same one renews. Ids of different tasks never meet.
        namespace: the root job's path (TE-16).
        metadata: a JSON object of texts.
        lease_deadline_ms: None never expires (TE-15).
        state: `registered`, `removed` by its task, `expired`. One that was removed never comes back.
    """

    KEY = ("task_id", "endpoint_id")
    FIXED = ("org_id", "project_id", "operation_id", "namespace", "registered_at_ms")

    task_id: str
    endpoint_id: str
    attempt_uid: str
    node_id: str
    org_id: str
    project_id: str
    operation_id: str
    namespace: str
    name: str
    address: str
    metadata: str = "{}"
    registered_at_ms: int
    renewed_at_ms: int
    lease_deadline_ms: int | None
    state: str = "registered"
