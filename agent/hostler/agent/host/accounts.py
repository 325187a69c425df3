"""Local users, in the files that hold them: passwd, shadow, group, gshadow, under the lock that passwd(1) takes.

Fixed paths below the root, so that a machine in a directory is served like the machine itself. Lines of others
are carried over byte for byte.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from hostler.agent.host.files import Files
from hostler.base.errors import error

FIRST_UID, LAST_UID = 20_000, 59_999  # of users that are made here
LOWEST_UID, NOBODY = 1000, 65_534  # below: the system's own, which nothing here touches
NO_LOGIN = "/usr/sbin/nologin"
FILE_BYTES = 16 * 1024 * 1024
PASSWD, SHADOW, GROUP, GSHADOW = "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow"
SUBIDS = ("/etc/subuid", "/etc/subgid")
_MODES = {PASSWD: 0o644, GROUP: 0o644, SHADOW: 0o640, GSHADOW: 0o640, **dict.fromkeys(SUBIDS, 0o644)}
EXPIRED_DAY = "1"  # 2 January 1970: sshd and PAM refuse keys and passwords alike
LOCK_PATIENCE_S = 15


class Account(NamedTuple):
    name: str
    uid: int
    gid: int
    home: str
    shell: str


class Accounts:
    """The door. Methods block."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files = Files(root, tuple(_MODES))

    def find(self, name: str) -> Account | None:
        return next((a for a in map(_account, self._lines(PASSWD)) if a is not None and a.name == name), None)

    def mine(self, name: str) -> Account | None:
        """The account, if a step may touch it. Raises `user_protected` for one of the system."""
        found = self.find(name)
        if found is not None:
            check_uid(found.uid, name)
        return found

    def free_uid(self) -> int:
        """Raises `file_error` when none is left."""
        taken = {account.uid for account in map(_account, self._lines(PASSWD)) if account}
        taken |= {int(f[2]) for f in map(_fields, self._lines(GROUP)) if len(f) > 2 and f[2].isdigit()}
        for uid in range(FIRST_UID, LAST_UID + 1):
            if uid not in taken:
                return uid
        raise error("file_error", "no user id is left for a tenant on this node")

    def subordinate(self, name: str) -> tuple[range, ...]:
        """User ids that the user may be inside a user name space of its own."""
        rows = (_fields(line) for line in self._lines(SUBIDS[0]))
        return tuple(
            range(int(row[1]), int(row[1]) + int(row[2]))
            for row in rows
            if len(row) == 3 and row[0] == name and row[1].isdigit() and row[2].isdigit()
        )

    def add(self, account: Account) -> None:
        """Without a password: only keys let it in. Does nothing for one that is there just so."""
        check_uid(account.uid, account.name)
        if account.gid == 0:
            raise error("user_protected", f"{account.name} would be in the group of root")
        with self._locked():
            fields = (account.name, "x", account.uid, account.gid, "", account.home, account.shell)
            self._put(GROUP, account.name, f"{account.name}:x:{account.gid}:")
            self._put(GSHADOW, account.name, f"{account.name}:!::", only_if_there=True)
            self._put(SHADOW, account.name, f"{account.name}:*:19000:0:99999:7:::", only_if_there=True)
            self._put(PASSWD, account.name, ":".join(map(str, fields)))

    def fence(self, name: str, *, made_here: bool = False) -> None:
        """No way in any more: locked, expired, no shell. One that was made here is locked whatever its id is now."""
        if (self.find(name) if made_here else self.mine(name)) is None:
            return
        with self._locked():
            self._change(SHADOW, name, _locked_out)
            self._change(PASSWD, name, lambda fields: [*fields[:6], NO_LOGIN])

    def fenced(self, name: str) -> bool:
        account = self.find(name)
        rows = [_fields(line) for line in self._lines(SHADOW)]
        shadow = next((row for row in rows if row[0] == name), None)
        out = shadow is None or (shadow[1][:1] in "!*" and len(shadow) > 7 and shadow[7] == EXPIRED_DAY)
        return account is None or (account.shell == NO_LOGIN and out)

    def remove(self, name: str) -> None:
        """The user, its own group, its memberships and subordinate ids."""
        self.mine(name)
        with self._locked():
            for path in _MODES:
                lines = self._lines(path)
                kept = [line for line in lines if _fields(line)[0] != name]
                if path in (GROUP, GSHADOW):
                    kept = [_without_member(line, name) for line in kept]
                if kept != lines:
                    self._write(path, kept)

    def _put(self, path: str, name: str, line: str, *, only_if_there: bool = False) -> None:
        lines = self._lines(path)
        if only_if_there and not lines:
            return
        others = [one for one in lines if _fields(one)[0] != name]
        if [*others, line] != lines and line not in lines:
            self._write(path, [*others, line])

    def _change(self, path: str, name: str, change: "Change") -> None:
        lines = self._lines(path)
        changed = [":".join(change(_fields(one))) if _fields(one)[0] == name else one for one in lines]
        if changed != lines:
            self._write(path, changed)

    def _lines(self, path: str) -> list[str]:
        if not self._files.info(path).exists:
            return []
        text = self._files.read(path, FILE_BYTES).decode("utf-8", "surrogateescape")
        return [line for line in text.split("\n") if line]

    def _write(self, path: str, lines: list[str]) -> None:
        before = self._files.info(path)
        mode = int(before.mode, 8) if before.exists else _MODES[path]
        content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        self._files.write(path, content, mode=mode, uid=before.uid, gid=before.gid, make_parents=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """As `lckpwdf` does it. Raises `file_error` when somebody else keeps it."""
        folder = self._root / "etc"
        folder.mkdir(exist_ok=True)
        fd = os.open(folder / ".pwd.lock", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + LOCK_PATIENCE_S
            while True:
                try:
                    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError as err:
                    if time.monotonic() >= until:
                        raise error("file_error", "another program keeps the account files locked") from err
                    time.sleep(0.05)
            yield
        finally:
            os.close(fd)


Change = Callable[[list[str]], list[str]]


def check_uid(uid: int, name: str) -> None:
    """Raises `user_protected`: root, the system's users and nobody are not a tenant's."""
    if uid < LOWEST_UID or uid == NOBODY or uid == os.geteuid() or uid >= 2**31:
        raise error("user_protected", f"user {name!r} with id {uid} belongs to the system")


def _fields(line: str) -> list[str]:
    return line.split(":")


def _account(line: str) -> Account | None:
    fields = _fields(line)
    if len(fields) != 7 or not fields[2].isdigit() or not fields[3].isdigit():
        return None
    return Account(fields[0], int(fields[2]), int(fields[3]), fields[5], fields[6])


def _locked_out(fields: list[str]) -> list[str]:
    padded = [*fields, *[""] * (9 - len(fields))]
    padded[1] = padded[1] if padded[1].startswith("!") else f"!{padded[1]}"
    padded[7] = EXPIRED_DAY
    return padded


def _without_member(line: str, name: str) -> str:
    fields = _fields(line)
    if len(fields) != 4:
        return line
    members = fields[3].split(",")
    return ":".join([*fields[:3], ",".join(m for m in members if m != name)]) if name in members else line
