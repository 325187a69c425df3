"""Takes an inventory: every family in turn, each whole or with the reason why not."""

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from hostler.agent.host.host import Host
from hostler.agent.residue import (
    accounts,
    commands,
    containers,
    memory,
    network,
    places,
    processes,
    storage,
    tree,
)
from hostler.agent.residue.model import COMPLETE, INCOMPLETE, MOST_ITEMS, NOT_APPLICABLE, Inventory, Item
from hostler.agent.residue.reader import Bounds, Exhausted, Reader
from hostler.base.clock import Deadline

Family = Callable[[Reader], Iterable[Item]]


def proc_of(root: Path) -> str:
    """The process directory that speaks for the host: our own, or the first process of the machine below `root`."""
    return f"/proc/{os.getpid()}" if root == Path("/") else "/proc/1"


def families(root: Path, ignored: tuple[str, ...]) -> dict[str, Family]:
    """Names are part of the baseline: never renamed."""
    proc = proc_of(root)
    own = frozenset((os.getpid(),)) if root == Path("/") else frozenset[int]()
    return {
        "processes": lambda reader: processes.collect(reader, own),
        "accounts": accounts.collect,
        "storage": lambda reader: storage.collect(reader, proc),
        "sockets and routes": lambda reader: network.collect(reader, proc),
        "kernel memory": memory.collect_ipc,
        "kernel": memory.collect_kernel,
        "containers": containers.collect,
        "places": lambda reader: places.collect(reader, ignored),
        "file systems": lambda reader: tree.collect(reader, storage.mounts_of(reader, proc), ignored),
    }


async def take(
    host: Host, ignored: tuple[str, ...], most_entries: int, deadline: Deadline, stop: Callable[[], bool]
) -> Inventory:
    """What stands on the host now. Never raises for what a tenant did: `coverage` says what was not seen."""
    bounds = Bounds(most_entries, deadline, stop)
    told = {asked.family: await commands.ask(host, asked, deadline) for asked in commands.QUESTIONS}
    items, coverage = await asyncio.to_thread(look, host.root, bounds, ignored)  # after programs that load modules
    for family, (missing, found) in told.items():
        items |= set(found)
        coverage[family] = _said(missing)
    boot = _boot_id(host.root)
    return Inventory(
        taken_ms=host.clock.now_ms(),
        boot_id=boot,
        items=tuple(sorted(items)),
        coverage=coverage,
        ignored=tuple(sorted(ignored)),
    )


def _said(missing: str) -> str:
    if not missing:
        return COMPLETE
    return missing if missing.startswith(NOT_APPLICABLE) else INCOMPLETE + missing


def look(root: Path, bounds: Bounds, ignored: tuple[str, ...]) -> tuple[set[Item], dict[str, str]]:
    """The families that need no program. Blocks."""
    reader, items, coverage = Reader(root, bounds), set[Item](), dict[str, str]()
    for name, collect in families(root, ignored).items():
        try:
            for item in collect(reader):
                items.add(item)
                if len(items) > MOST_ITEMS:
                    raise Exhausted("there is more than an inventory may hold")
            coverage[name] = COMPLETE
        except (Exhausted, OSError, ValueError, RecursionError) as err:
            reason = err.strerror or str(err) if isinstance(err, OSError) else str(err)
            coverage[name] = f"{INCOMPLETE}{reason or type(err).__name__}"[:200]
    return items, coverage


def _boot_id(root: Path) -> str:
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def deadline_in(host: Host, seconds: float, task: Deadline) -> Deadline:
    """The sooner of the two."""
    return Deadline.after(min(seconds, task.remaining()), host.clock)
