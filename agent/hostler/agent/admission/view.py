"""What admission may look at: one frozen picture of what this node knows."""

from collections.abc import Callable, Mapping

import msgspec

from hostler.agent.admission.authority import LocalAuthority
from hostler.agent.journal.binding import Binding
from hostler.agent.journal.rows import KnownTask
from hostler.catalog.manifest import Catalog
from hostler.pki.trust import TrustStore


class AdmissionView(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    thumbprint: hex SHA-256 of this node's public key (SPKI).
    binding: the allocation the node is in, as its journal has it; None for none.
    catalog: None before the first one.
    known: what the journal remembers of a task id.
    held: nothing new runs until the root opens a new epoch.
    storage: the journal's health word, `ok` or an error code.
    """

    node_id: str
    thumbprint: str
    binding: Binding | None = None
    trust: TrustStore
    catalog: Catalog | None
    authority: LocalAuthority = LocalAuthority()
    capabilities: Mapping[str, str] = {}
    high_sequence: int
    control_epoch: int
    held: bool = False
    known: Callable[[str], KnownTask | None]
    storage: str = "ok"
