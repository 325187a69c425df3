"""What the demo writes before anything starts: keys, catalog, three configurations."""

import hashlib
import importlib.resources
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from hostler.base.errors import error
from hostler.pki import ceremony

NODES = ("node-a", "node-b", "node-c")
ORG, PROJECT = "demo-org", "demo"
PROCESSES = 'runtime = "process"\nallow_process = true'  # jobs need nothing else on this machine
_DAY_MS = 86_400_000


class Ports(NamedTuple):
    """Loopback ports of the control plane."""

    http: int
    node: int
    enroll: int

    @classmethod
    def free(cls) -> "Ports":
        sockets = [socket.socket() for _ in cls._fields]
        try:
            for each in sockets:
                each.bind(("127.0.0.1", 0))
            return cls(*(each.getsockname()[1] for each in sockets))
        finally:
            for each in sockets:
                each.close()

    @property
    def server(self) -> str:
        return f"http://127.0.0.1:{self.http}"


def program(name: str) -> str:
    """The console script beside this interpreter."""
    return str(Path(sys.executable).parent / name)


def prepare(home: Path, ports: Ports, now_ms: int) -> None:
    """Everything in `home` that the processes read at their start."""
    for directory in ("source", *(f"{node}/root/srv" for node in NODES)):
        (home / directory).mkdir(parents=True, exist_ok=True)
    ceremony.init(home / "pki", trust_domain="demo.hostler", cluster_id="demo", hosts=("127.0.0.1",), now_ms=now_ms)
    source_pki = home / "source" / "pki"
    ceremony.init(source_pki, trust_domain="source.demo", cluster_id="source", hosts=("127.0.0.1",), now_ms=now_ms)
    for name in ("server.pem", "server.key"):
        (source_pki / "control" / name).rename(home / "source" / name)
    sign_catalog(home, now_ms)
    (home / "control.toml").write_text(control_toml(home, ports))
    for node in NODES:
        (home / node / "agent.toml").write_text(agent_toml(home, node, ports))
    (home / "cli.toml").write_text(
        f'server = "{ports.server}"\ntoken_file = "{home}/admin.token"\nproject = "{PROJECT}"\n'
    )


def sign_catalog(home: Path, now_ms: int) -> None:
    """Signs the profiles that ship with Hostler with the demo's catalog keys; those that destroy need them all."""
    from hostler.catalog import manifest as catalog
    from hostler.catalog.load import load_profiles
    from hostler.catalog.proposal import propose, sign

    profiles = load_profiles(builtin_profiles())
    definitions = [definition for definition, _ in profiles.definitions]
    commands = [profile for profile, _ in profiles.commands]
    configs = profiles.configs
    made = catalog.make_manifest(1, definitions, commands, configs, now_ms=now_ms, lifetime_ms=_DAY_MS)
    signers = [ceremony.load_signer(path) for path in sorted((home / "pki" / "catalog").glob("*.key"))]
    signed = sign(propose(made, definitions, commands, resolvers=configs.values()), signers)
    (home / "catalog.json").write_bytes(signed.to_bundle())


def builtin_profiles() -> Path:
    """The shipped profiles: inside an installed package, or beside the code in a checkout."""
    package = Path(str(importlib.resources.files("hostler.catalog")))
    for candidate in (package / "builtin", package.parent.parent):
        if (candidate / "definitions").is_dir():
            return candidate
    raise error("not_found", f"no profiles are installed beside {package}")


def control_toml(home: Path, ports: Ports) -> str:
    return f"""\
cluster_id = "demo"
state_dir = "{home}/control"
keys_dir = "{home}/pki/control"
http_listen = "127.0.0.1:{ports.http}"
node_listen = "127.0.0.1:{ports.node}"
enroll_listen = "127.0.0.1:{ports.enroll}"
heartbeat_seconds = 5
log_format = "json"
"""


def agent_toml(home: Path, node: str, ports: Ports, containers: str = PROCESSES) -> str:
    return f"""\
state_dir = "{home}/{node}/state"
trust_file = "{home}/pki/trust.json"
log_format = "json"

[control]
address = "127.0.0.1:{ports.node}"
enroll_address = "127.0.0.1:{ports.enroll}"

[files]
root = "{home}/{node}/root"

[fetch]
ca_file = "{home}/source/pki/control/ca.pem"

[containers]
{containers}
"""


def largest_file(directory: Path) -> int:
    """Size of the largest file below `directory`, partial ones included."""
    sizes = []
    for path in directory.glob("*") if directory.is_dir() else ():
        with suppress(FileNotFoundError):
            sizes.append(path.lstat().st_size)
    return max(sizes, default=0)


def check_artifacts(home: Path, sha256: str) -> None:
    """Raises `digest_mismatch` unless every node holds the artifact, whole and right."""
    for node in NODES:
        path = home / node / "root" / "srv" / "models" / "model.safetensors"
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise error("digest_mismatch", f"{path} is not what was published")


@contextmanager
def background(work: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """Runs `work` beside the body; its failure becomes the body's."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work(*arguments)
        except Exception as err:  # noqa: BLE001 - handed over below
            failures.append(err)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join()
    if failures:
        raise failures[0]
