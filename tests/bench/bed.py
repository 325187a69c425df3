"""The bench's house: one control plane and some agents as real processes, set up by documented means."""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from hostler.base.clock import SystemClock
from hostler.catalog import manifest as catalog
from hostler.catalog.command_profile import command_profile_from
from hostler.catalog.definition import definition_from
from hostler.catalog.load import load_profiles
from hostler.cli import demo_files
from hostler.cli.client import Client
from hostler.cli.demo import Processes
from hostler.cli.demo_files import Ports, program
from hostler.cli.settings import Settings
from hostler.pki import ceremony

ORG, PROJECT = "bench-org", "bench"
PATH = f"/api/v1/projects/{PROJECT}/operations"

# prints the moment at which the step's own process runs, as Iris's bench does
STAMP_COMMAND = {
    "id": "bench_stamp",
    "command": "/usr/bin/date",
    "base_args": ["+%s.%N"],
    "timeout_seconds": 10,
    "capture_stderr": False,
}
STAMP = {
    "type": "bench.stamp",
    "version": "v1",
    "inputs": {"type": "object", "additionalProperties": False, "properties": {}},
    "capabilities": {"os.kernel": "linux"},
    "steps": [{"id": "stamp", "kind": "command.exec_allowlisted", "params": {"profile": "bench_stamp"}}],
}


class Bed:
    """Everything below `home`; the client is an administrator of the bench's project."""

    def __init__(self, home: Path, run: Processes, ports: Ports) -> None:
        self.home, self.run, self.ports = home, run, ports
        self._agent_pids: dict[str, int] = {}
        self.client: Client = None  # type: ignore[assignment]  # set by `start`

    @property
    def pid(self) -> int:
        """Of the control plane."""
        return self._control_pid

    def agent_pid(self, name: str) -> int:
        return self._agent_pids[name]

    def prepare(self) -> None:
        """Keys, configuration and an administrator; nothing runs yet."""
        now_ms = SystemClock().now_ms()
        ceremony.init(
            self.home / "pki", trust_domain="bench.hostler", cluster_id="bench", hosts=("127.0.0.1",), now_ms=now_ms
        )
        (self.home / "control.toml").write_text(demo_files.control_toml(self.home, self.ports))
        self._run(program("hostler-control"), "init", "--config", str(self.home / "control.toml"))
        token = self.home / "admin.token"
        self._run(
            program("hostler-control"), "add-principal", "bench", "--config", str(self.home / "control.toml"),
            "--role", "platform_admin", "--token-out", str(token),
        )  # fmt: skip

    def serve(self) -> None:
        now_ms, token = SystemClock().now_ms(), self.home / "admin.token"
        process = self.run.start(
            "control",
            [program("hostler-control"), "serve", "--config", str(self.home / "control.toml")],
            self.home / "control.log",
        )
        self._control_pid = process.pid
        self.client = Client(Settings(server=self.ports.server, token_file=str(token), project=PROJECT))
        self._until_healthy()
        self.client.call("POST", "/api/v1/admin/operation-definitions", body=self._catalog(now_ms))

    def add_agents(self, agents: int, parallel: int) -> None:
        for number in range(agents):
            self._agent(f"node-{number}", parallel)

    def _catalog(self, now_ms: int) -> Any:
        profiles = load_profiles(demo_files.builtin_profiles())
        definitions = [definition for definition, _ in profiles.definitions] + [definition_from(STAMP)]
        commands = [profile for profile, _ in profiles.commands] + [command_profile_from(STAMP_COMMAND)]
        made = catalog.make_manifest(1, definitions, commands, now_ms=now_ms, lifetime_ms=86_400_000)
        signed = catalog.sign_manifest(made, [ceremony.load_signer(self.home / "pki/catalog/catalog.key")])
        documents = [d.canonical() for d in definitions] + [c.canonical() for c in commands]
        return msgspec.json.decode(catalog.write_bundle(signed, documents))

    def _agent(self, name: str, parallel: int) -> None:
        made = self.client.call(
            "POST",
            "/api/v1/admin/enrolment-tokens",
            body={"node_name": name, "org_id": ORG, "project_id": PROJECT},
        )
        directory = self.home / name
        (directory / "root" / "srv").mkdir(parents=True)
        (self.home / "source" / "pki" / "control").mkdir(parents=True, exist_ok=True)
        shutil.copy(self.home / "pki/control/ca.pem", self.home / "source/pki/control/ca.pem")
        text = demo_files.agent_toml(self.home, name, self.ports)
        (directory / "agent.toml").write_text(f"parallel_tasks = {parallel}\n{text}")
        token = directory / "token"
        token.write_text(made["token"])
        token.chmod(0o600)
        config = ["--config", str(directory / "agent.toml")]
        self._run(program("hostler-agent"), "enroll", *config, "--token-file", str(token))
        process = self.run.start(name, [program("hostler-agent"), "run", *config], directory / "agent.log")
        self._agent_pids[name] = process.pid
        self._until_connected(name)

    def _run(self, *arguments: str) -> None:
        import subprocess

        subprocess.run(arguments, check=True, stdout=sys.stderr, stdin=subprocess.DEVNULL)

    def _until_healthy(self) -> None:
        for _ in range(400):
            try:
                self.client.raw("/health")
            except Exception:
                self.run.check("control", self.home / "control.log")
                time.sleep(0.05)
            else:
                return
        raise TimeoutError("the control plane did not come up")

    def _until_connected(self, name: str) -> None:
        for _ in range(400):
            node = self.client.call("GET", f"/api/v1/admin/nodes/{name}")
            if node["connection"] == "connected":
                return
            self.run.check(name, self.home / name / "agent.log")
            time.sleep(0.05)
        raise TimeoutError(f"{name} did not connect")


@contextmanager
def bed(agents: int = 1, parallel: int = 8, serve: bool = True) -> Iterator[Bed]:
    """A running house; everything ends and is removed with the block."""
    home = Path(tempfile.mkdtemp(prefix="hostler-bench-"))
    run = Processes()
    try:
        made = Bed(home, run, Ports.free())
        made.prepare()
        if serve:
            made.serve()
            made.add_agents(agents, parallel)
        yield made
    finally:
        run.stop()
        shutil.rmtree(home, ignore_errors=True)
