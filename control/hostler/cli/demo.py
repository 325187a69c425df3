"""`hostler demo`: the whole house on one machine, with a real failure in the middle (design §10).

source (HTTPS, breaks every whole transfer) ◀── three agents ──▶ control plane ◀── this command
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from hostler.base.clock import SystemClock
from hostler.base.errors import HostlerError, error
from hostler.cli import demo_files, watch
from hostler.cli.client import Client
from hostler.cli.demo_files import NODES, Ports
from hostler.cli.operations_api import submit_body
from hostler.cli.output import guarded
from hostler.cli.settings import Settings

REF = "model.artifact.stage@v1"
START_LIMIT_S = 30.0
_JOBS_END_S = 20.0


@click.command(name="demo")
@click.option("--directory", type=click.Path(path_type=Path), help="where to keep everything (else temporary)")
@click.option("--size-mb", type=click.IntRange(1, 16_384), default=256, show_default=True, help="MiB of the artifact")
@click.option("--keep/--no-keep", default=None, help="leave the control plane running at the end")
@guarded
def command(directory: Path | None, size_mb: int, keep: bool | None) -> None:
    """A control plane and three agents on this machine, one real operation.

    Stages a file on three nodes from a server that breaks every transfer half-way, kills one agent with
    SIGKILL in mid-pull and starts it again, then verifies the receipt chain offline. Needs no root.
    """
    stay = sys.stdin.isatty() if keep is None else keep
    home = directory or Path(tempfile.mkdtemp(prefix="hostler-demo-"))
    console = Console()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with processes() as run:
        demo = Demo(home, console, run)
        operation = demo.play(size_mb * 1024 * 1024)
        demo.farewell(operation, stay)
        if stay:
            console.print("\nThe control plane and its agents go on; press Ctrl-C to end them.")
            _wait_for_interrupt()
            demo.end_jobs()
    if directory is None:
        shutil.rmtree(home, ignore_errors=True)


class Processes:
    """Children of the demo, by name, each with its log file. Ended together."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, arguments: list[str], log: Path, **options: Any) -> subprocess.Popen[bytes]:
        """`options["stdout"]` may be a pipe; standard error always goes to the log."""
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        with log.open("ab") as errors:
            stdout = options.get("stdout", errors)
            self._running[name] = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=stdout, stderr=errors, env=environment, process_group=0
            )  # Ctrl-C is the demo's own: it ends what runs on its nodes first
        return self._running[name]

    def kill(self, name: str) -> None:
        """SIGKILL: no chance to clean up."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def names(self) -> list[str]:
        return list(self._running)

    def forget(self, name: str) -> None:
        """A child that has ended by itself."""
        self._running.pop(name)

    def end(self, name: str) -> None:
        """SIGTERM, and waits."""
        process = self._running.pop(name)
        process.terminate()
        process.wait()

    def check(self, name: str, log: Path) -> None:
        """Raises with the log's last line if the process has ended."""
        if self._running[name].poll() is None:
            return
        lines = log.read_text(errors="replace").strip().splitlines() or ["it wrote no log"]
        raise error("internal_error", f"{name} ended by itself: {lines[-1]}", hint=f"see {log}")

    def stop(self) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def processes() -> Iterator[Processes]:
    running = Processes()
    try:
        yield running
    finally:
        running.stop()


