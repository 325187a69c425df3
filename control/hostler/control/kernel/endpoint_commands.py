"""What can change about endpoints, as frozen data; a part of `kernel.commands`."""

import msgspec


class _OfAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """Said by a node, for a task that runs there now."""

    node_id: str
    task_id: str
    attempt_uid: str


class RegisterEndpoint(_OfAttempt, frozen=True, kw_only=True):
    """→ `EndpointLease`. The same id renews, and may move to another address of the task.

    Attributes:
        lease_ms: what the task asks for; 0 for the longest.
        node_address: under which other nodes reach this one, as its agent says.
        ports: host ports that the task holds, as its agent says.
    """

    endpoint_id: str
    name: str
    address: str
    metadata: dict[str, str]
    lease_ms: int
    node_address: str
    ports: tuple[int, ...]


class EndpointLease(msgspec.Struct, frozen=True, kw_only=True):
    endpoint_id: str
    name: str
    namespace: str
    address: str
    lease_ms: int
    lease_deadline_ms: int


class UnregisterEndpoint(_OfAttempt, frozen=True, kw_only=True):
    """→ whether there was one."""

    endpoint_id: str


class SweepEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """→ number of endpoints whose lease or attempt is over, and that are marked so now."""


EndpointCommand = RegisterEndpoint | UnregisterEndpoint | SweepEndpoints
