"""Who commands run as and files belong to: names to numbers."""

import asyncio
import grp
import os
import pwd
import time
from dataclasses import dataclass

from hostler.agent.host.files import Files
from hostler.base.errors import error

SERVICE_USER = "hostler"
FALLBACK_USER = "nobody"
MOST_NAMES_BYTES = 4 * 1024 * 1024
_FRESH_S = 10.0  # how long a looked-up user stands


@dataclass(frozen=True)
class User:
    """A user as `setgroups`, `setgid` and `setuid` want it."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]


class Users:
    """Looks users up in a thread, because a name service may be far away, and keeps them for a moment."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, User]] = {}

    async def to_run_as(self, name: str) -> User | None:
        """The user a command has to be switched to; `None` when it is the agent's own.

        Args:
            name: of the command profile; "" is the agent's service user.

        Raises:
            HostlerError: `local_policy_denied` when this agent is not root and would have to be,
                `incompatible` when there is no such user.
        """
        own = os.geteuid()
        if not name and own != 0:
            return None
        user = await self._look_up(name or SERVICE_USER, FALLBACK_USER if not name else "")
        if user.uid == own:
            return None
        if own != 0:
            raise error(
                "local_policy_denied",
                f"the command must run as {user.name}, and this agent is not root",
                hint="run the agent as root, or leave run_as out of the command profile",
            )
        return user

    async def _look_up(self, name: str, fallback: str) -> User:
        known = self._known.get(name)
        if known is not None and time.monotonic() - known[0] < _FRESH_S:
            return known[1]
        user = await asyncio.to_thread(_user, name, fallback)
        self._known[name] = (time.monotonic(), user)
        return user


def _user(name: str, fallback: str) -> User:
    try:
        entry = pwd.getpwnam(name)
    except KeyError as err:
        if fallback:
            return _user(fallback, "")
        raise error("incompatible", f"this node has no user {name!r}") from err
    return User(entry.pw_name, entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)))


def owner_ids(owner: str, group: str, files: Files | None = None) -> tuple[int, int]:
    """Numbers for a file's owner and group; "" is the agent's own. Raises `incompatible`.

    Args:
        files: of a root that is not this machine's and has its own `/etc/passwd`: its names count there.
    """
    if files is not None and files.info("/etc/passwd").exists:
        uid = _listed(files, "/etc/passwd", owner, "user") if owner else os.geteuid()
        return uid, _listed(files, "/etc/group", group, "group") if group else os.getegid()
    try:
        uid = pwd.getpwnam(owner).pw_uid if owner else os.geteuid()
    except KeyError as err:
        raise error("incompatible", f"this node has no user {owner!r}") from err
    try:
        gid = grp.getgrnam(group).gr_gid if group else os.getegid()
    except KeyError as err:
        raise error("incompatible", f"this node has no group {group!r}") from err
    return uid, gid


def _listed(files: Files, path: str, name: str, what: str) -> int:
    """The number in the third field of the line that begins with the name."""
    for line in files.read(path, MOST_NAMES_BYTES).decode(errors="replace").splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[0] == name and fields[2].isdecimal():
            return int(fields[2])
    raise error("incompatible", f"this node has no {what} {name!r}")