class Demo:
    """One play-through; every step is a sentence on the screen."""

    def __init__(self, home: Path, console: Console, run: Processes) -> None:
        self.home, self.console, self.run = home, console, run
        self.ports = Ports.free()
        self.started = time.monotonic()
        self.client: Client | None = None

    def play(self, size: int) -> dict[str, Any]:
        self.say("making the trust root, keys and the signed catalog")
        demo_files.prepare(self.home, self.ports, SystemClock().now_ms())
        artifact = self.start_source(size)
        client = self.client = self.start_control()
        for name in NODES:
            self.enrol(client, name)
        self.say(f"submitting {REF} to {len(NODES)} nodes: {size >> 20} MiB each, cut off half-way by the server")
        operation = self.stage(client, artifact)
        self.prove(operation, artifact)
        return operation

    def say(self, text: str) -> None:
        self.console.print(f"[dim]{time.monotonic() - self.started:5.1f} s[/]  {text}", soft_wrap=True)

    def start_source(self, size: int) -> dict[str, Any]:
        directory = self.home / "source"
        arguments = [sys.executable, "-I", "-m", "hostler.cli.demo_source", str(directory), str(size)]
        process = self.run.start("source", arguments, self.home / "source.log", stdout=subprocess.PIPE)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            self.run.check("source", self.home / "source.log")
        artifact: dict[str, Any] = msgspec.json.decode(line)
        return artifact

    def start_control(self) -> Client:
        self.say("starting the control plane")
        program, log = demo_files.program("hostler-control"), self.home / "control.log"
        config = str(self.home / "control.toml")
        self.do([program, "init", "--config", config])
        token = self.home / "admin.token"
        role = ["--role", "platform_admin", "--token-out", str(token)]
        self.do([program, "principals", "add", "demo-admin", "--config", config, *role])
        self.run.start("control", [program, "serve", "--config", config], log)
        client = Client(Settings(server=self.ports.server, token_file=str(token), project=demo_files.PROJECT))
        self.until(lambda: self._healthy(client), "control", log)
        bundle = msgspec.json.decode((self.home / "catalog.json").read_bytes())
        client.call("POST", "/api/v1/admin/operation-definitions", body=bundle)
        return client

    def enrol(self, client: Client, name: str) -> None:
        self.say(f"enrolling {name} with a one-use token")
        body = {"node_name": name, "org_id": demo_files.ORG, "project_id": demo_files.PROJECT}
        made = client.call("POST", "/api/v1/admin/enrolment-tokens", body=body)
        directory = self.home / name
        token = directory / "token"
        token.write_text(made["token"])
        token.chmod(0o600)
        config = ["--config", str(directory / "agent.toml")]
        self.do([demo_files.program("hostler-agent"), "enroll", *config, "--token-file", str(token)])
        self.start_agent(name)

    def start_agent(self, name: str) -> None:
        directory = self.home / name
        arguments = [demo_files.program("hostler-agent"), "run", "--config", str(directory / "agent.toml")]
        self.run.start(name, arguments, directory / "agent.log")

    def stage(self, client: Client, artifact: dict[str, Any]) -> dict[str, Any]:
        inputs = artifact | {"path": "/srv/models/model.safetensors"}
        path = f"/api/v1/projects/{demo_files.PROJECT}/operations"
        body = submit_body(REF, inputs=inputs, nodes=NODES, labels={})
        created = client.call("POST", path, body=body)
        operation_path = f"{path}/{created['operation_id']}"
        victim = NODES[-1]
        with demo_files.background(self.kill_in_mid_pull, victim, artifact["size_bytes"]):
            return watch.follow(client, operation_path, self.console)

    def kill_in_mid_pull(self, name: str, size: int) -> None:
        """Waits until a quarter of the file is there, then SIGKILL, then a new start."""
        directory = self.home / name / "root" / "srv" / "models"
        deadline = time.monotonic() + START_LIMIT_S
        while demo_files.largest_file(directory) < size // 4 and time.monotonic() < deadline:
            time.sleep(0.005)
        had = demo_files.largest_file(directory)
        self.run.kill(name)
        self.console.print(f"         [red]killed {name} with SIGKILL at {had >> 20} MiB[/], starting it again")
        self.start_agent(name)

    def prove(self, operation: dict[str, Any], artifact: dict[str, Any]) -> None:
        if operation["status"] != "succeeded":
            raise error("internal_error", f"the operation ended as {operation['status']}", hint=f"see {self.home}")
        self.say("checking every file's digest")
        demo_files.check_artifacts(self.home, artifact["sha256"])
        self.say("exporting the receipts and verifying the chain offline, against the trust root")
        hostler = [demo_files.program("hostler"), "--config", str(self.home / "cli.toml")]
        bundle = str(self.home / "audit.json")
        self.do([*hostler, "audit", "export", operation["operation_id"], "-o", bundle])
        self.do([*hostler, "audit", "verify", bundle, "--trust", str(self.home / "pki" / "trust.json")], show=True)

    def farewell(self, operation: dict[str, Any], stay: bool) -> None:
        config = f"hostler --config {self.home / 'cli.toml'}"
        self.say("done")
        if not stay:
            self.console.print("           it ends here; 'hostler demo --keep' leaves it running, for these:")
        page = f"\nWeb page   {self.ports.server}/  (project demo, token in {self.home / 'admin.token'})"
        self.console.print(page, soft_wrap=True)
        self.console.print("Next       ", end="")
        self.console.print(f"{config} nodes list", soft_wrap=True)
        self.console.print(f"           {config} operations get {operation['operation_id']}", soft_wrap=True)
        self.console.print(f"           {config} operations plan node.smoke.noop@v1 --node node-a", soft_wrap=True)
        self.console.print(f"           {config} jobs run --replicas 3 -- echo hello", soft_wrap=True)

    def end_jobs(self) -> None:
        """Tasks outlive agents, so nothing but this ends them."""
        if self.client is None:
            return
        jobs, end = f"/api/v1/projects/{demo_files.PROJECT}/jobs", time.monotonic() + _JOBS_END_S
        with contextlib.suppress(HostlerError):  # a control plane that has gone can end none
            while time.monotonic() < end:
                states = ("pending", "running")
                left = [job["job_id"] for state in states for job in self.client.pages(jobs, state=state)]
                if not left:
                    return
                for job_id in left:
                    self.client.call("POST", f"{jobs}/{job_id}/cancel")
                time.sleep(0.5)

    def do(self, arguments: list[str], show: bool = False) -> None:
        """Runs one command to its end; its own words are the error."""
        done = subprocess.run(arguments, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            words = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no message"]
            raise error("internal_error", f"{Path(arguments[0]).name} failed: {words[0]}", hint=f"see {self.home}")
        if show:
            self.console.print(done.stdout.rstrip())

    def until(self, ready: Any, name: str, log: Path) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not ready():
            self.run.check(name, log)
            if time.monotonic() > deadline:
                raise error("controller_unreachable", f"{name} did not come up", hint=f"see {log}")
            time.sleep(0.05)

    def _healthy(self, client: Client) -> bool:
        try:
            client.raw("/health")
        except Exception as err:
            if getattr(err, "code", "") != "controller_unreachable":
                raise
            return False
        return True


def _wait_for_interrupt() -> None:
    try:
        signal.pause()
    except KeyboardInterrupt:
        return
