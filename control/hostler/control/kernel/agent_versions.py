"""Channels, pins, and which version a node should run (LC-01, LC-02)."""

import msgspec

from hostler.base.errors import error
from hostler.control.kernel import agent_releases, changes, events
from hostler.control.kernel.agent_commands import SetChannel, SetNodeAgent
from hostler.control.kernel.agent_rows import ChannelRow, NodeAgentRow
from hostler.control.kernel.model import Decision, Draft
from hostler.control.kernel.rollout_rows import leave_out
from hostler.control.kernel.tasks import node_of

replace = msgspec.structs.replace
STABLE, CANDIDATE, PINNED = CHANNELS = ("stable", "candidate", "pinned")


def set_channel(draft: Draft, command: SetChannel) -> Decision:
    """→ how many nodes should run another version now."""
    if command.channel not in (STABLE, CANDIDATE):
        hint = "each pinned node has a version of its own: 'hostler agents pin'" if command.channel == PINNED else ""
        raise error("invalid_request", f"there is no channel {command.channel!r}", pointer="/channel", hint=hint)
    releases = draft.current(draft.view.releases_of(command.version))
    if not any(command.channel in agent_releases.offered(row) for row in releases):
        raise error("release_missing", f"no release {command.version} is signed for channel {command.channel}")
    known = draft.get(ChannelRow, command.channel)
    row = ChannelRow(
        channel=command.channel,
        version=command.version,
        changed_at_ms=draft.now_ms,
        changed_by=command.actor.name,
    )
    if known is None:
        draft.insert(row)
    elif known.version == row.version:
        return draft.decision(0)
    else:
        draft.update(row)
    moved = 0
    for agent in draft.current(draft.view.agents_in(command.channel)):
        moved += _wish(draft, agent, command.version)
    said = events.admin_event(
        "agent.channel_changed",
        f"agent-channels/{command.channel}",
        draft.now_ms,
        actor=command.actor,
        action="agent.channel.set",
        change=changes.between({"version": known.version if known else ""}, {"version": row.version}),
        channel=command.channel,
        version=command.version,
        nodes=moved,
    )
    draft.events.append(replace(said, correlation_id=command.correlation_id))
    return draft.decision(moved)


def set_node(draft: Draft, command: SetNodeAgent) -> Decision:
    """→ the version that the node should run from now on."""
    if command.channel not in CHANNELS:
        raise error("invalid_request", f"{command.channel!r} is none of {', '.join(CHANNELS)}", pointer="/channel")
    if (command.channel == PINNED) != bool(command.version):
        raise error("invalid_request", "a version is named for a pinned node, and for no other", pointer="/version")
    node = node_of(draft, command.node_id)
    before = agent_of(draft, node.node_id)
    if command.version:
        agent_releases.release_for(draft, command.version, before.suite)
    row = replace(before, channel=command.channel, pinned_version=command.version)
    draft.update(row)
    _wish(draft, row, wished(draft, row))
    if command.version and row != before:
        leave_out(draft, node.node_id, command.version)
    now = agent_of(draft, node.node_id)
    draft.events.append(
        events.node_event(
            "agent.node_changed",
            node,
            draft.now_ms,
            actor=command.actor,
            action="agent.node.set",
            change=changes.of_rows(before, now, "channel", "pinned_version", "desired_version"),
            channel=now.channel,
            version=now.desired_version,
        )
    )
    return draft.decision(now.desired_version)


def wished(draft: Draft, agent: NodeAgentRow) -> str:
    """What the node should run while no run says otherwise: its pin, or its channel's version."""
    if agent.channel == PINNED:
        return agent.pinned_version
    channel = draft.get(ChannelRow, agent.channel)
    return channel.version if channel is not None else ""


def _wish(draft: Draft, agent: NodeAgentRow, version: str) -> bool:
    """Files it and tells the node. → whether that is another version than before."""
    if agent.desired_version == version:
        return False
    draft.update(replace(agent, desired_version=version))
    tell_desired(draft, agent, version)
    return True


def tell_desired(draft: Draft, agent: NodeAgentRow, version: str) -> None:
    """To the node's session, if it has one: agents compare themselves with it."""
    if agent.desired_version != version:
        draft.desired[agent.node_id] = version
        draft.wake.add(agent.node_id)


def restore(draft: Draft, node_id: str) -> None:
    """After a run that did not succeed: what the channel or a person wants counts again."""
    agent = agent_of(draft, node_id)
    _wish(draft, agent, wished(draft, agent))


def agent_of(draft: Draft, node_id: str) -> NodeAgentRow:
    """The row of a node's agent; made where there is none yet."""
    agent = draft.get(NodeAgentRow, node_id)
    if agent is None:
        agent = NodeAgentRow(node_id=node_id)
        agent = replace(agent, desired_version=wished(draft, agent))
        draft.insert(agent)
    return agent
