"""Parameters of `command.exec_allowlisted`."""

from typing import Any

import msgspec


class ExecAllowlisted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Runs one command profile of the signed catalog.

    Attributes:
        profile: id of the command profile.
        args: values of its placeholders, each checked against the profile's `arg_schema`.
        secrets: handle of a secret for each of the profile's `secret_files` and `secret_env`; each is
            `${steps.ID.OUTPUT}` of the step that fetched it.
    """

    profile: str
    args: dict[str, Any] = {}
    secrets: dict[str, str] = {}
