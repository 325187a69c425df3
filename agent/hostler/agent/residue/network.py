"""Sockets, interfaces, routes: from the kernel's own tables, without a netlink library."""

import ipaddress
import struct
from collections.abc import Iterator

from hostler.agent.residue.model import Item, plain
from hostler.agent.residue.reader import Reader

_LISTEN, _BOUND_UDP = "0A", "07"
_UNIX_LISTENING = 0x10000
TABLE_BYTES = 64 * 1024 * 1024


def collect(reader: Reader, proc: str) -> Iterator[Item]:
    """Of the name space that `proc` (a process's directory) is in. Raises OSError, `Exhausted`."""
    net = f"{proc}/net"
    for protocol, wanted in (("tcp", _LISTEN), ("tcp6", _LISTEN), ("udp", _BOUND_UDP), ("udp6", _BOUND_UDP)):
        yield from parse_inet(protocol, reader.text_or_none(f"{net}/{protocol}", TABLE_BYTES) or "", wanted)
    for protocol in ("raw", "raw6", "udplite", "icmp"):
        yield from parse_inet(protocol, reader.text_or_none(f"{net}/{protocol}", TABLE_BYTES) or "", "")
    yield from parse_unix(reader.text_or_none(f"{net}/unix", TABLE_BYTES) or "")
    yield from parse_packet(reader.text_or_none(f"{net}/packet", TABLE_BYTES) or "")
    yield from parse_interfaces(reader.text_or_none(f"{net}/dev") or "")
    yield from parse_routes(reader.text_or_none(f"{net}/route", TABLE_BYTES) or "")
    yield from parse_routes6(reader.text_or_none(f"{net}/ipv6_route", TABLE_BYTES) or "")
    for name in reader.names("/sys/devices/virtual/net"):
        if reader.exists(f"/sys/devices/virtual/net/{name}/bridge"):
            yield Item("bridge", plain(name))


def parse_inet(protocol: str, table: str, wanted: str) -> Iterator[Item]:
    """Rows of /proc/net/tcp and its kin: number, local address:port, remote, state, ..., in hex."""
    for line in table.splitlines()[1:]:
        row = line.split()
        if len(row) > 7 and wanted in ("", row[3]):
            address, _, port = row[1].rpartition(":")
            kind = "listening_socket" if wanted else "raw_socket"
            yield Item(kind, f"{protocol} {address_of(address)} port {int(port, 16)}", f"uid {row[7]}")


def address_of(word: str) -> str:
    """Hex of words in this machine's byte order."""
    words = [int(word[at : at + 8], 16) for at in range(0, len(word), 8)]
    return str(ipaddress.ip_address(b"".join(struct.pack("=I", each) for each in words)))


def parse_unix(table: str) -> Iterator[Item]:
    """Listening ones with a name: Num RefCount Protocol Flags Type St Inode [Path]."""
    for line in table.splitlines()[1:]:
        row = line.split(maxsplit=7)
        if len(row) == 8 and int(row[3], 16) & _UNIX_LISTENING:
            yield Item("unix_socket", plain(row[7]))


def parse_packet(table: str) -> Iterator[Item]:
    """sk RefCnt Type Proto Iface R Rmem User Inode."""
    for line in table.splitlines()[1:]:
        row = line.split()
        if len(row) >= 8:
            yield Item("raw_socket", f"packet protocol {row[3]} on interface {row[4]}", f"uid {row[7]}")


def parse_interfaces(table: str) -> Iterator[Item]:
    for line in table.splitlines()[2:]:
        name = line.partition(":")[0].strip()
        if name:
            yield Item("interface", plain(name))


def parse_routes(table: str) -> Iterator[Item]:
    """Iface Destination Gateway Flags RefCnt Use Metric Mask ..."""
    for line in table.splitlines()[1:]:
        row = line.split()
        if len(row) >= 8:
            network = ipaddress.ip_network(f"{address_of(row[1])}/{address_of(row[7])}", strict=False)
            yield Item("route", f"{network} by {plain(row[0])}", f"gateway {address_of(row[2])}")


def parse_routes6(table: str) -> Iterator[Item]:
    """Destination length source length next-hop metric refs use flags interface; multicast and local ones left out."""
    for line in table.splitlines():
        row = line.split()
        if len(row) == 10 and not row[0].startswith("ff") and not int(row[8], 16) & 0x80000000:
            destination = ipaddress.ip_address(bytes.fromhex(row[0]))
            gateway = ipaddress.ip_address(bytes.fromhex(row[4]))
            yield Item("route", f"{destination}/{int(row[1], 16)} by {plain(row[9])}", f"gateway {gateway}")
