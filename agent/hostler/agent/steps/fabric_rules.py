"""What is required of links and RDMA ports against what is there. Pure: each look gives a verdict and its reason."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hostler.agent.hardware.rdma import Port
from hostler.agent.host.links import Link
from hostler.catalog.params.network import FabricVerify, Interface, RdmaPort

GOOD_STATES = ("UP", "UNKNOWN")  # a driver without an operational state, such as a tunnel's, says UNKNOWN


class Seen(NamedTuple):
    """`name` is the link, port, peer or prerequisite that was looked at."""

    name: str
    ok: bool
    detail: str


def interface(wanted: Interface, found: Link | None) -> Seen:
    name = f"interface {wanted.name}"
    if found is None:
        return Seen(name, False, "is not there")
    if not found.up:
        return Seen(name, False, "is down as configured")
    if found.state not in GOOD_STATES:
        return Seen(name, False, f"has no link, its state is {found.state[:32]}")
    if found.mtu < wanted.minimum_mtu:
        return Seen(name, False, f"has an MTU of {found.mtu}, at least {wanted.minimum_mtu} is required")
    return Seen(name, True, f"up, MTU {found.mtu}")


def rdma_port(wanted: RdmaPort, found: Sequence[Port]) -> Seen:
    name = f"port {wanted.device}/{wanted.port}"
    port = next((one for one in found if (one.device, one.port) == (wanted.device, wanted.port)), None)
    if port is None:
        return Seen(name, False, "is not there")
    return next(_faults(name, wanted, port), Seen(name, True, f"active, {port.link_layer}, {port.rate:g} Gb/s"))


def _faults(name: str, wanted: RdmaPort, port: Port) -> Iterator[Seen]:
    if not port.active:
        yield Seen(name, False, f"is {port.state or 'in no known state'}, its link {port.phys_state or 'unknown'}")
    if wanted.link_layer not in ("any", port.link_layer):
        yield Seen(name, False, f"speaks {port.link_layer or 'nothing known'}, not {wanted.link_layer}")
    if port.rate < wanted.minimum_rate:
        yield Seen(name, False, f"runs at {port.rate:g} Gb/s, at least {wanted.minimum_rate:g} are required")
    if wanted.gid == "any" and not port.gids:
        yield Seen(name, False, "has no GID")
    if wanted.gid not in ("any", "none") and wanted.gid not in port.gids:
        yield Seen(name, False, f"has no GID of type {wanted.gid}")
    for counter, most in sorted(wanted.maximum_counters.items()):
        value = port.counters.get(counter)
        if value is None:
            yield Seen(name, False, f"has no counter {counter}")
        elif value > most:
            yield Seen(name, False, f"has counted {value} {counter}, at most {most} are allowed")


def active_ports(wanted: int, found: Sequence[Port]) -> Seen:
    """Names the ports that are not active when there are too few that are."""
    active = [port for port in found if port.active]
    if len(active) >= wanted:
        return Seen("RDMA ports", True, f"{len(active)} active")
    idle = ", ".join(f"{port.name} is {port.state or 'unknown'}" for port in found if not port.active)
    known = idle[:256] or f"this node has {len(found)}"
    return Seen("RDMA ports", False, f"{len(active)} active, at least {wanted} are required: {known}")


def prerequisites(params: FabricVerify, *, peer_memory: bool, lockable: int, hugepages: int) -> Iterator[Seen]:
    if params.peer_memory:
        detail = "announced" if peer_memory else "no driver announces the devices' memory to the network cards"
        yield Seen("peer memory", peer_memory, detail)
    if params.minimum_locked_bytes:
        enough = lockable >= params.minimum_locked_bytes
        yield Seen("locked memory", enough, f"{lockable} bytes may be locked")
    if params.minimum_free_hugepages:
        yield Seen("hugepages", hugepages >= params.minimum_free_hugepages, f"{max(hugepages, 0)} free")


def looks(params: FabricVerify, links: Mapping[str, Link], ports: Sequence[Port]) -> list[Seen]:
    """Everything that the node itself can answer, in the order of the parameters."""
    seen = [interface(wanted, links.get(wanted.name)) for wanted in params.interfaces]
    seen += [rdma_port(wanted, ports) for wanted in params.rdma_ports]
    if params.active_ports:
        seen.append(active_ports(params.active_ports, ports))
    return seen
