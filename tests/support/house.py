"""A whole house as real processes: one control plane and some agents on loopback, set up by documented means.

    with open_house(definitions=[...], commands=[...]) as house:
        house.serve()
        house.enrol("a")
        house.start("a", fault_points=["after_intent:kill:file.render"])
        operation = house.finished(house.submit("unit.test@v1", {"path": "/srv/x"}))

Everything lies below one directory that every user may enter, because commands run as an unprivileged one.
"""

import secrets
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from hostler.base.clock import SystemClock
from hostler.base.errors import HostlerError
from hostler.catalog import manifest as catalog
from hostler.catalog.command_profile import command_profile_from
from hostler.catalog.definition import definition_from
from hostler.catalog.load import load_profiles
from hostler.catalog.proposal import propose, sign
from hostler.catalog.resolver import ResolverConfig
from hostler.cli import demo_files
from hostler.cli.client import Client
from hostler.cli.demo import Processes
from hostler.cli.demo_files import program
from hostler.cli.operations_api import submit_body
from hostler.cli.settings import Settings
from hostler.pki import ceremony
from hostler.pki.bundle import verify_bundle
from hostler.pki.trust_files import load_trust
from support.ports import control_ports, node_ports

ORG, PROJECT = "test-org", "test"
PATH = f"/api/v1/projects/{PROJECT}/operations"
FINAL = {"succeeded", "failed", "canceled"}
TERMINAL_EVENTS = {"operation.completed", "operation.failed", "operation.canceled"}
LIMIT_S = 30.0


