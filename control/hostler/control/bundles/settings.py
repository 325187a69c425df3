"""`[bundles]` of control.toml."""

from typing import Annotated

import msgspec

Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**50)]


class BundleSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    max_bytes: of one bundle; 0 takes none at all.
    project_bytes: of all that a project keeps.
    reserve_bytes: what an upload leaves free on the file system, which is the store's as well.
    unused_days: how long one is kept that no job has used.
    """

    max_bytes: Bytes = 256 << 20
    project_bytes: Bytes = 10 << 30
    reserve_bytes: Bytes = 1 << 30
    unused_days: Annotated[int, msgspec.Meta(ge=1, le=3650)] = 30
