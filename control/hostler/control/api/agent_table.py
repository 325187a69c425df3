"""The routes of agents and their releases; a part of the table."""

from hostler.control.api import agent_bodies as bodies
from hostler.control.api.route import Route
from hostler.control.api.routes import agent_releases, agents, nodes
from hostler.control.store import agent_records, records

_PAGE = ("cursor", "page_size")
_ADMIN = "/api/v1/admin"
_NODE = f"{_ADMIN}/nodes/{{node_id}}"
_RUN = f"{_ADMIN}/agent-runs/{{run_id}}"
_RELEASES = f"{_ADMIN}/agent-releases"

AGENT_ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        f"{_ADMIN}/nodes",
        "nodes.admin",
        nodes.all_nodes,
        "List all nodes with their agents' state, and how many are current",
        query=(*_PAGE, "badge", "drift", "channel"),
        answer=agent_records.AdminNodes,
    ),
    Route(
        "GET",
        f"{_NODE}/agent-lifecycle",
        "agents.admin",
        agents.lifecycle,
        "What a node's agent should be, what it is, and its latest run",
        answer=bodies.AgentLifecycle,
    ),
    Route(
        "POST",
        f"{_NODE}/agent-lifecycle",
        "agents.admin",
        agents.start,
        "Begin a lifecycle run: bring a version to a node by a mode",
        body=bodies.StartRun,
        action="agent.run.start",
        answer=bodies.RunStarted,
    ),
    Route(
        "PUT",
        f"{_NODE}/agent-channel",
        "agents.admin",
        agents.follow,
        "Set a node's channel, or pin its version",
        body=bodies.Follow,
        action="agent.node.set",
        answer=bodies.NodeFollows,
    ),
    Route(
        "GET",
        f"{_ADMIN}/agent-runs",
        "agents.admin",
        agents.runs,
        "List lifecycle runs, newest first",
        query=(*_PAGE, "node_id", "state", "rollout_id"),
        answer=records.Page[agent_records.RunView],
    ),
    Route("GET", _RUN, "agents.admin", agents.run, "Show a lifecycle run", answer=agent_records.RunView),
    Route(
        "GET",
        f"{_RUN}/events",
        "agents.admin",
        agents.run_events,
        "A lifecycle run as it goes on, as server-sent events until its end",
        events=True,
        answer=agent_records.RunView,
    ),
    Route(
        "POST",
        f"{_RUN}/cancel",
        "agents.admin",
        agents.cancel,
        "End a run that has not begun to change its node",
        body=bodies.Reason,
        action="agent.run.cancel",
        answer=bodies.RunEnded,
    ),
    Route(
        "GET",
        f"{_ADMIN}/agent-channels",
        "agents.admin",
        agents.channels,
        "List the channels and their versions",
        answer=bodies.Channels,
    ),
    Route(
        "PUT",
        f"{_ADMIN}/agent-channels/{{channel}}",
        "agents.admin",
        agents.set_channel,
        "Say what the nodes of a channel should run",
        body=bodies.SetVersion,
        action="agent.channel.set",
        answer=bodies.ChannelChanged,
    ),
    Route(
        "GET",
        _RELEASES,
        "agents.admin",
        agent_releases.listing,
        "List releases of the agent, newest first",
        query=_PAGE,
        answer=records.Page[agent_records.ReleaseView],
    ),
    Route(
        "PUT",
        _RELEASES,
        "agents.admin",
        agent_releases.publish,
        "Put signed metadata of releases in force, or hear which packages it lacks",
        upload=True,
        action="agent.release.publish",
        answer=bodies.ReleasesJudged,
    ),
    Route(
        "PUT",
        f"{_RELEASES}/packages/{{sha256}}",
        "agents.admin",
        agent_releases.put_package,
        "Keep a package that verified metadata names: the body is the package",
        upload=True,
        action="agent.package.store",
        answer=bodies.PackageKept,
    ),
)
