"""Signed releases of the agent on a server that hosts can reach, and what a task needs to install one.

with open_releases(bed) as releases:
    releases.publish(version_of("0.2.0"))
    bed.house.submit("agent.upgrade.stage@v1", releases.inputs("0.2.0"), nodes=("n1",))
"""

import hashlib
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hostler.cli.demo_files import program
from hostler.pki.releases import pack_metadata
from support.agent_packages import Change
from support.certs import make_server_certs
from support.hosts import AGENT, Bed

CA, TOML = "/etc/hostler/packages-ca.pem", "/etc/hostler/agent.toml"


def do_releases(*words: str) -> None:
    """`hostler releases`, to its end."""
    done = subprocess.run([program("hostler"), "releases", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Releases:
    """A repository signed by the house's update key, served as it is. `served` may be changed by a test."""

    def __init__(self, bed: Bed, directory: Path, url: str, served: dict[str, bytes]) -> None:
        self._pki, self.directory, self.url, self.served = bed.house.home / "pki", directory, url, served
        self._suite = bed.suite
        do_releases("init", str(directory), *self._signed())

    def publish(self, package: Path, *options: str) -> None:
        do_releases("add", str(self.directory), str(package), "--channel", "candidate", *options, *self._signed())
        self.served["/packages/" + package.name] = package.read_bytes()
        self.served["/releases.json"] = pack_metadata(self.directory)

    def inputs(self, version: str) -> dict[str, Any]:
        """Of `agent.upgrade.stage@v1`."""
        (path,) = [path for path in self.served if path.startswith(f"/packages/hostler-agent_{version}-")]
        data = self.served[path]
        return {
            "version": version,
            "url": self.url + path,
            "sha256": hashlib.sha256(data).hexdigest(),
            "size_bytes": len(data),
            "metadata_url": self.url + "/releases.json",
            "suite": self._suite,
        }

    def _signed(self) -> list[str]:
        return ["--trust", str(self._pki / "trust.json"), "--key", str(self._pki / "update/update.key")]


@contextmanager
def open_releases(bed: Bed) -> Iterator[Releases]:
    """The hosts are told of the server's authority, which restarts their agents once."""
    with tempfile.TemporaryDirectory(prefix="hostler-releases-") as name:
        place = Path(name)
        certs = make_server_certs(place / "tls", (bed.address,))
        for host in bed.hosts.values():
            host.put(CA, certs.ca.read_text())
            fetch = Change("agent.toml", "\n[fetch]\n", f'\n[fetch]\nca_file = "{CA}"\n')
            host.put(TOML, fetch.done(host.read(TOML)))
            host.run("systemctl", "restart", AGENT)
        bed.until_in_service()
        served: dict[str, bytes] = {}
        server = ThreadingHTTPServer((bed.address, 0), _handler(served))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certs.certificate, certs.key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield Releases(bed, place / "releases", f"https://{bed.address}:{server.server_port}", served)
        finally:
            server.shutdown()
            server.server_close()


def _handler(served: dict[str, bytes]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            data = served.get(self.path)
            self.send_response(404 if data is None else 200)
            self.send_header("content-length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
