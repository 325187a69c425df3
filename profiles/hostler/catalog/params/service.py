"""Parameters of `service.control` (SK-08)."""

from typing import Annotated, Literal

import msgspec

Unit = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9:_.\\@-]{0,200}\.(service|socket|timer|path|target|mount)$(?!\n)",
        description="full name of a systemd unit",
    ),
]


class Control(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Brings one systemd unit into a state and waits until it is there; the step's timeout is the deadline.

    The unit must stand in the definition's `allowed_units`.

    Attributes:
        action: `start` and `stop` do nothing where the unit is so already; `restart` always restarts;
            `enable` and `disable` say whether it starts at boot, and leave it running or not as it is.
    """

    unit: Unit
    action: Literal["start", "stop", "restart", "enable", "disable"]
