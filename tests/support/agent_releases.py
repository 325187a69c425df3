"""Signed releases of the agent on a server that hosts can reach, and what a task needs to install one.

with open_releases(bed) as releases:
    releases.publish(version_of("0.2.0"))
    bed.house.submit("agent.upgrade.stage@v1", releases.inputs("0.2.0"), nodes=("n1",))
"""

import atexit
import copy
import functools
import hashlib
import io
import lzma
import shutil
import ssl
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from hostler.base.digest import canonical_json
from hostler.base.version import __version__
from hostler.cli.demo_files import program
from hostler.pki.manifest import HOME, MANIFEST, parse_manifest
from hostler.pki.releases import pack_metadata
from support.bad_agents import KINDS, Change
from support.certs import make_server_certs
from support.debs import BOOKWORM, built
from support.hosts import AGENT, Bed
from support.releases import ar, file_entry, tar

CA, TOML = "/etc/hostler/packages-ca.pem", "/etc/hostler/agent.toml"
Members = dict[str, tuple[tarfile.TarInfo, bytes]]


def version_of(version: str, kind: str = "", suite: str = BOOKWORM) -> Path:
    """A package of this checkout under another version, with one thing wrong where `kind` names it; its manifest fits.

    Kept until this process ends. Made in memory: dpkg takes ten times as long,
    and takes no PAX headers.
    """
    return _made(version, kind, suite)


@functools.cache
def _made(version: str, kind: str, suite: str) -> Path:
    members, about, name = _built(suite)
    changes = [Change("hostler/base/version.py", f'"{__version__}"', f'"{version}"'), *([KINDS[kind]] if kind else [])]
    changed = {}
    for path, (_, data) in members.items():
        for change in changes:
            if path.endswith(f"/site-packages/{change.file}"):
                changed[path] = change.done((changed.get(path) or data).decode()).encode()
    assert len(changed) == len({change.file for change in changes})
    manifest = f"./{HOME}/{MANIFEST}"
    changed[manifest] = _restamped(members[manifest][1], version, changed)
    whole = [(_sized(info, changed.get(path, data)), changed.get(path, data)) for path, (info, data) in members.items()]
    fields = Change("control", f"Version: {__version__}-", f"Version: {version}-").done(about["./control"][1].decode())
    scripts = [entry for path, entry in about.items() if path not in ("./control", "./md5sums")]
    packed = [
        _xz(tar([file_entry("./control", fields.encode()), *scripts], format=tarfile.GNU_FORMAT)),
        _xz(tar(whole, format=tarfile.GNU_FORMAT)),
    ]
    place = Path(tempfile.mkdtemp(prefix="hostler-version-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    package = place / name.replace(__version__, version)
    package.write_bytes(ar([("debian-binary", b"2.0\n"), ("control.tar.xz", packed[0]), ("data.tar.xz", packed[1])]))
    return package


@functools.cache
def _built(suite: str) -> tuple[Members, Members, str]:
    """Files of the package of this checkout, those that are about it (its scripts, too), and its name."""
    source = built("hostler-agent", suite=suite)
    tree, control = (_dpkg(word, str(source)) for word in ("--fsys-tarfile", "--ctrl-tarfile"))
    return _members(tree), _members(control), source.name


def _members(data: bytes) -> Members:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {info.name: (info, _content(archive, info)) for info in archive}


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(info) if info.isfile() else None
    return file.read() if file else b""


def _sized(info: tarfile.TarInfo, data: bytes) -> tarfile.TarInfo:
    made = copy.copy(info)
    made.size = len(data)
    return made


def _restamped(manifest: bytes, version: str, changed: dict[str, bytes]) -> bytes:
    said = parse_manifest(manifest)
    fresh = {path.removeprefix(f"./{HOME}/"): hashlib.sha256(data).hexdigest() for path, data in changed.items()}
    return canonical_json(msgspec.to_builtins(msgspec.structs.replace(said, version=version, files=said.files | fresh)))


def _xz(data: bytes) -> bytes:
    return lzma.compress(data, preset=0)


def _dpkg(*words: str) -> bytes:
    done = subprocess.run(["dpkg-deb", *words], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


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
