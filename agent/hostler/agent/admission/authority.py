"""What root of this node forbids: `[authority]` of agent.toml. It wins over everything (AZ-09, EX-09)."""

from collections.abc import Iterator
from typing import Any

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.catalog.allowed import named_packages
from hostler.catalog.auto_executed import files_of
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.policy import covers
from hostler.catalog.sources import SOURCES, source_url


class LocalAuthority(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    deny_operations: `type` or `type@version`.
    deny_users: whom no command may run as and no file may be given to.
    allow_packages, allow_units: exact names of what may be installed and controlled; `None` leaves it to the
        signed definitions. A denied name stays denied.
    allow_paths, deny_paths: prefixes of whole path components; `None` allows every path. A denied
        prefix inside an allowed one stays denied.
    allow_sources, deny_sources: URL prefixes, matched as the policy's are.
    """

    deny_operations: tuple[str, ...] = ()
    deny_step_kinds: tuple[str, ...] = ()
    deny_command_profiles: tuple[str, ...] = ()
    deny_users: tuple[str, ...] = ()
    allow_packages: tuple[str, ...] | None = None
    deny_packages: tuple[str, ...] = ()
    allow_units: tuple[str, ...] | None = None
    deny_units: tuple[str, ...] = ()
    allow_paths: tuple[str, ...] | None = None
    deny_paths: tuple[str, ...] = ("/etc/hostler",)
    allow_sources: tuple[str, ...] | None = None
    deny_sources: tuple[str, ...] = ()

    def check_operation(self, type_: str, version: str) -> None:
        """Raises `local_policy_denied`."""
        for name in (type_, f"{type_}@{version}"):
            if name in self.deny_operations:
                raise _denied(f"operation {name} is forbidden on this node", "deny_operations")

    def check_kind(self, kind: str, command: CommandProfile | None) -> None:
        """Raises `local_policy_denied` for a step kind, a command profile, or the user it runs as."""
        if kind in self.deny_step_kinds:
            raise _denied(f"step kind {kind} is forbidden on this node", "deny_step_kinds")
        if command is None:
            return
        if command.id in self.deny_command_profiles:
            raise _denied(f"command profile {command.id} is forbidden on this node", "deny_command_profiles")
        self._check_user(command.run_as)

    def check_value(self, name: str, value: Any) -> None:
        """One bound parameter: `path`, `url`, `source`, `reference`, `owner`, `group`, `packages`, `unit`,
        `repositories` or `indexes`; others pass.

        Raises:
            HostlerError: `local_policy_denied`, or `path_denied` for a path that is not in normal form.
        """
        if name in SOURCES and value:
            self._check_source(source_url(name, value))
        for item in value if name in _LISTS and isinstance(value, list | tuple) else ():
            self._check_item(name, item)
        if not isinstance(value, str) or not value:
            return
        if name == "path":
            self._check_path(value)
        elif name in ("owner", "group"):
            self._check_user(value)
        elif name == "unit":
            self._check_name("unit", value, self.allow_units, self.deny_units)

    def check_step(self, kind: str, params: msgspec.Struct, command: CommandProfile | None) -> None:
        """The same over a step whose parameters are all bound, right before it is planned."""
        self.check_kind(kind, command)
        for name in CHECKED_PARAMS:
            self.check_value(name, getattr(params, name, None))
        for path in files_of(params):
            self.check_value("path", path)
        for name, value in named_by(params):
            self.check_value(name, value)

    def permitted_packages(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of a definition's `allowed_packages` that this node, too, lets in."""
        allowed = names if self.allow_packages is None else (name for name in names if name in self.allow_packages)
        return tuple(name for name in allowed if name not in self.deny_packages)

    def permits_source(self, url: str) -> bool:
        """Of an address that only shows on the way: a redirect, a token server, a URL in a lock."""
        try:
            self._check_source(url)
        except HostlerError:
            return False
        return True

    def _check_item(self, name: str, item: Any) -> None:
        if name == "packages":
            for package in named_packages([item]):
                self._check_name("package", package, self.allow_packages, self.deny_packages)
        elif name == "units":
            self._check_name("unit", str(item), self.allow_units, self.deny_units)
        else:
            url = item if isinstance(item, str) else item.get("uri") if isinstance(item, dict) else item.uri
            self._check_source(str(url))

    @staticmethod
    def _check_name(what: str, name: str, allowed: tuple[str, ...] | None, denied: tuple[str, ...]) -> None:
        if name in denied:
            raise _denied(f"{what} {name} is forbidden on this node", f"deny_{what}s")
        if allowed is not None and name not in allowed:
            raise _denied(f"{what} {name} is not among the allowed ones of this node", f"allow_{what}s")

    def _check_user(self, user: str) -> None:
        if user and user in self.deny_users:
            raise _denied(f"user {user} is forbidden on this node", "deny_users")

    def _check_path(self, path: str) -> None:
        parts = _parts(path)
        if any(_within(parts, prefix) for prefix in self.deny_paths):
            raise _denied(f"path {path} is forbidden on this node", "deny_paths")
        if self.allow_paths is not None and not any(_within(parts, p) for p in self.allow_paths):
            raise _denied(f"path {path} is not among the allowed ones of this node", "allow_paths")

    def _check_source(self, url: str) -> None:
        if self.deny_sources and (_ambiguous(url) or _matches(self.deny_sources, url)):
            raise _denied(f"source {_shown(url)} is forbidden on this node", "deny_sources")
        if self.allow_sources is not None and not _matches(self.allow_sources, url):
            raise _denied(f"source {_shown(url)} is not among the allowed ones of this node", "allow_sources")


def named_by(params: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """Users and disks that a step lists, as parameters that are checked one by one."""
    for user in getattr(params, "users", ()):
        yield "owner", getattr(user, "name", user)
    for device in getattr(params, "devices", ()):
        yield "path", device.path


_LISTS = ("packages", "repositories", "indexes", "units")
CHECKED_PARAMS = ("path", *SOURCES, "owner", "group", "unit", *_LISTS)


def _denied(sentence: str, key: str) -> Exception:
    return error("local_policy_denied", sentence, hint=f"see authority.{key} in the agent's configuration")


def _parts(path: str) -> tuple[str, ...]:
    parts = path.split("/")
    if not path.startswith("/") or "" in parts[1:-1] or "." in parts or ".." in parts:
        raise error("path_denied", f"path {path!r} is not absolute or not in normal form")
    return tuple(part for part in parts if part)


def _within(parts: tuple[str, ...], prefix: str) -> bool:
    wanted = tuple(part for part in prefix.split("/") if part)
    return parts[: len(wanted)] == wanted


def _matches(sources: tuple[str, ...], url: str) -> bool:
    return any(covers(source, url) for source in sources)


def _ambiguous(url: str) -> bool:
    """A URL that cannot be matched at all cannot be cleared of a denial either."""
    return not covers(url, url)


def _shown(url: str) -> str:
    """Without the query, which may be a signature."""
    return url.partition("?")[0]
