"""Parameters of `network.fabric.verify`: links, RDMA ports and what collectives need of a node (SK-11)."""

from typing import Annotated, Literal

import msgspec

from hostler.catalog.params.health import Port

Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$(?!\n)")]
InterfaceName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$(?!\n)")]
Counter = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_]{1,64}$(?!\n)")]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]


class Interface(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A network interface that is up and has a carrier.

    Attributes:
        minimum_mtu: in bytes; 0 takes any.
    """

    name: InterfaceName
    minimum_mtu: NotNegative = 0


class RdmaPort(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A port of an RDMA device that is active, with its link up.

    Attributes:
        port: counted from 1.
        link_layer: InfiniBand, or Ethernet for RoCE.
        minimum_rate: in Gb/s; 0 takes any.
        gid: a GID of that type has to be set; `any` takes every type, `none` looks for none.
        maximum_counters: by name of a file in the port's `counters` or `hw_counters`; they count from the start of
            the device, and one that the port does not have fails.
    """

    device: Name
    port: Annotated[int, msgspec.Meta(ge=1, le=255)] = 1
    link_layer: Literal["any", "infiniband", "ethernet"] = "any"
    minimum_rate: Annotated[float, msgspec.Meta(ge=0)] = 0
    gid: Literal["none", "any", "ib_or_roce_v1", "roce_v2"] = "any"
    maximum_counters: Annotated[dict[Counter, NotNegative], msgspec.Meta(max_length=64)] = {}


class Peer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Another node that accepts TCP connections."""

    host: Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
    port: Port


class FabricVerify(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Looks at the node's links and RDMA ports and fails with the first port that is not as required.

    At least one interface, RDMA port or number of active ports has to be required: a check of nothing fails.

    Attributes:
        active_ports: how many RDMA ports have to be active, whichever they are.
        peers: other nodes that have to be reachable.
        peer_memory: the driver lets network cards reach the devices' memory (nvidia_peermem, or AMD's amdkfd peer).
        minimum_locked_bytes: how much memory a command of this agent may lock; RDMA needs it locked.
        minimum_free_hugepages: of the default size.
        timeout_seconds: for the answers of peers, and of the kernel.
    """

    interfaces: Annotated[tuple[Interface, ...], msgspec.Meta(max_length=128)] = ()
    rdma_ports: Annotated[tuple[RdmaPort, ...], msgspec.Meta(max_length=128)] = ()
    active_ports: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0
    peers: Annotated[tuple[Peer, ...], msgspec.Meta(max_length=64)] = ()
    peer_memory: bool = False
    minimum_locked_bytes: NotNegative = 0
    minimum_free_hugepages: NotNegative = 0
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, le=300)] = 10
