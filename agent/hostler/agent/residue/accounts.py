"""Users, groups, passwords, subordinate ids: line by line. Of a password only whether it is the same."""

import re
from collections.abc import Iterator

from hostler.agent.residue.model import Item, plain
from hostler.agent.residue.reader import Reader
from hostler.base.digest import sha256_hex

JOURNALS = ("/var/log/journal", "/run/log/journal")
_JOURNAL = re.compile(r"user-(\d{1,10})[.@]", re.ASCII)


def collect(reader: Reader) -> Iterator[Item]:
    """Raises OSError, `Exhausted`."""
    for path, parse in _FILES.items():
        yield from parse(reader.text_or_none(path) or "")
    for folder in JOURNALS:
        for machine in reader.names(folder):
            users = {match[1] for name in reader.names(f"{folder}/{machine}") if (match := _JOURNAL.match(name))}
            yield from (Item("user_journal", f"of uid {uid}", folder) for uid in sorted(users))


def _lines(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) > 1 and fields[0]:
            yield fields


def parse_passwd(text: str) -> Iterator[Item]:
    for name, *rest in _lines(text):
        yield Item("user", plain(name), plain(":".join(rest[1:])))


def parse_group(text: str) -> Iterator[Item]:
    for name, *rest in _lines(text):
        yield Item("group", plain(name), plain(":".join(rest[1:])))


def parse_shadow(text: str) -> Iterator[Item]:
    """The digest is over a salted hash and more; it tells a change, and nothing to try passwords on."""
    for fields in _lines(text):
        secret = fields[1]
        state = "locked" if secret.startswith(("!", "*")) else "none" if not secret else "set"
        yield Item(
            "password", plain(fields[0]), f"{state} {sha256_hex(':'.join(fields).encode(errors='replace'))[:12]}"
        )


def parse_subid(text: str) -> Iterator[Item]:
    for name, *rest in _lines(text):
        yield Item("subordinate_id", plain(name), plain(":".join(rest)))


_FILES = {
    "/etc/passwd": parse_passwd,
    "/etc/group": parse_group,
    "/etc/shadow": parse_shadow,
    "/etc/subuid": parse_subid,
    "/etc/subgid": parse_subid,
}
