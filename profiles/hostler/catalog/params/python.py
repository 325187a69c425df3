"""Parameters of `python.env.create` (SK-06, OD-28)."""

from typing import Annotated, Literal

import msgspec

from hostler.catalog.params.artifact import Path

Index = Annotated[str, msgspec.Meta(pattern=r"^https://[A-Za-z0-9._~:/\[\]%+-]+$(?!\n)", max_length=2048)]


class EnvCreate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Builds a Python environment from a lock with hashes, beside the present one, and switches to it at once.

    `path/current` leads to the environment in use; each is a folder of its own below `path`.

    Attributes:
        path: directory of the environments.
        python: the interpreter, by its path; part of the environment's digest.
        lock: venv: requirements, each with an exact version and a hash, and nothing else; conda: an explicit
            list (`@EXPLICIT`), each URL with its hash.
        indexes: package indexes (PEP 503); each must lie in the allowed sources. None for conda, whose lock
            holds the URLs.
        flavour: conda only on nodes with the capability `python.conda`.
    """

    path: Path
    python: Path = "/usr/bin/python3"
    lock: Annotated[str, msgspec.Meta(min_length=1, max_length=1_048_576)]
    indexes: Annotated[tuple[Index, ...], msgspec.Meta(max_length=8)] = ()
    flavour: Literal["venv", "conda"] = "venv"