class House:
    """One installation. `client` is an administrator."""

    def __init__(
        self,
        home: Path,
        run: Processes,
        definitions: Sequence[Any],
        commands: Sequence[Any],
        programs: Callable[[str], list[str]],
        minters: Callable[[Path], str],
    ) -> None:
        self.home, self.run, self._programs, self._minters = home, run, programs, minters
        self.ports = control_ports()
        self._definitions, self._commands = definitions, commands
        self.pids: dict[str, int] = {}
        self._prepare()
        settings = Settings(server=self.ports.server, token_file=str(home / "admin.token"), project=PROJECT)
        self.client = Client(settings)

    # -- the control plane ------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Keys, configuration and an administrator; nothing runs yet."""
        ceremony.init(
            self.home / "pki",
            trust_domain="house.test",
            cluster_id="house",
            hosts=("127.0.0.1",),
            now_ms=SystemClock().now_ms(),
        )
        config = self.home / "control.toml"
        config.write_text(demo_files.control_toml(self.home, self.ports) + self._minters(self.home))
        self.do("hostler-control", "init", "--config", str(config))
        out = ["--role", "platform_admin", "--token-out", str(self.home / "admin.token")]
        self.do("hostler-control", "principals", "add", "house", "--config", str(config), *out)

    def serve(self) -> None:
        """Starts the control plane, and publishes the catalog the first time."""
        arguments = [*self._programs("hostler-control"), "serve", "--config", str(self.home / "control.toml")]
        self.pids["control"] = self.run.start("control", arguments, self.home / "control.log").pid
        self.until(self._healthy, "control")
        if not (self.home / "catalog.json").exists():
            self.publish()

    def publish(self, version: int = 1, resolvers: dict[str, ResolverConfig] | None = None) -> None:
        """Signs and registers the shipped profiles with this house's own, and the shipped resolver configurations.

        A command profile of this house's own stands for the shipped one of its name.

        Args:
            resolvers: configurations by name, instead of the shipped ones.
        """
        profiles = load_profiles(demo_files.builtin_profiles())
        own = [definition_from(d) for d in self._definitions]
        named = {d.ref for d in own}
        definitions = [d for d, _ in profiles.definitions if d.ref not in named] + own
        known = [c for c, _ in profiles.commands] + [command_profile_from(c) for c in self._commands]
        commands = list({command.id: command for command in known}.values())
        now_ms = SystemClock().now_ms()
        configs = profiles.configs if resolvers is None else resolvers
        made = catalog.make_manifest(version, definitions, commands, configs, now_ms=now_ms, lifetime_ms=86_400_000)
        signers = [ceremony.load_signer(path) for path in sorted((self.home / "pki/catalog").glob("*.key"))]
        bundle = sign(propose(made, definitions, commands, resolvers=configs.values()), signers).to_bundle()
        (self.home / "catalog.json").write_bytes(bundle)
        self.client.call("POST", "/api/v1/admin/operation-definitions", body=msgspec.json.decode(bundle))

    def _healthy(self) -> bool:
        try:
            self.client.raw("/health")
        except HostlerError as err:
            if err.code != "controller_unreachable":
                raise
            return False
        return True

    # -- agents -----------------------------------------------------------------------------------

    def enrol(self, name: str, *, pool: bool = False) -> None:
        """Gives the node its identity; it does not run yet."""
        owner = {"pool": True} if pool else {"org_id": ORG, "project_id": PROJECT}
        body = {"node_name": name, **owner}
        made = self.client.call("POST", "/api/v1/admin/enrolment-tokens", body=body)
        self.configure(name)
        token = self.home / name / "token"
        token.write_text(made["token"])
        token.chmod(0o600)
        config = str(self.home / name / "agent.toml")
        self.do("hostler-agent", "enroll", "--config", config, "--token-file", str(token))

    def configure(
        self,
        name: str,
        *,
        fault_points: Sequence[str] = (),
        parallel: int = 8,
        transport: str = "auto",
        ca_file: Path | None = None,
        containers: str = demo_files.PROCESSES,
        root: str = "",
    ) -> None:
        """Writes agent.toml anew.

        Args:
            containers: its section of that name; what stands in braces is the node's own directory.
            root: `/` for a node that is this machine: its sizes, sockets and control groups.
        """
        directory = self.home / name
        (directory / "root" / "srv").mkdir(parents=True, exist_ok=True)
        containers = containers.format(directory)
        if "port_range" not in containers:
            containers += f"\nport_range = {list(node_ports())}"
        text = demo_files.agent_toml(self.home, name, self.ports, containers)
        text = text.replace("[control]\n", f'[control]\ntransport = "{transport}"\n')
        own = f'ca_file = "{self.home}/source/pki/control/ca.pem"'
        text = text.replace(own, f'ca_file = "{ca_file or ""}"')
        if root:
            text = text.replace(f'root = "{directory}/root"', f'root = "{root}"')
        if fault_points:
            points = msgspec.json.encode(list(fault_points)).decode()
            text += f"\n[testing]\nenabled = true\nfault_points = {points}\n"
        (directory / "agent.toml").write_text(f"parallel_tasks = {parallel}\nstop_grace_seconds = 1\n{text}")

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """Starts the agent and waits until its session is open."""
        process = self.launch(name)
        self.until(lambda: self.node(name)["connection"] == "connected", name)
        return process

    def restart(self, name: str) -> subprocess.Popen[bytes]:
        """A fresh start, whether the agent runs or not."""
        if name in self.run.names():
            self.stop(name)
        return self.start(name)

    def launch(self, name: str) -> subprocess.Popen[bytes]:
        directory = self.home / name
        arguments = [*self._programs("hostler-agent"), "run", "--config", str(directory / "agent.toml")]
        process = self.run.start(name, arguments, directory / "agent.log")
        self.pids[name] = process.pid
        return process

    def kill(self, name: str) -> None:
        """SIGKILL to an agent or to `control`."""
        self.run.kill(name)

    def stop(self, name: str) -> None:
        """SIGTERM, and waits."""
        self.run.end(name)

    def node(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.call("GET", f"/api/v1/admin/nodes/{name}")
        return found

    # -- operations -------------------------------------------------------------------------------

    def submit(
        self,
        ref: str,
        inputs: dict[str, Any] | None = None,
        nodes: tuple[str, ...] = ("a",),
        **more: Any,
    ) -> str:
        body = submit_body(ref, inputs=inputs or {}, nodes=nodes, labels={}, key=secrets.token_hex(8), **more)
        created: str = self.client.call("POST", PATH, body=body)["operation_id"]
        return created

    def operation(self, operation_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.call("GET", f"{PATH}/{operation_id}")
        return found

    def finished(self, operation_id: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
        """The operation once it has ended."""
        self.until(lambda: self.operation(operation_id)["status"] in FINAL, limit_s=limit_s)
        return self.operation(operation_id)

    def follow(self, operation_id: str) -> Counter[str]:
        """Every event of an operation that has ended or will, counted by type."""
        return Counter(event.name for event in self.client.events(f"{PATH}/{operation_id}/events"))

    def receipts(self, operation_id: str) -> list[dict[str, Any]]:
        """Predicates of the operation's own receipts, after the whole chains have been verified offline."""
        bundle = self.client.raw(f"{PATH}/{operation_id}/audit-bundle")
        report = verify_bundle(bundle, load_trust(self.home / "pki" / "trust.json"))
        assert report.ok, report
        assert report.anchored
        chains = msgspec.json.decode(bundle)["nodes"].values()
        predicates = [_predicate(receipt) for chain in chains for receipt in chain["receipts"]]
        return [predicate for predicate in predicates if predicate.get("operation_id") == operation_id]

    # -- means ------------------------------------------------------------------------------------

    def do(self, name: str, *arguments: str) -> str:
        """Runs one of our commands to its end."""
        command = [program(name), *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def cli(self, *arguments: str) -> str:
        """`hostler` as the administrator."""
        return self.do(
            "hostler", "--server", self.ports.server, "--token-file", str(self.home / "admin.token"),
            "--project", PROJECT, *arguments,
        )  # fmt: skip

    def until(self, ready: Callable[[], bool], name: str = "", limit_s: float = LIMIT_S) -> None:
        """Waits for a state; says what the process logged when it does not come."""
        end = time.monotonic() + limit_s
        while not ready():
            if name:
                self.run.check(name, self.log(name))
            assert time.monotonic() < end, self.logs()
            time.sleep(0.02)

    def log(self, name: str) -> Path:
        return self.home / "control.log" if name == "control" else self.home / name / "agent.log"

    def logs(self) -> str:
        """The end of every log, for a failure's message."""
        paths = [self.home / "control.log", *self.home.glob("*/agent.log")]
        return "\n".join(f"{p.parent.name}/{p.name}: {p.read_text()[-3000:]}" for p in paths if p.exists())


def _predicate(receipt: dict[str, Any]) -> dict[str, Any]:
    import base64

    statement = msgspec.json.decode(base64.b64decode(receipt["payload"]))
    predicate: dict[str, Any] = statement["predicate"]
    return predicate


@contextmanager
def open_house(
    definitions: Sequence[Any] = (),
    commands: Sequence[Any] = (),
    programs: Callable[[str], list[str]] = lambda name: [program(name)],
    minters: Callable[[Path], str] = lambda home: "",
) -> Iterator[House]:
    """A prepared house; every process ends and everything is removed with the block.

    Args:
        programs: the command that stands for `hostler-agent` and `hostler-control` where they keep running.
        minters: more of control.toml; given the directory of the house.
    """
    home = Path(tempfile.mkdtemp(prefix="hostler-house-"))
    home.chmod(0o755)
    run = Processes()
    house = None
    try:
        house = House(home, run, definitions, commands, programs, minters)
        yield house
    finally:
        if house is not None:
            house.client.close()
        run.stop()
        shutil.rmtree(home, ignore_errors=True)
