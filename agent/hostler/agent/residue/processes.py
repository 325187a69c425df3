"""Who runs, who is logged in, who holds a GPU, and in which name spaces."""

import os
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from hostler.agent.residue.model import Item, plain
from hostler.agent.residue.reader import Reader

_GPU = re.compile(r"/dev/(nvidia\d+|nvidiactl|nvidia-uvm|kfd|dri/render\w+|accel/accel\d+)", re.ASCII)
_NUMBERED = re.compile(r"\d+")
_UTMP = struct.Struct("<h2xi32s4s32s256shhiii16s20s")
_USER_PROCESS = 7
KERNEL_PARENT = 2


class Process(NamedTuple):
    pid: int
    parent: int
    uid: int
    name: str
    executable: str
    cgroup: str
    state: str


def collect(reader: Reader, own: frozenset[int] = frozenset()) -> Iterator[Item]:
    """`own`: process ids of the agent and what it started. Raises OSError, `Exhausted`."""
    known = {p.pid: p for p in all_processes(reader)}
    mine = descendants(known, own)
    for process in known.values():
        if process.pid in mine or process.parent == KERNEL_PARENT or process.pid == KERNEL_PARENT:
            continue
        if process.state in ("Z", "X"):
            continue
        yield Item("process", f"{process.executable or process.name} of uid {process.uid}", process.cgroup)
        yield from _gpus(reader, process)
    yield from _name_spaces(reader, [p for p in known.values() if p.pid not in mine and p.executable])
    yield from sessions(reader)


def descendants(known: dict[int, Process], roots: frozenset[int]) -> frozenset[int]:
    found = set(roots)
    grew = bool(roots)
    while grew:
        more = {p.pid for p in known.values() if p.parent in found} - found
        found |= more
        grew = bool(more)
    return frozenset(found)


def all_processes(reader: Reader) -> Iterator[Process]:
    """One that ends while it is looked at is no longer there."""
    for name in reader.names("/proc"):
        if not name.isdigit():
            continue
        try:
            stat, status = reader.read(f"/proc/{name}/stat"), reader.text(f"/proc/{name}/status")
            cgroup = reader.text_or_none(f"/proc/{name}/cgroup") or ""
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield parse_process(int(name), stat, status, _link(reader, f"/proc/{name}/exe"), cgroup)


def parse_process(pid: int, stat: bytes, status: str, executable: str, cgroup: str) -> Process:
    """`stat` is `pid (name) state ppid ...`; the name may hold anything."""
    head, _, rest = stat.rpartition(b")")
    fields = rest.split()
    state, parent = (fields[0].decode("ascii", "replace"), int(fields[1])) if len(fields) > 1 else ("?", 0)
    uid = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("Uid:")), -1)
    unit = cgroup.strip().rpartition(":")[2]
    return Process(pid, parent, uid, plain(head.partition(b"(")[2]), plain(executable), _steady(unit), state)


def _steady(cgroup: str) -> str:
    """Without the numbers that change from one login or start to the next."""
    return plain(_NUMBERED.sub("N", cgroup))


def _link(reader: Reader, path: str) -> str:
    try:
        return os.readlink(reader.root / path.lstrip("/"))  # noqa: PTH115  # the text, not a path to follow
    except OSError:
        return ""


def _gpus(reader: Reader, process: Process) -> Iterator[Item]:
    held = set()
    for fd in reader.names(f"/proc/{process.pid}/fd"):
        match = _GPU.match(_link(reader, f"/proc/{process.pid}/fd/{fd}"))
        if match:
            held.add(match[0])
    if held:
        yield Item("gpu_process", f"{process.executable or process.name} of uid {process.uid}", ", ".join(sorted(held)))


def _name_spaces(reader: Reader, processes: list[Process]) -> Iterator[Item]:
    """Network and user name spaces that are not the first process's own."""
    for what in ("net", "user"):
        usual = _link(reader, f"/proc/1/ns/{what}")
        for process in processes:
            there = _link(reader, f"/proc/{process.pid}/ns/{what}")
            if there and there != usual:
                yield Item(f"{what}_namespace", f"of {process.executable or process.name} of uid {process.uid}")
    for name in reader.names("/run/netns"):
        yield Item("net_namespace", plain(f"/run/netns/{name}"))


def sessions(reader: Reader) -> Iterator[Item]:
    for name in reader.names("/run/systemd/sessions"):
        text = reader.text_or_none(f"/run/systemd/sessions/{name}")
        if text is not None and not name.endswith(".ref"):
            yield Item("session", f"of uid {_value(text, 'UID')}", _value(text, "CLASS"))
    for name in reader.names("/run/systemd/users"):
        yield Item("session", plain(f"of uid {name}"), "manager")
    data = reader.text_or_none("/run/utmp")
    for user, line in parse_utmp(data.encode("utf-8", "surrogateescape") if data else b""):
        yield Item("session", f"of user {user}", line)


def _value(text: str, key: str) -> str:
    found = next((line for line in text.splitlines() if line.startswith(f"{key}=")), "")
    return plain(found.partition("=")[2])


def parse_utmp(data: bytes) -> Iterator[tuple[str, str]]:
    """(user, terminal) of everybody logged in."""
    for offset in range(0, len(data) - _UTMP.size + 1, _UTMP.size):
        kind, _pid, line, _id, user, *_ = _UTMP.unpack_from(data, offset)
        if kind == _USER_PROCESS:
            yield plain(user.split(b"\0")[0]), plain(line.split(b"\0")[0])
