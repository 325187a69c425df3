"""What a command says it does to the machine beyond its own output; a node holds it to that."""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from hostler.catalog.auto_executed import auto_executed

SyscallGroup = Literal["mount", "namespace", "module", "trace", "keys", "clock", "system"]
_TOO_WIDE = frozenset({"/", "/etc", "/var", "/var/lib", "/home", "/run", "/opt", "/srv", "/mnt", "/media"})
# Device files of accelerators and of their fabric: a tool that only asks them something opens them for writing too.
_DEVICES = re.compile(r"/dev/(nvidia[a-z0-9-]*|kfd|dri|accel|infiniband|shm)")


class Effects(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All it may do; what is left out it may not.

    Attributes:
        writes: absolute paths below which it creates, changes or removes; each has to be there when it starts.
            Streams and devices such as /dev/null may always be written.
        network: sockets beyond those of this machine's own processes (AF_UNIX).
        syscalls: groups of system calls that no command may make unless it says so here.
    """

    writes: tuple[str, ...] = ()
    network: bool = False
    syscalls: tuple[SyscallGroup, ...] = ()


def findings(effects: Effects | None) -> Iterator[tuple[str, str, str]]:
    """(pointer, message, hint) of what is wrong with a declaration."""
    if effects is None:
        hint = "say 'effects: {}' if it only reads; see the step's page for the fields"
        yield "", "a command profile must declare its effects", hint
        return
    for index, path in enumerate(effects.writes):
        at, parts = f"/effects/writes/{index}", path.split("/")
        if _DEVICES.fullmatch(path):
            continue
        if not path.startswith("/") or {"", ".", ".."} & set(parts[1:] if path != "/" else ()):
            yield at, f"{path!r} is no absolute path in normal form", ""
        elif path in _TOO_WIDE or auto_executed(path):
            yield at, f"{path} is too much to write to, or files run by themselves there (J2)", "name what is below it"
