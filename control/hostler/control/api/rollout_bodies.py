"""What requests about rollouts carry, and their answers; see `bodies`."""

from typing import Annotated, Any

import msgspec

from hostler.control.api.allocation_bodies import Reason
from hostler.control.kernel.agent_commands import RolloutSettings

Version = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
NodeName = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class NewRollout(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Body of a rollout.

    Attributes:
        version: that the nodes are to run.
        nodes: names or ids; none for all that run another version.
        labels: only nodes whose labels all match.
        dry_run: answer with the waves, and make nothing.
    """

    version: Version
    nodes: Annotated[tuple[NodeName, ...], msgspec.Meta(max_length=10_000)] = ()
    labels: dict[str, str] = {}
    settings: RolloutSettings = RolloutSettings()
    dry_run: bool = False


class Wave(msgspec.Struct, frozen=True, kw_only=True):
    """`nodes` are names, in the order of their turn."""

    index: int
    boundary: str
    nodes: tuple[str, ...]


class SkippedNode(msgspec.Struct, frozen=True, kw_only=True):
    node_id: str
    name: str
    reason: str
    error_code: str


class RolloutMade(msgspec.Struct, frozen=True, kw_only=True):
    """`rollout_id` is "" after a dry run."""

    rollout_id: str
    version: str
    dry_run: bool
    settings: Any
    waves: tuple[Wave, ...]
    skipped: tuple[SkippedNode, ...]


class MoveReason(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the audit will say of it."""

    reason: Reason = ""


class Approval(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`wave`: the one that may begin, as the rollout's `wave` says; another one than waits is refused."""

    wave: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
    reason: Reason = ""


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`retry_failed`: nodes that failed are tried once more; otherwise they are left behind as they are."""

    reason: Reason = ""
    retry_failed: bool = False


class RolloutState(msgspec.Struct, frozen=True):
    rollout_id: str
    state: str
