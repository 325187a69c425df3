"""OS packages: apt-get and dpkg, called with fixed arguments and never through a shell (SK-05).

Indexes are kept apart from the machine's own, so that a plan changes nothing that anybody else reads. What is
fetched must be signed: an index that cannot be refreshed and verified is an error, never a warning.
"""

import asyncio
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from hostler.agent.host.confine import Walls
from hostler.agent.host.execute import Command, Execute
from hostler.base.clock import Deadline
from hostler.base.errors import error
from hostler.catalog.params.package import Repository

APT_GET, DPKG, DPKG_QUERY = "/usr/bin/apt-get", "/usr/bin/dpkg", "/usr/bin/dpkg-query"
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/root",
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBCONF_NONINTERACTIVE_SEEN": "true",
    "APT_LISTCHANGES_FRONTEND": "none",
    "NEEDRESTART_SUSPEND": "1",
}
# A maintainer script is root's own code from a signed package: it may load modules and set the machine up.
WALLS = Walls(None, True, frozenset({"mount", "namespace", "module", "system"}))
SIGNED_ONLY = (
    "APT::Get::AllowUnauthenticated=false", "Acquire::AllowInsecureRepositories=false",
    "Acquire::AllowWeakRepositories=false", "Acquire::AllowDowngradeToInsecureRepositories=false",
    "Acquire::Check-Valid-Until=true",
)  # fmt: skip
# An archive that the definition names is the one that is asked, and not whoever it sends us to (AR-06).
NAMED_ONLY = ("Acquire::http::AllowRedirect=false", "Acquire::https::AllowRedirect=false")
QUIET = ("Dpkg::Use-Pty=0", "APT::Color=0", "DPkg::Options::=--force-confdef", "DPkg::Options::=--force-confold")
MOST_LOCK_WAIT_S = 120
MOST_OUTPUT_BYTES = 8 * 1024 * 1024
_INST = re.compile(r"^Inst (\S+)(?: \[(\S+)\])? \((\S+) ", re.MULTILINE)
_INST_LINE = re.compile(r"^Inst ", re.MULTILINE)
_REMV = re.compile(r"^(?:Remv|Purg) (\S+)", re.MULTILINE)
_NOT_FRESH = re.compile(
    r"^(?:E:|W: (?:Failed to fetch|GPG error|.*(?:NO_PUBKEY|is not signed|InRelease)))", re.MULTILINE
)


class _Said(NamedTuple):
    status: int
    stdout: str
    stderr: str


class Installed(NamedTuple):
    """`whole`: unpacked and configured, not in between."""

    version: str
    whole: bool


class Step(NamedTuple):
    """One package in a simulation: `before` is "" for a new one, `after` for one that goes."""

    name: str
    before: str
    after: str

    @property
    def action(self) -> Literal["install", "upgrade", "remove"]:
        return "remove" if not self.after else "upgrade" if self.before else "install"


@dataclass(frozen=True)
class Wish:
    """What is asked for: (name, version or "") pairs, and how."""

    packages: tuple[tuple[str, str], ...]
    repositories: tuple[Repository, ...]
    allow_downgrade: bool
    recommends: bool
    may_remove: bool


