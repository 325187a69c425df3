"""Parameters of `health.check`: a list of typed checks, all of which must pass (SK-12)."""

from typing import Annotated, Any

import msgspec

from hostler.catalog.params.artifact import Path

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class _Check(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    name: str = ""


class Http(_Check, frozen=True, kw_only=True, tag="http"):
    url: Annotated[str, msgspec.Meta(pattern="^https?://")]
    expected_status: tuple[int, ...] = (200,)
    body_contains: str = ""


class Tcp(_Check, frozen=True, kw_only=True, tag="tcp"):
    host: str
    port: Port


class Listening(_Check, frozen=True, kw_only=True, tag="port"):
    """Some local process listens on this TCP port."""

    port: Port


class Unit(_Check, frozen=True, kw_only=True, tag="unit"):
    unit: str
    active_state: str = "active"


class Process(_Check, frozen=True, kw_only=True, tag="process"):
    """At least `minimum` processes whose executable's base name is `executable`."""

    executable: str
    minimum: Annotated[int, msgspec.Meta(ge=1)] = 1


class File(_Check, frozen=True, kw_only=True, tag="file"):
    path: Path
    sha256: str = ""
    min_bytes: int = 0
    mode: str = ""


class Mount(_Check, frozen=True, kw_only=True, tag="mount"):
    path: Path
    fs_type: str = ""
    read_only: bool | None = None


class Disk(_Check, frozen=True, kw_only=True, tag="disk"):
    path: Path
    min_free_bytes: int = 0
    min_free_percent: float = 0


class Command(_Check, frozen=True, kw_only=True, tag="command"):
    """A command profile of the signed catalog ends as it should; one profile for all such checks of a step.

    Attributes:
        args: values of its placeholders, each checked against the profile's `arg_schema`. Secrets are not given.
        stdout_contains: what its standard output must hold, where the profile captures it.
    """

    profile: str
    args: dict[str, Any] = {}
    stdout_contains: str = ""


Check = Http | Tcp | Listening | Unit | Process | File | Mount | Disk | Command


class HealthCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    within_seconds: a check that fails is tried again until then; 0 means one try.
    """

    checks: Annotated[tuple[Check, ...], msgspec.Meta(min_length=1, max_length=64)]
    within_seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0
    interval_seconds: Annotated[float, msgspec.Meta(ge=0.05, le=60)] = 0.5
    check_timeout_seconds: Annotated[float, msgspec.Meta(gt=0, le=300)] = 5
