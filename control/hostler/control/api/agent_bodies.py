"""What requests about agents carry, and their answers; see `bodies`."""

from typing import Annotated, Any, Literal

import msgspec

from hostler.control.delivery.contract import Document
from hostler.control.store.agent_records import NodeAgent, RunView
from hostler.pki.agent_report import AgentReport

Version = Annotated[str, msgspec.Meta(pattern=r"^[0-9][0-9A-Za-z.~]{0,63}$(?!\n)")]
MaybeVersion = Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9][0-9A-Za-z.~]{0,63})?$(?!\n)")]


class StartRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Body of a new lifecycle run (API-15).

    Attributes:
        target_version: "" for the one that the node should run.
        safety_policy: change the node only when it is idle, after a drain, or now (LC-14).
        provider: for a reimage: whose form the document has; "" for cloud-init.
        timeout_seconds: how long it may take in all; 0 for the control plane's own.
    """

    mode: str
    scenario: str
    target_version: MaybeVersion = ""
    safety_policy: str = "idle"
    provider: Annotated[str, msgspec.Meta(max_length=32)] = ""
    timeout_seconds: Annotated[int, msgspec.Meta(ge=0, le=90 * 86_400)] = 0


class RunStarted(msgspec.Struct, frozen=True, kw_only=True):
    """`document` is shown this once and kept nowhere: it holds a one-use token. null where the run takes none."""

    run: RunView
    document: Document | None


class RunEnded(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    state: str


class AgentLifecycle(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of a node's agent and what it is (API-14). `capabilities` are the node's own words.

    `report` is the agent's last signed word of itself, with the evidence of its drift; null before the first.
    """

    node_id: str
    name: str
    agent: NodeAgent
    capabilities: dict[str, str]
    report: AgentReport | None
    latest_run: RunView | None


class SetVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Body of a channel's new version."""

    version: Version


class ChannelChanged(msgspec.Struct, frozen=True, kw_only=True):
    """`nodes` should run another version now; nothing is delivered by that alone."""

    channel: str
    version: str
    nodes: int


class Follow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Body of a node's channel; with `version` for `pinned`, and for no other."""

    channel: str
    version: MaybeVersion = ""


class NodeFollows(msgspec.Struct, frozen=True, kw_only=True):
    node_id: str
    channel: str
    desired_agent_version: str


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A package that has to be sent."""

    file: str
    sha256: str
    size_bytes: int


class ReleasesJudged(msgspec.Struct, frozen=True, kw_only=True):
    """`published` once every package is here; until then `missing` names those to send, and nothing has changed."""

    published: bool
    new: tuple[str, ...]
    missing: tuple[Wanted, ...]
    expires_ms: int


class PackageKept(msgspec.Struct, frozen=True, kw_only=True):
    """`created` is false for a package that was here already."""

    file: str
    sha256: str
    size_bytes: int
    created: bool


class Reason(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""


class Channels(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[Any, ...]


Channel = Literal["stable", "candidate"]