class Packages:
    """The door. One apt at a time: it locks."""

    def __init__(self, root: Path, execute: Execute, ca_file: str) -> None:
        self._root, self._execute, self._ca_file = root, execute, ca_file

    async def installed(self, names: Iterable[str], deadline: Deadline) -> dict[str, Installed]:
        """Those of the names that dpkg knows. Raises `incompatible` where there is no dpkg database."""
        if not self._path("var/lib/dpkg/status").exists():
            raise error("incompatible", "this node keeps no dpkg database, so nothing can be installed with apt")
        shown = "${Package}\\t${Version}\\t${db:Status-Status}\\n"
        admin = f"--admindir={self._path('var/lib/dpkg')}"
        done = await self._run((DPKG_QUERY, admin, "-W", "-f", shown, *names), deadline)
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        return {row[0]: Installed(row[1], row[2] == "installed") for row in rows if len(row) == 3 and row[1]}

    async def interrupted(self, deadline: Deadline) -> bool:
        """Whether an earlier dpkg was cut off in the middle."""
        if any(self._path("var/lib/dpkg/updates").glob("[0-9]*")):
            return True
        return bool((await self._dpkg(("--audit",), deadline)).stdout.strip())

    async def repair(self, deadline: Deadline) -> None:
        """Finishes what a cut-off dpkg left. Raises `package_conflict` when it cannot."""
        done = await self._dpkg(("--force-confdef", "--force-confold", "--configure", "-a"), deadline)
        if done.status:
            raise error("package_conflict", f"an interrupted dpkg cannot be repaired: {_last(done)}")

    async def refresh(self, wish: Wish, deadline: Deadline) -> None:
        """Fetches the indexes. Raises `repository_untrusted` for one that does not come, or is not signed right."""
        await asyncio.to_thread(self._write_sources, wish)
        done = await self._run((*self._apt(wish), "-o", "APT::Update::Error-Mode=any", "update"), deadline)
        said = done.stderr + done.stdout
        if done.status or _NOT_FRESH.search(said):
            lines = [line for line in said.splitlines() if line.startswith(("E:", "W:", "Err:"))]
            why = (lines or [_last(done)])[0][:300]
            raise error("repository_untrusted", f"the package indexes are not fresh and verified: {why}")

    async def simulate(self, wish: Wish, deadline: Deadline) -> tuple[Step, ...]:
        """Exactly what `install` would do. Raises `package_conflict` when apt finds no way."""
        done = await self._run((*self._apt(wish), "-s", *self._install(wish)), deadline)
        if done.status:
            raise error("package_conflict", f"apt cannot install this: {_last(done)}")
        if len(_INST.findall(done.stdout)) != len(_INST_LINE.findall(done.stdout)):
            raise error("package_conflict", "apt says what it would do in words that cannot be read")
        goes = [Step(name.partition(":")[0], "", "") for name in _REMV.findall(done.stdout)]
        comes = [Step(name.partition(":")[0], before, after) for name, before, after in _INST.findall(done.stdout)]
        return tuple(sorted((*goes, *comes)))

    async def install(self, wish: Wish, deadline: Deadline, cancelled: asyncio.Event) -> tuple[str, ...]:
        """Does it; the lines that apt said. Raises `exit_status`."""
        wait_s = max(1, min(MOST_LOCK_WAIT_S, int(deadline.remaining())))
        argv = (*self._apt(wish), "-o", f"DPkg::Lock::Timeout={wait_s}", *self._install(wish))
        done = await self._run(argv, deadline, cancelled)
        if done.status:
            raise error("exit_status", f"apt-get ended with exit code {done.status}: {_last(done)}")
        return tuple(done.stdout.splitlines())

    # -- how they are called ----------------------------------------------------------------------

    def _path(self, below: str) -> Path:
        return self._root / below

    def _own(self, wish: Wish) -> Path:
        """Where the indexes of these repositories are kept; the same repositories, the same place."""
        told = "\n".join(_stanza(repository) for repository in wish.repositories)
        return self._path(f"var/lib/apt/hostler-{hashlib.sha256(told.encode()).hexdigest()[:12]}")

    def _write_sources(self, wish: Wish) -> None:
        own = self._own(wish)
        (own / "lists" / "partial").mkdir(parents=True, exist_ok=True, mode=0o755)
        self._path("var/cache/apt/archives/partial").mkdir(parents=True, exist_ok=True, mode=0o755)
        parts = own / "sources"
        parts.mkdir(exist_ok=True, mode=0o755)
        for directory in (own, own / "lists", parts):
            directory.chmod(0o755)  # whatever the umask: apt fetches as a user of its own
        for number, repository in enumerate(wish.repositories):
            (parts / f"{number}.sources").write_text(_stanza(repository))
        if self._root != Path("/"):
            (own / "apt.conf").write_text(f'Dir "{self._root}/";\n')

    def _apt(self, wish: Wish) -> tuple[str, ...]:
        own = self._own(wish)
        options = [
            *SIGNED_ONLY,
            *QUIET,
            f"Dir::State::lists={own}/lists",
            "Dir::Cache::pkgcache=",
            "Dir::Cache::srcpkgcache=",
        ]
        if wish.repositories:
            options += [*NAMED_ONLY, "Dir::Etc::sourcelist=/dev/null", f"Dir::Etc::sourceparts={own}/sources"]
        if self._ca_file:
            options.append(f"Acquire::https::CAInfo={self._ca_file}")
        if self._root != Path("/"):
            status, log = self._path("var/lib/dpkg/status"), self._path("var/log/dpkg.log")
            options += [f"Dir::State::status={status}", "APT::Sandbox::User=root"]
            options += [f"DPkg::Options::=--root={self._root}", f"DPkg::Options::=--log={log}"]
        return (APT_GET, "-q", "-y", *(word for option in options for word in ("-o", option)))

    def _install(self, wish: Wish) -> tuple[str, ...]:
        flags = ["--recommends" if wish.recommends else "--no-install-recommends"]
        flags += ["--allow-downgrades"] if wish.allow_downgrade else []
        flags += [] if wish.may_remove else ["--no-remove"]
        named = (f"{name}={version}" if version else name for name, version in wish.packages)
        return ("install", *flags, "--", *named)

    async def _dpkg(self, arguments: tuple[str, ...], deadline: Deadline) -> _Said:
        where = () if self._root == Path("/") else (f"--root={self._root}", f"--log={self._path('var/log/dpkg.log')}")
        return await self._run((DPKG, *where, *arguments), deadline)

    async def _run(self, argv: tuple[str, ...], deadline: Deadline, cancelled: asyncio.Event | None = None) -> _Said:
        config = {} if self._root == Path("/") else {"APT_CONFIG": self._config(argv)}
        command = Command(
            argv=argv,
            env=ENVIRONMENT | config,
            run_as="root",
            capture_stdout=True,
            capture_stderr=True,
            max_output_bytes=MOST_OUTPUT_BYTES,
            walls=WALLS,
            grace_s=10.0,
        )
        lines: dict[str, list[str]] = {"stdout": [], "stderr": []}
        done = await self._execute.run(
            command, deadline=deadline, cancelled=cancelled, on_line=lambda stream, line: lines[stream].append(line)
        )
        if lines["stdout"][-1:] == [f"[output cut after {MOST_OUTPUT_BYTES} bytes]"]:
            raise error("too_large", f"{argv[0]} says more than can be judged")
        if done.signal:
            raise error("killed_by_signal", f"{argv[0]} was ended by signal {done.signal}")
        return _Said(done.status, "\n".join(lines["stdout"]), "\n".join(lines["stderr"]))

    def _config(self, argv: tuple[str, ...]) -> str:
        """Of a root that is not the machine's: its own settings and none of ours."""
        lists = next((word for word in argv if word.startswith("Dir::State::lists=")), "")
        return lists.partition("=")[2].removesuffix("/lists") + "/apt.conf" if lists else "/dev/null"


def _stanza(repository: Repository) -> str:
    """As deb822, with the one key whose signature counts inside it."""
    key = "\n".join(f" {line or '.'}" for line in repository.signed_by.strip().splitlines())
    components = f"Components: {' '.join(repository.components)}\n" if repository.components else ""
    return f"Types: deb\nURIs: {repository.uri}\nSuites: {repository.suite}\n{components}Signed-By:\n{key}\n"


def _last(done: _Said) -> str:
    """The line that says most of what went wrong."""
    lines = [line.strip() for line in (done.stderr + "\n" + done.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E:")]
    return (errors or lines[-1:] or ["it said nothing"])[0][:300]
