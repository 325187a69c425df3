"""A house whose nodes run jobs by one real runtime: its daemon, an image in a registry, and what is left of it all."""

import contextlib
import json
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from conftest import need_root
from hostler.cli.demo_files import program
from support import containerd, dockerd
from support.busybox import busybox_layer
from support.certs import ServerCerts
from support.house import PROJECT, House, open_house
from support.ports import node_ports
from support.registry import Registry, TokenServer, entry, registry

IMAGE, PRIVATE = "team/a", "team/private"
JOBS = f"/api/v1/projects/{PROJECT}/jobs"
ROOT = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"
LIMIT_S = 40.0


KEEPER = "keeper"  # of containers: it serves the node, and leaves when it has had nothing to do for a minute


@dataclass
class Site:
    """
    Attributes:
        image: by digest; "" for the process runtime.
        restart: kills the runtime's daemon and starts it again.
        listed: what the runtime itself has, by its own tools.
        ports: first and last of those that tasks may have.
    """

    runtime: str
    house: House
    held: Registry
    image: str
    private: str
    settings: str
    restart: Callable[[], None]
    listed: Callable[[], list[str]]
    ports: tuple[int, int] = field(default_factory=node_ports)

    # -- nodes ------------------------------------------------------------------------------------

    def node(self, name: str, ports: tuple[int, int] | None = None) -> None:
        """An agent that is this machine; its log directory is not there yet."""
        self.house.enrol(name)
        allowed = f'allow_mounts = ["/usr"]\nallow_host_network = true\nport_range = {list(ports or self.ports)}\n'
        more = f'log_dir = "{{}}/logs/of/containers"\nnode_address = "127.0.0.1"\n{allowed}{self.settings}'
        self.house.configure(name, root="/", containers=more, ca_file=self.held.certs.ca)
        self.house.start(name)

    def state(self, name: str = "a") -> Path:
        return self.house.home / name / "state"

    # -- jobs -------------------------------------------------------------------------------------

    def document(self, name: str, script: str, **words: Any) -> dict[str, Any]:
        """The same for every runtime, but for the image, which a plain process has none of."""
        said = {"name": name, "command": ["/bin/sh", "-c", script], "resources": {"cpu": "300m", "memory": "64MiB"}}
        return said | ({"image": self.image} if self.image else {}) | words

    def python(self, name: str, *words: str, **more: Any) -> dict[str, Any]:
        """The machine's own interpreter, with the workspace at /app."""
        mounts = {"mounts": [{"source": "/usr", "target": "/usr"}]} if self.image else {}
        said = {"command": [PYTHON, "-u", *words], "environment": {"PYTHONPATH": "/app"}}
        return self.document(name, "") | mounts | said | more

    def submit(self, *documents: dict[str, Any], options: tuple[str, ...] = ()) -> list[str]:
        """By `hostler jobs submit FILE`; the ids."""
        file = self.house.home / "jobs.yaml"
        file.write_text("---\n".join(yaml.safe_dump(each, sort_keys=False) for each in documents))
        return self.cli("submit", str(file), *options).stdout.split()

    def start(self, name: str, script: str, **words: Any) -> str:
        return self.submit(self.document(name, script, **words))[0]

    def cli(self, *words: str, code: int = 0, stdin: bytes | None = None) -> "subprocess.CompletedProcess[str]":
        """`hostler jobs …`"""
        given = None if stdin is None else stdin.decode()
        more: dict[str, Any] = {"input": given} if given is not None else {"stdin": subprocess.DEVNULL}
        done = subprocess.run(self.line(*words), capture_output=True, text=True, check=False, timeout=90, **more)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr, self.house.logs())
        return done

    def line(self, *words: str) -> list[str]:
        home, server = self.house.home, self.house.ports.server
        told = ["--server", server, "--token-file", str(home / "admin.token"), "--project", PROJECT]
        return [program("hostler"), *told, "jobs", *words]

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.house.client.call("GET", f"{JOBS}/{job_id}")
        return found

    def jobs(self) -> list[dict[str, Any]]:
        return list(self.house.client.pages(JOBS))

    def tasks(self, job_id: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.house.client.call("GET", f"{JOBS}/{job_id}/tasks")["items"]
        return items

    def ended(self, job_id: str, state: str = "succeeded", limit_s: float = LIMIT_S) -> list[dict[str, Any]]:
        """Its tasks, once it has ended like that."""
        self.house.until(lambda: self.job(job_id)["finished_at_ms"] > 0, limit_s=limit_s)
        tasks = self.tasks(job_id)
        assert self.job(job_id)["state"] == state, (self.job(job_id), tasks, self.texts(job_id, ""), self.house.logs())
        return tasks

    def lines(self, job_id: str) -> list[dict[str, Any]]:
        return list(self.house.client.pages(f"/api/v1/projects/{PROJECT}/operations/{job_id}/logs", page_size=200))

    def texts(self, job_id: str, stream: str = "stdout") -> list[str]:
        return [line["text"] for line in self.lines(job_id) if stream in ("", line["stream"])]

    def said(self, job_id: str, text: str) -> None:
        """Waits for a line."""
        self.house.until(lambda: text in self.texts(job_id))

    # -- what runs --------------------------------------------------------------------------------

    def attempt(self, job_id: str, task: int = 0) -> str:
        uid: str = self.tasks(job_id)[task]["attempt_uid"]
        return uid

    def scratch(self, job_id: str, task: int = 0, node: str = "a") -> Path:
        return self.state(node) / "containers" / "scratch" / self.attempt(job_id, task)

    def left(self, *nodes: str) -> list[str]:
        """Everything that still speaks of a task: in the runtime, in /proc, and below the agents' own directories."""
        places = [self.state(name) / "containers" for name in nodes or ("a",)]
        kept = [place / part for place in places for part in ("scratch", "processes", "tasks", "run")]
        kept += [self.house.home / name / "logs/of/containers" for name in nodes or ("a",)]
        found = [str(path) for place in kept if place.is_dir() for path in place.iterdir() if path.name != KEEPER]
        found += [str(note) for place in places for note in (place / "run" / KEEPER).glob("*.json")]
        running = [str(pid) for name in nodes or ("a",) for pid in pids(self.house.node(name)["node_id"], "WORKER_ID")]
        return self.listed() + found + running

    def nothing_left(self, *nodes: str) -> None:
        end = time.monotonic() + 20
        while self.left(*nodes):
            assert time.monotonic() < end, (self.left(*nodes), self.house.logs())
            time.sleep(0.1)


def pids(value: str, name: str = "ATTEMPT_UID") -> list[int]:
    """Every process with this in its environment, the oldest first."""
    wanted = f"HOSTLER_{name}={value}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                begun = path.with_name("stat").read_text().rpartition(")")[2].split()[19]
                found.append((int(begun), int(path.parent.name)))
    return [pid for _, pid in sorted(found)]


