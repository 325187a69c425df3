"""What every adapter offers, and what it gets to work with."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from hostler.agent.host.host import Host
from hostler.base.clock import Deadline
from hostler.catalog.params.cluster import Cluster

SAID_CHARACTERS = 300


class Wanted(NamedTuple):
    """A file of a joined node. `content` is None where it comes from the credential or from the cluster."""

    role: str
    mode: int
    content: bytes | None = None
    owner: str = ""


class Seen(NamedTuple):
    """What the cluster says: whether it knows the node, whether it is ready, and why not."""

    joined: bool
    ready: bool
    condition: str


@dataclass(frozen=True)
class Site:
    """Attributes:
    cluster, node, files: of the step's parameters.
    ask: runs the step's command profile for this node and gives its output; None where it names none.
    """

    host: Host
    cluster: Any
    node: str
    files: Mapping[str, str]
    ask: Callable[[], Awaitable[str]] | None = None


@dataclass(frozen=True)
class Joining:
    """What a join may use besides.

    Attributes:
        put: writes the file of a role, when it differs.
        fresh: the node leaves another cluster: nothing of that one may be kept.
        say: a line for the step's log.
    """

    put: Callable[[Wanted], Awaitable[None]]
    deadline: Deadline
    fresh: bool
    say: Callable[[str], None]


class Adapter(Protocol):
    """Errors are `HostlerError`s; `look` reports a cluster that is away as a condition instead."""

    def check(self, site: Site) -> None:
        """Raises for parameters that the cluster would not take."""

    def name(self, cluster: Cluster) -> str:
        """Which cluster, for people."""

    def elsewhere(self, site: Site) -> str:
        """The other cluster that the files on the node belong to; "" for none."""

    def wanted(self, site: Site) -> tuple[Wanted, ...]:
        """Every file, in the order of writing: the last one is what makes the node a member."""

    def holds(self, site: Site) -> bool:
        """Whether the files whose content is not known beforehand are good for this cluster."""

    async def obtain(self, site: Site, joining: Joining, handle: Callable[[type], Any]) -> dict[str, bytes]:
        """The contents that `wanted` leaves open, by role.

        Args:
            handle: the credential's material, of a type; raises where the step has none.
        """

    async def look(self, site: Site) -> Seen:
        """Ends at once when it is cancelled; the caller bounds it."""


def printable(text: object) -> str:
    """What a cluster said, fit for an error."""
    return "".join(c if c.isprintable() else " " for c in str(text))[:SAID_CHARACTERS]
