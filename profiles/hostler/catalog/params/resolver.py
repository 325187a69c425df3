"""Parameters of `resolver.config.apply`."""

from typing import Annotated

import msgspec

from hostler.catalog.params.artifact import Sha256


class ConfigApply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Makes a resolver configuration of the signed catalog the active one of this node, at once and whole.

    To roll back, publish a higher catalog with the old content and apply that; a lower version is refused.

    Attributes:
        config: its name in the catalog.
        version: of the catalog it is taken from; at most the node's, never below the active one's.
        digest: of its canonical JSON, as the signed catalog names it.
    """

    config: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$(?!\n)")] = "default"
    version: Annotated[int, msgspec.Meta(ge=1)]
    digest: Sha256
