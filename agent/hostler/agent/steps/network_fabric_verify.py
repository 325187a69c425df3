"""`network.fabric.verify`: links, RDMA ports, peers and what collectives need of a node (SK-11). Only looks."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from hostler.agent.hardware.rdma import free_hugepages, lockable_bytes, peer_memory, ports
from hostler.agent.host.host import Host
from hostler.agent.host.links import Link, links
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.agent.steps.fabric_rules import Seen, looks, prerequisites
from hostler.base.errors import HostlerError, error
from hostler.catalog.params.network import FabricVerify, Peer


class FabricVerifyKind:
    name = "network.fabric.verify"

    async def plan(self, view: StepView) -> Plan:
        return Plan(tuple(Change(action="check", target=target) for target in _targets(view.params)))

    async def apply(self, context: StepContext) -> Outcome:
        params: FabricVerify = context.params
        if not (params.interfaces or params.rdma_ports or params.active_ports):
            raise error("fabric_not_ready", "no interface, RDMA port or number of active ports is required of it")
        seen = await _unless_cancelled(context.cancelled, _look(context, params))
        for one in seen:
            context.log("agent", f"{one.name} {'is ready' if one.ok else 'is not ready'}: {one.detail}")
        failed = [one for one in seen if not one.ok]
        if failed:
            more = f" (and {len(failed) - 1} more of {len(seen)})" if len(failed) > 1 else ""
            raise error("fabric_not_ready", f"{failed[0].name} {failed[0].detail}{more}")
        return Outcome(outputs={"results": [one._asdict() for one in seen]}, changed=False)

    async def probe(self, view: StepView) -> Probe:
        return Probe(truth=Truth.NOT_DONE, note="the fabric is looked at anew")


KIND = FabricVerifyKind()


async def _look(context: StepContext, params: FabricVerify) -> list[Seen]:
    root, seconds = context.host.root, min(params.timeout_seconds, context.deadline.remaining())
    found: dict[str, Link] = {}
    if params.interfaces:
        try:
            async with asyncio.timeout(seconds):
                found = await links([one.name for one in params.interfaces])
        except TimeoutError as err:
            raise error("timeout", "the kernel did not tell the network interfaces in time") from err
    seen = looks(params, found, await asyncio.to_thread(ports, root))
    seen += prerequisites(
        params,
        peer_memory=peer_memory(root),
        lockable=lockable_bytes(),
        hugepages=free_hugepages(root),
    )
    return seen + list(await asyncio.gather(*(_reach(context.host, peer, seconds) for peer in params.peers)))


async def _reach(host: Host, peer: Peer, seconds: float) -> Seen:
    name = f"peer {peer.host}:{peer.port}"
    try:
        async with asyncio.timeout(seconds):
            await host.net.tcp_connect(peer.host, peer.port)
    except TimeoutError:
        return Seen(name, False, f"gave no answer in {seconds:g} s")
    except OSError as err:
        return Seen(name, False, f"cannot be reached: {err.strerror or type(err).__name__}")
    return Seen(name, True, "accepts connections")


async def _unless_cancelled(cancelled: asyncio.Event, work: Coroutine[Any, Any, list[Seen]]) -> list[Seen]:
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(_kept(work))
        stop = group.create_task(cancelled.wait())
        await asyncio.wait({looking, stop}, return_when=asyncio.FIRST_COMPLETED)
        found = looking.result() if looking.done() else error("canceled", "the fabric was not looked at to the end")
        stop.cancel()
        looking.cancel()
    if isinstance(found, HostlerError):
        raise found
    return found


async def _kept(work: Coroutine[Any, Any, list[Seen]]) -> list[Seen] | HostlerError:
    try:
        return await work
    except HostlerError as err:
        return err


def _targets(params: FabricVerify) -> list[str]:
    targets = [f"interface {one.name}" for one in params.interfaces]
    targets += [f"port {one.device}/{one.port}" for one in params.rdma_ports]
    targets += [f"{params.active_ports} active RDMA ports"] if params.active_ports else []
    targets += ["peer memory"] if params.peer_memory else []
    targets += [f"{params.minimum_locked_bytes} bytes of locked memory"] if params.minimum_locked_bytes else []
    targets += [f"{params.minimum_free_hugepages} free hugepages"] if params.minimum_free_hugepages else []
    return targets + [f"peer {one.host}:{one.port}" for one in params.peers]
