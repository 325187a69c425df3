"""Commands about work of which it is unclear what became of it; see `commands`."""

import msgspec

from hostler.control.kernel.actor import Actor
from hostler.control.kernel.node_commands import Done


class ProbeWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """→ `WorkloadRecovered`: the nodes are asked about each open task that they took (LC-20)."""

    actor: Actor
    project_id: str
    operation_id: str
    correlation_id: str


class RecoverWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """→ `WorkloadRecovered`: asks as `ProbeWorkload` does, sends what waited, tries a recent unclear failure again."""

    actor: Actor
    project_id: str
    operation_id: str
    correlation_id: str


class WorkloadRecovered(msgspec.Struct, frozen=True, kw_only=True):
    """As `Recovered` says it of a node."""

    operation_id: str
    did: tuple[Done, ...]
    remains: tuple[str, ...]


WorkloadCommand = ProbeWorkload | RecoverWorkload
