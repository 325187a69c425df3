"""What the demo writes before anything starts: keys, catalog, three configurations."""

import socket
import sys
from pathlib import Path
from typing import NamedTuple

from hostler.pki import ceremony

NODES = ("node-a", "node-b", "node-c")
ORG, PROJECT = "demo-org", "demo"
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
    ceremony.init(
        home / "pki", trust_domain="demo.hostler", cluster_id="demo", hosts=("127.0.0.1",), now_ms=now_ms
    )
    source_pki = home / "source" / "pki"
    ceremony.init(
        source_pki, trust_domain="source.demo", cluster_id="source", hosts=("127.0.0.1",), now_ms=now_ms
    )
    for name in ("server.pem", "server.key"):
        (source_pki / "control" / name).rename(home / "source" / name)
    sign_catalog(home, now_ms)
    (home / "control.toml").write_text(control_toml(home, ports))
    for node in NODES:
        (home / node / "agent.toml").write_text(agent_toml(home, node, ports))
    (home / "cli.toml").write_text(
        f'server = "{ports.server}"\ntoken_file = "{home}/admin.token"\nproject = "{PROJECT}"\n'
    )
