"""Parameters of `file.render`."""

from typing import Annotated, Any

import msgspec

from hostler.catalog.params.artifact import Path


class Render(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Writes a file from a sandboxed Jinja2 template, atomically, inside the allowed prefixes.

    Attributes:
        template: part of the signed definition, never of the inputs.
        variables: what the template may use; an undefined name is an error.
        owner, group: names, or "" to keep the agent's own.
    """

    path: Path
    template: Annotated[str, msgspec.Meta(max_length=262_144)]
    variables: dict[str, Any] = {}
    mode: Annotated[str, msgspec.Meta(pattern=r"^0[0-7]{3}$(?!\n)")] = "0644"
    owner: str = ""
    group: str = ""
    make_parents: bool = True
