"""Hosts of a bed that are installed anew: a bare Debian with real cloud-init, and the user data of a run as its seed.

    with open_site(1) as site:
        run = site.started("n1", version)               # the documented command; run.user_data is what it wrote
        site.install("n1", run.user_data)               # a fresh disk that knows nothing of ours, booted
        site.ended(run)

The tree of that Debian is made once and kept beside the others of `machines`.
"""

import base64
import fcntl
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from support.agent_packages import version_of
from support.delivery import Delivery, open_delivery
from support.front import ENROL, NODE
from support.host import Host
from support.hosts import CONTAINERS, Bed, open_hosts
from support.machines import debian_tree, mirror, proxied

DOCS = Path(__file__).parents[2] / "docs/lifecycle.md"
RUNS = "/api/v1/admin/agent-runs"
INSTALLER = "hostler-install.service"
SEED = "/var/lib/cloud/seed/nocloud"
# what an image for bare machines says by itself: where to look for a seed, and that somebody else minds the network
IMAGE = {"/etc/cloud/cloud.cfg.d/99-image.cfg": "datasource_list: [NoCloud, None]\nnetwork: {config: disabled}\n"}
INSTALL = """set -e
apt-get -q update
apt-get -q -y --no-install-recommends install cloud-init
systemctl enable systemd-networkd
rm -rf /var/cache/apt/archives /var/lib/apt/lists/*
"""


def cloud_tree() -> Path:
    """The least Debian with cloud-init; the archive's indexes are not there, as in any image."""
    base = debian_tree(mirror()[1])
    tree = base.with_name(f"{base.name}-cloud-init")
    with base.with_name("cloud.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.exists():
            making = tree.with_name(f"making-{tree.name}")
            shutil.rmtree(making, ignore_errors=True)
            subprocess.run(["cp", "-a", str(base), str(making)], check=True)
            shutil.copyfile("/etc/resolv.conf", making / "etc/resolv.conf")
            environment = proxied() | {"DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
            command = ["chroot", str(making), "/bin/sh", "-c", INSTALL]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
            making.rename(tree)
    return tree


@dataclass(frozen=True)
class Run:
    """`user_data` is what the command wrote; for another provider, what its form held."""

    run_id: str
    user_data: str

    @property
    def facts(self) -> dict[str, Any]:
        """What stands below the program, read as the host reads it."""
        told = self.user_data.split('TOLD = """')[1].partition('"""')[0]
        found: dict[str, Any] = msgspec.json.decode(base64.b64decode(told))
        return found

    @property
    def token(self) -> str:
        *_, (_, token, _) = self.facts["files"]
        return str(token)


def documented(with_: str) -> list[str]:
    """The one command of the reimage section with these words."""
    section = DOCS.read_text().partition("### reimage\n")[2].partition("\n## ")[0]
    (line,) = [line for line in section.partition("```\n")[2].partition("```")[0].splitlines() if with_ in line]
    return shlex.split(line, comments=True)


class Site:
    """A bed whose control plane brings versions by every mode."""

    def __init__(self, bed: Bed, delivery: Delivery) -> None:
        self.bed, self.house, self.delivery = bed, bed.house, delivery
        self._numbers = iter(range(1, 100))

    def publish(self) -> str:
        version = f"1.{next(self._numbers)}.0"
        self.delivery.publish(version_of(version))
        return version

    def started(self, name: str, version: str, *options: str) -> Run:
        document, run_id = self.document("-o user-data", name, version, *options)
        return Run(run_id, document.read_text())

    def document(self, with_: str, name: str, version: str, *options: str) -> tuple[Path, str]:
        """What the command of docs/lifecycle.md with these words writes, and its run."""
        own = {"gpu-1": name, "1.2.0": version}
        _, *words = [own.get(word, word) for word in documented(with_)]
        target = self.house.home / words.pop()
        target.unlink(missing_ok=True)
        said = self.house.cli(*words, str(target), *options)
        assert target.stat().st_mode & 0o777 == 0o600
        (newest, *_) = self.house.client.pages(RUNS, page_size=1)
        assert newest["run_id"] in said
        return target, newest["run_id"]

    def install(self, name: str, user_data: str) -> Host:
        """A fresh disk, and power; what it boots into comes by itself."""
        host = self.bed[name]
        host.destroy()
        seed = {f"{SEED}/user-data": user_data, f"{SEED}/meta-data": f"instance-id: {name}-{next(self._numbers)}\n"}
        host.reinstall([cloud_tree()], IMAGE | seed)
        host.power_on()
        return host

    def run(self, run: Run) -> dict[str, Any]:
        found: dict[str, Any] = self.house.client.call("GET", f"{RUNS}/{run.run_id}")
        return found

    def ended(self, run: Run, name: str, limit_s: float = 200) -> dict[str, Any]:
        """The run once it is over."""
        self.bed[name].until(lambda: self.run(run)["finished_at_ms"] > 0, f"{self.run(run)} goes on", limit_s)
        return self.run(run)

    def events(self, family: str) -> list[dict[str, Any]]:
        return list(self.house.client.pages("/api/v1/events", type=family, page_size=1000))


@contextmanager
def open_site(count: int, more: str = "") -> Iterator[Site]:
    """`more`: of `[updates]`."""
    with open_hosts(count) as bed:
        own = bed.house.home / "host.toml"
        own.write_text(CONTAINERS)

        def updates(ca: Path) -> str:
            addresses = f'node_address = "{bed.address}:{NODE}"\nenroll_address = "{bed.address}:{ENROL}"\n'
            return f'{addresses}ca_file = "{ca}"\nhost_toml_file = "{own}"\n{more}'

        with open_delivery(bed, updates) as delivery:
            yield Site(bed, delivery)
