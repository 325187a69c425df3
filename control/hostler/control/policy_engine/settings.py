"""`[policy_engine]` of control.toml."""

from typing import Annotated

import msgspec

DEFAULT_QUERY = "data.hostler.deny"
Query = Annotated[str, msgspec.Meta(pattern=r"^data(?:\.[A-Za-z_][A-Za-z0-9_]{0,63}){1,16}$(?!\n)")]


class PolicyEngineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    files: Rego modules, read when the control plane starts.
    query: the rule whose value is the list of reasons to refuse; an empty list allows.
    timeout_ms: how long an answer may take; then the request is refused and the process started again.
    memory_mib: what each process may take; one that takes more is ended.
    processes: how many questions are answered at a time.
    """

    files: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=64)]
    query: Query = DEFAULT_QUERY
    timeout_ms: Annotated[int, msgspec.Meta(ge=10, le=60_000)] = 2000
    memory_mib: Annotated[int, msgspec.Meta(ge=128, le=16_384)] = 512
    processes: Annotated[int, msgspec.Meta(ge=1, le=16)] = 2
