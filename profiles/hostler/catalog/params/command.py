"""Parameters of `command.exec_allowlisted`."""

from typing import Any

import msgspec


class ExecAllowlisted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Runs one command profile of the signed catalog.

    Attributes:
        profile: id of the command profile.
        args: values of its placeholders, each checked against the profile's `arg_schema`.
    """

    profile: str
    args: dict[str, Any] = {}
