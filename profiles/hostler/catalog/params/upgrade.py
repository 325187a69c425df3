"""Parameters of `agent.upgrade.stage`, `agent.upgrade.activate` and `agent.upgrade.rollback` (LC-13, SK-19)."""

from typing import Annotated

import msgspec

from hostler.catalog.params.artifact import Sha256

Version = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}(~[A-Za-z0-9.+~]{1,40})?$(?!\n)",
        description="of a release of the agent",
    ),
]
Url = Annotated[str, msgspec.Meta(pattern="^https://", max_length=2048)]
TrialSeconds = Annotated[int, msgspec.Meta(ge=30, le=600)]


class Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Puts a signed release of the agent beside the one that runs, whole, and leaves that one alone.

    The package is what enough update keys of the node's keyset have signed, by metadata that is not older than what
    the node has seen; the URLs only say where both are to be had.

    Attributes:
        sha256, size_bytes: of the package; they must be the signed ones.
        metadata_url: of the newest metadata of the releases, one document.
        suite: Debian release that the package is made for; it must be the node's own.
    """

    version: Version
    url: Url
    sha256: Sha256
    size_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 30)]
    metadata_url: Url
    suite: Annotated[str, msgspec.Meta(pattern=r"^[a-z]{1,40}$(?!\n)")]


class Activate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Switches the node to a staged version, on trial: it starts, renews its certificate, holds its session and
    finishes a task, or the node returns to the version before, by itself.

    The task stays open over the restart; whichever version runs at the end tells how it went.

    Attributes:
        trial_seconds: how long the version has for all of it. Time in which the control plane turned the node away
            does not count.
        repair: start anew even where that version runs already.
    """

    version: Version
    trial_seconds: TrialSeconds = 90
    repair: bool = False


class Rollback(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Returns to an earlier version that lies on the node, by the same trial.

    Attributes:
        to_version: one that has stood its trial on this node, or whose release names the running one as replaced;
            "" for the one that ran before.
        reason: goes into the node's report.
    """

    to_version: Annotated[
        str, msgspec.Meta(pattern=r"^$|^[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}(~[A-Za-z0-9.+~]{1,40})?$(?!\n)")
    ] = ""
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    trial_seconds: TrialSeconds = 90
