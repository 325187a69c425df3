"""A containerd of the test's own, with its container runtime interface and a bridge network on loopback."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import need, need_root
from support.busybox import archive
from support.ports import Blocks

IMAGE, PAUSE = "localhost/task:1", "localhost/pause:1"
NUMBER = Blocks(range(1, 250), 1).mine()[0]  # of no other run that stands on this machine
BRIDGE, SUBNET = f"hostler{NUMBER}", f"10.213.{NUMBER}"
CONFIG = """version = 2
root = "{place}/root"
state = "{place}/state"
[grpc]
  address = "{place}/c.sock"
[ttrpc]
  address = "{place}/t.sock"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "localhost/pause:1"
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{place}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{place}/certs.d"
"""
NETWORK = {
    "cniVersion": "0.4.0",
    "name": BRIDGE,
    "plugins": [
        {
            "type": "bridge",
            "bridge": BRIDGE,
            "isGateway": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": f"{SUBNET}.0/24"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}


class Containerd:
    """Containers live on in their shims while it is down."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.socket = place / "c.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.place / "log").open("ab") as log:
            command = ["containerd", "-c", str(self.place / "config.toml")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        for _ in range(400):
            if self.ctr("version", check=False).returncode == 0:
                return
            assert self._process.poll() is None, (self.place / "log").read_text()[-2000:]
            time.sleep(0.05)
        raise AssertionError("containerd does not answer")

    def stop(self, number: int = signal.SIGTERM) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(20)

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def restart(self) -> None:
        self.kill()
        self.start()

    def ctr(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        command = ["ctr", "-a", str(self.socket), "-n", "k8s.io", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=check, timeout=60)

    def trust(self, registry: str, ca: Path | None = None) -> None:
        """Read anew at every pull. Without an authority the registry speaks plain HTTP."""
        directory = self.place / "certs.d" / registry
        directory.mkdir(parents=True)
        scheme, more = ("https", f'ca = "{ca}"\n') if ca else ("http", "")
        said = f'capabilities = ["pull", "resolve"]\n{more}'  # twice: it asks the server after the host
        address = f"{scheme}://{registry}"
        (directory / "hosts.toml").write_text(f'server = "{address}"\n{said}[host."{address}"]\n{said}')


@contextmanager
def containerd() -> Iterator[Containerd]:
    """In a directory with a short name: socket paths are."""
    need("containerd", "ctr", "runc", "busybox", "ip")
    need_root()
    _clear_network()
    place = Path(tempfile.mkdtemp(prefix="ctd", dir="/tmp"))
    (place / "config.toml").write_text(CONFIG.format(place=place))
    (place / "cni").mkdir()
    (place / "cni" / "10-test.conflist").write_text(json.dumps(NETWORK))
    daemon = Containerd(place)
    try:
        daemon.start()
        for name, command in ((IMAGE, None), (PAUSE, ["/bin/busybox", "sleep", "999999999"])):
            archive(place / "image.tar", name, command)
            daemon.ctr("images", "import", str(place / "image.tar"))
        yield daemon
    finally:
        _clear(daemon)


def _clear(daemon: Containerd) -> None:
    for task in daemon.ctr("tasks", "ls", "-q", check=False).stdout.split():
        daemon.ctr("tasks", "rm", "-f", task, check=False)
    daemon.stop()
    _end_beside(str(daemon.socket))
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((name for name in mounts if name.startswith(f"{daemon.place}/")), reverse=True):
        subprocess.run(["umount", "-l", mount], check=False)
    _clear_network()
    shutil.rmtree(daemon.place, ignore_errors=True)


def _clear_network() -> None:
    """Also what a killed run of the same number has left."""
    subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True, check=False)
    shutil.rmtree(Path("/var/lib/cni/networks") / BRIDGE, ignore_errors=True)


def _end_beside(address: str) -> None:
    """Shims, and keepers of agents that are gone."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        ours = b"shim" in words[0] or b"hostler.agent.containers.cri_keeper" in words
        if ours and address.encode() in words:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.parent.name), signal.SIGKILL)
