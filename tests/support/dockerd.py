"""A Docker Engine of the test's own, with nothing of this machine's touched: no packet filter, a bridge by wish."""

import http.client
import json
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import need, need_root
from support.busybox import archive
from support.containerd import NUMBER, Containerd, containerd

IMAGE = "localhost/task:1"
BRIDGE, ADDRESS = f"hdocker{NUMBER}", f"10.214.{NUMBER}.1/24"


class Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("docker", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(str(self._path))


class Dockerd:
    """Containers live on in their shims while it is down.

    Attributes:
        below: the containerd it runs on.
    """

    def __init__(self, place: Path, below: Containerd) -> None:
        self.place, self.below = place, below
        self.socket = place / "d.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.place / "log").open("ab") as log:
            command = ["dockerd", "--config-file", str(self.place / "daemon.json")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        for _ in range(600):
            if self.call("GET", "/_ping") == 200:
                return
            assert self._process.poll() is None, (self.place / "log").read_text()[-2000:]
            time.sleep(0.05)
        raise AssertionError("dockerd does not answer")

    def stop(self, number: int = signal.SIGTERM) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(30)

    def restart(self) -> None:
        self.stop(signal.SIGKILL)
        (self.place / "pid").unlink(missing_ok=True)
        self.start()

    def call(self, method: str, path: str, body: bytes = b"") -> int:
        connection = Connection(self.socket)
        try:
            connection.request(method, path, body or None, {"Content-Type": "application/x-tar"})
            answer = connection.getresponse()
            answer.read()
            return answer.status
        except OSError:
            return 0
        finally:
            connection.close()


@contextmanager
def dockerd(*, bridge: bool = False) -> Iterator[Dockerd]:
    """In a directory with a short name: socket paths are.

    Args:
        bridge: containers may have a network of their own, which reaches this machine and nothing else.
    """
    need("dockerd", "runc", "busybox")
    need_root()
    with containerd() as below:  # as Debian runs it: the engine's own would die with it
        if not bridge:
            yield from _running(below, "none")
            return
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True, check=False)  # of a killed run
        for words in (("add", BRIDGE, "type", "bridge"), ("set", BRIDGE, "up")):
            subprocess.run(["ip", "link", *words], check=True)
        subprocess.run(["ip", "address", "add", ADDRESS, "dev", BRIDGE], check=True)
        try:
            yield from _running(below, BRIDGE)
        finally:
            subprocess.run(["ip", "link", "del", BRIDGE], check=False)


def _running(below: Containerd, bridge: str) -> Iterator[Dockerd]:
    place = Path(tempfile.mkdtemp(prefix="dkr", dir="/tmp"))
    settings = {
        "data-root": str(place / "root"),
        "exec-root": str(place / "exec"),
        "pidfile": str(place / "pid"),
        "hosts": [f"unix://{place}/d.sock"],
        "containerd": str(below.socket),
        "bridge": bridge,
        "iptables": False,
        "ip6tables": False,
        "ip-forward": False,
        "live-restore": True,
    }
    (place / "daemon.json").write_text(json.dumps(settings))
    daemon = Dockerd(place, below)
    try:
        daemon.start()
        archive(place / "image.tar", IMAGE)
        assert daemon.call("POST", "/images/load?quiet=1", (place / "image.tar").read_bytes()) == 200
        yield daemon
    finally:
        _clear(daemon)


def _clear(daemon: Dockerd) -> None:
    daemon.stop()
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((name for name in mounts if name.startswith(f"{daemon.place}/")), reverse=True):
        subprocess.run(["umount", "-l", mount], check=False)
    shutil.rmtree(daemon.place, ignore_errors=True)
