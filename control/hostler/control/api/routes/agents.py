"""The agents on the nodes: what they should run, and the runs that bring them there (API-14, API-15)."""

from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response

from hostler.base.errors import error
from hostler.base.ids import new_id
from hostler.control.api import pages, sse
from hostler.control.api.agent_bodies import (
    AgentLifecycle,
    ChannelChanged,
    Channels,
    Follow,
    NodeFollows,
    Reason,
    RunEnded,
    RunStarted,
    SetVersion,
    StartRun,
)
from hostler.control.api.call import Call
from hostler.control.api.routes.nodes import named_node
from hostler.control.delivery.commands import with_commands
from hostler.control.delivery.contract import Document, Host
from hostler.control.delivery.host_files import agent_toml
from hostler.control.delivery.providers import provider_named
from hostler.control.kernel.agent_commands import CancelAgentRun, SetChannel, SetNodeAgent, StartAgentRun
from hostler.control.kernel.agent_matrix import PROVIDER, plan
from hostler.control.kernel.agent_progress import RUN_STATES, WAITING
from hostler.control.kernel.package_urls import mint
from hostler.control.store.agent_records import RunView
from hostler.control.store.apply import EVERYTHING
from hostler.control.store.records import NodeView, Page
from hostler.pki import dsse
from hostler.pki.agent_report import AgentReport
from hostler.pki.tokens import Token, new_enrolment_token
from hostler.pki.trust_files import trust_text

RUN = "run"
_QUIET_S = 15.0  # then a comment keeps the connection open


async def lifecycle(call: Call) -> AgentLifecycle:
    node = await named_node(call)
    found = await call.engine.reader.agents.lifecycle(node.node_id)
    if found is None:
        raise error("not_found", f"node {node.name} has no agent")
    return AgentLifecycle(
        node_id=node.node_id,
        name=node.name,
        agent=found.agent,
        capabilities=node.capabilities,
        report=_read(found.report) if found.report else None,
        latest_run=_shown(call, found.run) if found.run else None,
    )


def _read(report: bytes) -> AgentReport:
    """It was verified when it came."""
    return msgspec.json.decode(dsse.from_json(report).payload, type=AgentReport)


async def start(call: Call) -> tuple[int, RunStarted]:
    """201 with the run, and for a host that enrols anew the document with its token, once."""
    node, body = await named_node(call), await call.body(StartRun)
    how = plan(body.scenario, body.mode, body.safety_policy)
    provider = provider_named(body.provider)
    if how.kind == PROVIDER:
        _check_addresses(call)
    token = new_enrolment_token() if how.token else None
    now_ms = call.engine.clock.now_ms()
    run_id = await call.execute(
        StartAgentRun(
            actor=call.principal.actor(),
            run_id=new_id(RUN, now_ms),
            node_id=node.node_id,
            mode=body.mode,
            scenario=body.scenario,
            target_version=body.target_version,
            safety_policy=body.safety_policy,
            token_id=token.token_id if token else "",
            token_sha256=token.sha256 if token else "",
            token_expires_at_ms=now_ms + _reimage_ms(call) if token else 0,
            run_timeout_seconds=body.timeout_seconds,
            correlation_id=call.correlation_id,
        )
    )
    run = await _run(call, run_id)
    document = None
    if token is not None:
        by_hand = Document(provider="manual", media_type="text/plain", content=token.text)
        document = provider.document(_host(call, run, node, token)) if how.kind == PROVIDER else by_hand
    return 201, RunStarted(run=_shown(call, run), document=document)


def _reimage_ms(call: Call) -> int:
    packages = call.parts.packages
    return packages.settings.reimage_seconds * 1000 if packages else 0


def _check_addresses(call: Call) -> None:
    packages = call.parts.packages
    if packages is None or not (packages.settings.node_address and packages.settings.enroll_address):
        raise error(
            "invalid_config",
            "a host that is installed anew would not find this control plane",
            hint="set node_address and enroll_address under [updates] in control.toml",
        )