@contextmanager
def site(runtime: str, place: Path, certs: ServerCerts) -> Iterator[Site]:
    """A served control plane and the node `a`."""
    need_root()
    (place / "guarded").mkdir()
    with contextlib.ExitStack() as stack:
        tokens = TokenServer(certs, {"robot": "secret"})
        stack.enter_context(tokens.running())
        held = stack.enter_context(registry(place, certs))
        guarded = stack.enter_context(registry(place / "guarded", certs, tokens))
        settings, restart, listed = _DAEMONS[runtime](stack, held, guarded)
        minter = _minter(tokens, guarded, certs)
        house = stack.enter_context(open_house(minters=lambda home: minter.format(home=home)))
        (house.home / "robot").write_text("secret")
        (house.home / "robot").chmod(0o600)
        image = f"{held.name}/{IMAGE}@{held.image(IMAGE, _layer())}" if runtime != "process" else ""
        private = f"{guarded.name}/{PRIVATE}@{guarded.image(PRIVATE, busybox_layer('private'))}"
        house.serve()
        made = Site(runtime, house, held, image, private, settings, restart, listed)
        made.node("a")
        yield made


def _layer() -> bytes:
    """busybox, and where programs of the machine find their loader once /usr is mounted."""
    links = [(entry(name, tarfile.SYMTYPE, linkname=f"usr/{name}"), b"") for name in ("lib", "lib64")]
    return busybox_layer("", *links, (entry("usr", tarfile.DIRTYPE, mode=0o755), b""))


def _minter(tokens: TokenServer, guarded: Registry, certs: ServerCerts) -> str:
    return (
        '[[minters]]\nbackend = "registry_token"\nname = "registry"\nsecret_file = "{home}/robot"\n'
        f'token_url = "{tokens.realm}"\nservice = "test"\nusername = "robot"\nca_file = "{certs.ca}"\n'
        f'[[minters.scopes]]\norg = "*"\nproject = "*"\nsources = ["https://{guarded.name}/v2/{PRIVATE}/"]\n'
    )


Daemon = tuple[str, Callable[[], None], Callable[[], list[str]]]


def _containerd(stack: contextlib.ExitStack, *registries: Registry) -> Daemon:
    daemon = stack.enter_context(containerd.containerd())
    for each in registries:
        daemon.trust(each.name, each.certs.ca)
    listed: Callable[[], list[str]] = lambda: daemon.ctr("containers", "ls", "-q").stdout.split()  # noqa: E731
    return f'runtime = "containerd"\ncontainerd_socket = "{daemon.socket}"\n', daemon.restart, listed


def _docker(stack: contextlib.ExitStack, *registries: Registry) -> Daemon:
    daemon = stack.enter_context(dockerd.dockerd(bridge=True))

    def listed() -> list[str]:
        connection = dockerd.Connection(daemon.socket)
        connection.request("GET", "/containers/json?all=1")
        said = [each["Id"] for each in json.loads(connection.getresponse().read())]
        connection.close()
        return said

    return f'runtime = "docker"\ndocker_socket = "{daemon.socket}"\n', daemon.restart, listed


def _process(stack: contextlib.ExitStack, *registries: Registry) -> Daemon:
    return 'runtime = "process"\nallow_process = true\n', lambda: None, list


_DAEMONS: dict[str, Callable[..., Daemon]] = {"containerd": _containerd, "docker": _docker, "process": _process}
