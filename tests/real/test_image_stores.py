"""SK-01: images into containerd's own store, for real; into Docker's by its documented API (no engine runs here)."""

import http.server
import json
import shutil
import socketserver
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import need, need_root
from hostler.agent.steps.artifact_pull_oci import KIND
from hostler.agent.steps.contract import Outcome
from hostler.base.errors import HostlerError
from support.certs import make_server_certs
from support.pulling_oci import OciPuller
from support.registry import Registry, layer, registry

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("containerd")]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    place = tmp_path_factory.mktemp("registry")
    with registry(place, make_server_certs(place)) as started:
        yield started


@pytest.fixture(scope="module")
def containerd() -> Iterator[Path]:
    """One of its own, in a directory with a short name: socket paths are."""
    need("containerd", "ctr")
    need_root()
    import tempfile

    place = Path(tempfile.mkdtemp(prefix="ctd", dir="/tmp"))
    config = place / "config.toml"
    config.write_text(
        f'version = 2\nroot = "{place}/root"\nstate = "{place}/state"\n'
        f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "{place}/c.sock"\n'
        f'[ttrpc]\naddress = "{place}/t.sock"\n'
    )
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(["containerd", "-c", str(config)], stdout=log, stderr=log)
    try:
        for _ in range(300):
            done = subprocess.run(["ctr", "-a", f"{place}/c.sock", "version"], capture_output=True, check=False)
            if done.returncode == 0:
                break
            assert process.poll() is None, (place / "log").read_text()[-2000:]
            time.sleep(0.1)
        yield place / "c.sock"
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(place, ignore_errors=True)


async def test_an_image_is_in_containerd_s_store_under_its_digest(
    tmp_path: Path, held: Registry, containerd: Path
) -> None:
    digest = held.image("team/a", layer(("etc/motd", b"hello\n")))
    name = f"{held.name}/team/a@{digest}"
    puller = OciPuller(tmp_path, held.certs.ca)
    puller.settings = msgspec.structs.replace(puller.settings, containerd_socket=str(containerd))
    host = puller.host()
    try:
        outcome = await puller.pull(name, place="containerd", path="", namespace="test", host=host)
        assert outcome.outputs["image"] == name
        assert outcome.changed
        again = await puller.pull(name, place="containerd", path="", namespace="test", host=host)
        assert (again.changed, again.outputs["bytes_transferred"]) == (False, 0)
        other = held.image("team/a", layer(("etc/motd", b"other\n")))
        wrong = f"{held.name}/team/a@{other}"
        with pytest.raises(HostlerError) as failed:
            await puller.pull(wrong, place="containerd", path="/srv/x", host=host, policy=_small())
        assert failed.value.code == "too_large"
    finally:
        await host.close()
    listed = subprocess.run(
        ["ctr", "-a", str(containerd), "-n", "test", "images", "ls", "-q"], capture_output=True, text=True, check=True
    )
    assert listed.stdout.split() == [name]
    assert [p for p in (tmp_path / "spool").glob(".hostler-*") if p.is_dir()] == []


def _small() -> Any:
    from hostler.wire.task import Policy

    return Policy(max_artifact_size_bytes=10)


class Engine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """The two calls of the Docker Engine API that are made, as its reference describes them; older ones than `version`
    are refused, as by Docker 29.0. `by_manifest`: it keeps images in containerd's store, and names them otherwise."""

    version = "1.41"
    by_manifest = False
    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.images: set[str] = set()
        self.archives: list[Path] = []
        self.refuses = ""
        self.place = path.parent
        super().__init__(str(path), _Handler)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Engine
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        _, version, _, name, *_ = self.path.split("/")
        if version != f"v{self.server.version}":
            wanted = f"Minimum supported API version is {self.server.version}"
            self._say(400, {"message": f"client version {version[1:]} is too old. {wanted}, please upgrade"})
            return
        found = name in self.server.images
        self._say(200 if found else 404, {"Id": name} if found else {"message": "no such image"})

    def do_POST(self) -> None:
        assert self.path == f"/v{self.server.version}/images/load?quiet=1"
        file = self.server.place / f"load{len(self.server.archives)}.tar"
        with file.open("wb") as out:
            while size := int(self.rfile.readline(), 16):
                out.write(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
        self.server.archives.append(file)
        if self.server.refuses:
            self._say(200, {"error": self.server.refuses})
            return
        with tarfile.open(file) as archive:
            described = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
            config = described[0]["Config"]
            assert all(one in archive.getnames() for one in described[0]["Layers"])
            (manifest,) = json.load(archive.extractfile("index.json"))["manifests"]  # type: ignore[arg-type]
        name = manifest["digest"] if self.server.by_manifest else f"sha256:{config.rpartition('/')[2]}"
        self.server.images.add(name)
        self._say(200, {"stream": "Loaded image"})

    def _say(self, status: int, body: dict[str, str]) -> None:
        data = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    server = Engine(tmp_path / "d.sock")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(("version", "by_manifest"), [("1.41", False), ("1.44", False), ("1.44", True)])
async def test_an_image_is_loaded_into_docker_and_found_by_its_id(
    tmp_path: Path, held: Registry, engine: Engine, version: str, by_manifest: bool
) -> None:
    engine.version, engine.by_manifest = version, by_manifest
    digest = held.image("team/a", layer(("etc/motd", b"docker\n")))
    name = f"{held.name}/team/a@{digest}"
    puller = OciPuller(tmp_path, held.certs.ca)
    puller.settings = msgspec.structs.replace(puller.settings, docker_socket=str(tmp_path / "d.sock"))

    async def pull() -> Outcome:
        return await puller.pull(name, place="docker", path="")

    engine.refuses = "no space left"
    with pytest.raises(HostlerError) as failed:
        await pull()
    assert failed.value.code == "image_store"
    engine.refuses = ""
    outcome = await pull()
    assert outcome.outputs["image"] in engine.images
    assert not (await pull()).changed
    assert len(engine.archives) == 2


async def test_an_engine_that_is_not_there_is_said(tmp_path: Path, held: Registry) -> None:
    digest = held.image("team/a", layer(("etc/motd", b"x")))
    puller = OciPuller(tmp_path, held.certs.ca)
    puller.settings = msgspec.structs.replace(puller.settings, docker_socket=str(tmp_path / "absent.sock"))
    with pytest.raises(HostlerError) as failed:
        await puller.pull(f"{held.name}/team/a@{digest}", place="docker", path="")
    assert failed.value.code == "image_store"


async def test_a_store_has_no_path(tmp_path: Path, held: Registry) -> None:
    context = OciPuller(tmp_path, held.certs.ca).context(f"r.example/a@sha256:{'0' * 64}", place="docker")
    with pytest.raises(HostlerError) as failed:
        await KIND.plan(replace(context))
    assert failed.value.code == "path_denied"
