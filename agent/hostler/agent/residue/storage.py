"""Mounts, swap, loop devices, mapped devices and RAID."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from hostler.agent.residue.model import Item, plain
from hostler.agent.residue.reader import Reader

_OCTAL = re.compile(r"\\([0-7]{3})")
_CHANGING = ("size=", "nr_inodes=", "pgrp=", "pipe_ino=", "fd=")  # options that say something new each boot


class Mounted(NamedTuple):
    path: str
    root: str
    fs_type: str
    source: str
    options: str


def collect(reader: Reader, proc: str) -> Iterator[Item]:
    """Raises OSError, `Exhausted`."""
    for mount in mounts_of(reader, proc):
        bound = f" of {plain(mount.root)}" if mount.root != "/" else ""
        yield Item("mount", plain(mount.path), f"{mount.fs_type} {plain(mount.source)}{bound} {mount.options}")
    yield from parse_swaps(reader.text_or_none("/proc/swaps") or "")
    for name in reader.names("/sys/block"):
        yield from _block(reader, name)


def mounts_of(reader: Reader, proc: str) -> tuple[Mounted, ...]:
    found = map(parse_mount, (reader.text(f"{proc}/mountinfo", 64 * 1024 * 1024)).splitlines())
    return tuple(mount for mount in found if mount is not None)


def parse_mount(line: str) -> Mounted | None:
    """`id parent major:minor root point options [fields] - type source super-options`."""
    left, separator, right = line.partition(" - ")
    first, last = left.split(" "), right.split(" ")
    if not separator or len(first) < 6 or len(last) < 3:
        return None
    options = ",".join(o for o in first[5].split(",") if not o.startswith(_CHANGING))
    return Mounted(_unescaped(first[4]), _unescaped(first[3]), last[0], _unescaped(last[1]), options)


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def parse_swaps(text: str) -> Iterator[Item]:
    """Filename, type, size, used, priority."""
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) >= 3:
            yield Item("swap", plain(_unescaped(fields[0])), f"{fields[1]} {fields[2]} KiB")


def _block(reader: Reader, name: str) -> Iterator[Item]:
    at = f"/sys/devices/virtual/block/{name}"
    if name.startswith("loop"):
        backing = reader.text_or_none(f"{at}/loop/backing_file")
        if backing is not None:
            yield Item("loop_device", f"/dev/{name}", f"over {plain(backing.strip())}")
    elif name.startswith("dm-"):
        mapped = (reader.text_or_none(f"{at}/dm/name") or name).strip()
        uuid = (reader.text_or_none(f"{at}/dm/uuid") or "").strip()
        yield Item("mapped_device", plain(mapped), plain(uuid))
    elif name.startswith("md"):
        level = (reader.text_or_none(f"{at}/md/level") or "").strip()
        yield Item("raid", f"/dev/{name}", plain(level))