def _host(call: Call, run: RunView, node: NodeView, token: Token) -> Host:
    package, packages = run.next_action["package"], call.parts.packages
    assert packages is not None
    url, _ = mint(call.engine.agents, package["file"], run.run_id, call.engine.clock.now_ms(), _reimage_ms(call))
    return Host(
        run_id=run.run_id,
        node_name=node.name,
        agent_toml=agent_toml(packages.settings.node_address, packages.settings.enroll_address, packages.for_hosts),
        trust=trust_text(call.engine.trust.state).decode(),
        token=token.text,
        url=url,
        sha256=package["sha256"],
        size_bytes=package["size_bytes"],
        file=package["file"],
        suite=package["suite"],
        ca=packages.for_hosts.ca,
    )


async def runs(call: Call) -> Page[RunView]:
    """Newest first. `node_id` may be a name."""
    chosen = {name: call.query(name) for name in ("node_id", "state", "rollout_id") if call.query(name)}
    if chosen.get("state", WAITING) not in RUN_STATES:
        raise error("invalid_request", f"a lifecycle run is never {chosen['state'][:64]!r}", pointer="/state")
    if "node_id" in chosen:
        node = await call.engine.reader.node(chosen["node_id"])
        if node is None:
            raise error("not_found", f"there is no node {chosen['node_id'][:64]!r}", pointer="/node_id")
        chosen["node_id"] = node.node_id
    size = pages.size_of(call.query("page_size"))
    found = await call.engine.reader.agents.runs(chosen, call.query("cursor"), size)
    return Page(tuple(_shown(call, run) for run in found.items), found.next_cursor)


async def run(call: Call) -> RunView:
    """With commands whose addresses are good from now on."""
    return _shown(call, await _run(call, call.path("run_id")))


async def run_events(call: Call) -> Response:
    """The run each time it has changed; the last is as it ended."""
    return sse.respond(_followed(call, await _run(call, call.path("run_id"))))


async def _followed(call: Call, run: RunView) -> AsyncIterator[bytes]:
    wakes, number, shown = call.engine.wakes, 0, ""
    while True:
        mark = wakes.newest(EVERYTHING)  # first: what is stored after it is read in the next turn
        run = await _run(call, run.run_id)
        said = f"{run.state} {run.waiting_for} {run.checks}"
        if said != shown:
            number, shown = number + 1, said
            yield sse.event("run", run, number)
        if run.finished_at_ms:
            yield sse.event("end", {"state": run.state}, number)
            return
        if not await call.is_still_welcome():
            return
        if not await wakes.changed(EVERYTHING, mark, _QUIET_S):
            yield sse.COMMENT


async def cancel(call: Call) -> RunEnded:
    body = await call.body(Reason)
    run_id = call.path("run_id")
    state = await call.execute(
        CancelAgentRun(
            actor=call.principal.actor(), run_id=run_id, reason=body.reason, correlation_id=call.correlation_id
        )
    )
    return RunEnded(run_id=run_id, state=state)


async def _run(call: Call, run_id: str) -> RunView:
    found = await call.engine.reader.agents.run(run_id)
    if found is None:
        raise error("not_found", f"there is no lifecycle run {run_id!r}")
    return found


def _shown(call: Call, run: RunView) -> RunView:
    settings, now_ms = call.engine.agents, call.engine.clock.now_ms()
    if run.finished_at_ms or not settings.public_url:
        return run
    return msgspec.structs.replace(run, next_action=with_commands(run.next_action, run.run_id, settings, now_ms))


async def channels(call: Call) -> Channels:
    return Channels(items=tuple(await call.engine.reader.agents.channels()))


async def set_channel(call: Call) -> ChannelChanged:
    body, channel = await call.body(SetVersion), call.path("channel")
    nodes = await call.execute(
        SetChannel(
            actor=call.principal.actor(), channel=channel, version=body.version, correlation_id=call.correlation_id
        )
    )
    return ChannelChanged(channel=channel, version=body.version, nodes=nodes)


async def follow(call: Call) -> NodeFollows:
    node, body = await named_node(call), await call.body(Follow)
    version = await call.execute(
        SetNodeAgent(
            actor=call.principal.actor(),
            node_id=node.node_id,
            channel=body.channel,
            version=body.version,
            correlation_id=call.correlation_id,
        )
    )
    return NodeFollows(node_id=node.node_id, channel=body.channel, desired_agent_version=version)
