"""R2, PF-10, PF-11, OD-17: an ex-tenant with privileges plants what it can in a machine that really booted.

Everything is found by name; the fence locks it out within five seconds; nothing outside the machine is touched.
"""

import os
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import need, need_root
from support.machines import Machine, machine
from support.reclaim import in_machine
from support.tenancy import KEY

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.xdist_group("machines")]

ALLOCATION = "al-1"
LISTEN = "@s = IO::Socket::INET->new(Listen=>1,LocalAddr=>'0.0.0.0',LocalPort=>4444) or die; sleep 9999"
LISTEN_UNIX = "@s = IO::Socket::UNIX->new(Listen=>1,Local=>'/run/evil.sock') or die; sleep 9999"
# What a tenant who became root writes, and under which name it has to be found.
FILES = {
    "/etc/sudoers.d/ghost": ("sudo_rule", "ghost ALL=(ALL) NOPASSWD: ALL\n"),
    "/root/.ssh/authorized_keys": ("authorized_key", f"{KEY}\n"),
    "/etc/cron.d/evil": ("cron_job", "* * * * * root /bin/true\n"),
    "/var/spool/cron/atjobs/a0000101": ("at_job", "#!/bin/sh\n"),
    "/etc/systemd/system/evil.service": ("system_unit", "[Service]\nExecStart=/bin/true\n"),
    "/etc/systemd/system/evil.timer": ("timer", "[Timer]\nOnBootSec=1h\n"),
    "/etc/systemd/system/dbus.service.d/evil.conf": ("unit_dropin", "[Service]\nNice=1\n"),
    "/home/ghost/.config/systemd/user/evil.service": ("user_unit", "[Service]\nExecStart=/bin/true\n"),
    "/etc/profile.d/evil.sh": ("login_script", "true\n"),
    "/etc/rc.local": ("boot_script", "#!/bin/sh\n"),
    "/etc/ld.so.conf.d/evil.conf": ("preload", "/opt/evil\n"),
    "/etc/pam.d/evil": ("pam_rule", "auth sufficient pam_permit.so\n"),
    "/etc/udev/rules.d/99-evil.rules": ("udev_rule", "\n"),
    "/etc/modules-load.d/evil.conf": ("module_configuration", "evil\n"),
    "/etc/environment": ("environment_file", "EVIL=1\n"),
    "/etc/apt/apt.conf.d/99evil": ("package_hook", "\n"),
    "/etc/sysctl.d/evil.conf": ("sysctl_file", "\n"),
    "/etc/hosts.evil": ("configuration_file", "\n"),
    "/var/tmp/.evil": ("temporary_file", "x"),
    "/home/ghost/data": ("home_file", "x"),
    "/var/mail/ghost": ("mail", "x"),
    "/usr/local/bin/evil": ("program", "x"),
    "/boot/evil": ("boot_file", "x"),
    "/srv/left": ("stored_file", "x"),
    "/var/lib/docker/image/overlay2/imagedb/content/sha256/beef": ("image", "{}"),
}
BY_COMMAND = {
    "container": "/var/lib/docker/containers/c0ffee",
    "volume": "/var/lib/docker/volumes/evil",
    "user": "ghost",
    "group": "ghost",
    "password": "ghost",
    "setuid_file": "/var/lib/hidden-shell",
    "capability_file": "/var/lib/capable",
    "world_writable": "/var/lib/open",
    "device_node": "/var/lib/disk",
    "linger": "/var/lib/systemd/linger/ghost",
    "process": "/usr/bin/sleep of uid 0",
    "net_namespace": "of /usr/bin/sleep of uid 0",
    "listening_socket": "tcp 0.0.0.0 port 4444",
    "unix_socket": "/run/evil.sock",
    "mount": "/mnt",
    "shared_memory": "/dev/shm/evil",
    "sysv_shared_memory": "uid 0",
    "sysv_semaphore": "uid 0",
    "sysv_message_queue": "uid 0",
    "firewall_rule": "filter -A INPUT -p tcp -m tcp --dport 4444 -j ACCEPT",
    "kernel_setting": "net.ipv4.ip_forward (changed)",
}


@dataclass
class Place:
    machine: Machine
    folder: Path

    def step(self, kind: str, **more: Any) -> dict[str, Any]:
        params = {"allocation_id": ALLOCATION, **more.pop("params", {})}
        return in_machine(self.machine, self.folder, kind, params=params, **more)

    def inside(self, *argv: str) -> str:
        done = self.machine.run(*argv)
        assert done.returncode == 0, (argv, done.stderr)
        return done.stdout

    def near(self, *argv: str) -> None:
        """A program of this machine, in the network of the other."""
        subprocess.run(["nsenter", "-t", str(self.machine.leader), "-n", "--", *argv], check=True, capture_output=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    need("debootstrap", "systemd-nspawn", "nsenter", "iptables-save")
    need_root()
    folder = tmp_path_factory.mktemp("reclaim")
    there = {"/usr/sbin/iptables-save": "", "/etc/systemd/system/timers.target": "[Unit]\n"}
    with machine(tmp_path_factory.mktemp("machine"), "hostler-residue", there) as booted:
        yield Place(booted, folder)


def plant(place: Place) -> None:
    """As root of the machine, and from beside it where the machine has no program for it."""
    root = place.machine.root
    place.inside("useradd", "-m", "-p", "*", "ghost")
    for path, (_, content) in FILES.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    (root / "var/lib/systemd/linger").mkdir(exist_ok=True)
    (root / "var/lib/systemd/linger/ghost").touch()
    for folder in ("containers/c0ffee", "volumes/evil"):
        (root / "var/lib/docker" / folder).mkdir(parents=True)
    place.inside("cp", "/bin/bash", "/var/lib/hidden-shell")
    place.inside("chmod", "4755", "/var/lib/hidden-shell")
    place.inside("cp", "/bin/true", "/var/lib/capable")
    os.setxattr(root / "var/lib/capable", "security.capability", bytes.fromhex("0100000200040000" + "00" * 12))
    place.inside("mkdir", "-m", "777", "/var/lib/open")
    os.mknod(root / "var/lib/disk", stat.S_IFBLK | 0o600, os.makedev(7, 0))
    place.inside("mount", "--bind", "/etc", "/mnt")
    place.inside("sh", "-c", "echo x > /dev/shm/evil")
    for what in ("-M100", "-S1", "-Q"):
        place.inside("ipcmk", what)
    place.inside("systemd-run", "--unit=evil-net", "unshare", "-n", "sleep", "9999")
    place.inside("systemd-run", "--unit=evil-tcp", "perl", "-MIO::Socket", "-e", LISTEN)
    place.inside("systemd-run", "--unit=evil-unix", "perl", "-MIO::Socket", "-e", LISTEN_UNIX)
    until(lambda: (root / "run/evil.sock").exists() and ":115C " in (root / "proc/1/net/tcp").read_text(), place)
    place.near("iptables", "-A", "INPUT", "-p", "tcp", "--dport", "4444", "-j", "ACCEPT")
    place.near("sh", "-c", "echo $((1 - $(cat $0))) > $0", "/proc/sys/net/ipv4/ip_forward")


def until(ready: Callable[[], bool], place: Place) -> None:
    end = time.monotonic() + 30
    while not ready():
        said = "systemctl", "status", "--no-pager", "evil-tcp", "evil-unix"
        assert time.monotonic() < end, place.machine.run(*said).stdout
        time.sleep(0.05)


def test_R2_more_than_twenty_kinds_of_residue_are_each_found_by_name(place: Place) -> None:
    baseline = place.step("baseline.take")
    assert baseline["error"] == "", baseline
    clean = place.step("residue.check", baseline=baseline["outputs"])
    assert (clean["error"], clean["lines"]) == ("", []), clean

    plant(place)
    found = place.step("residue.check", baseline=baseline["outputs"])
    assert found["error"] == "residue_found", found
    wanted = [(kind, path) for path, (kind, _) in FILES.items()] + list(BY_COMMAND.items())
    assert len({kind for kind, _ in wanted}) >= 40
    missing = [
        (kind, name)
        for kind, name in wanted
        if not any(line.startswith(f"residue: {kind} ") and name in line for line in found["lines"])
    ]
    assert missing == [], missing
    unnamed = [kind for kind, _ in wanted if f"{kind} " not in found["message"]]
    assert unnamed == [], found["message"]  # PF-11: in the failure itself, one of each kind


IGNORES = "@SIG{qw(TERM HUP INT)} = (q(IGNORE)) x 3; sleep 9999"


def test_OD_17_PF_10_the_fence_locks_the_tenant_out_within_five_seconds(place: Place) -> None:
    granted = place.step("identity.grant", params={"users": [{"name": "tenant", "keys": [KEY]}], "sudo": True})
    assert granted["error"] == "", granted
    (user,) = granted["outputs"]["users"]
    assert place.inside("id", "-u", "tenant").strip() == str(user["uid"])
    run_as = ("setpriv", "--reuid", str(user["uid"]), "--regid", str(user["uid"]), "--clear-groups")
    for number in "123":
        place.inside("systemd-run", f"--unit=hang-{number}", *run_as, "perl", "-e", IGNORES)
    until(lambda: len(theirs(place, user["uid"])) >= 3, place)
    others = {pid for pid, uid in processes(place).items() if uid == 0}

    fenced = place.step("access.fence")
    assert fenced["error"] == "", fenced
    assert fenced["seconds"] <= 5
    assert fenced["outputs"]["users"] == ["tenant"]
    assert fenced["outputs"]["stuck"] == []
    assert theirs(place, user["uid"]) == []
    assert others - {"1"} <= set(processes(place)) | exited(place)
    shadow = (place.machine.root / "etc/shadow").read_text()
    assert "\ntenant:!*:19000:0:99999:7::1:" in shadow
    assert not (place.machine.root / "home/tenant/.ssh").exists()
    assert place.machine.run("su", "tenant", "-c", "true").returncode != 0

    stopped = place.step("workload.stop", params={"units": ["evil-tcp.service"]})
    assert stopped["error"] == "", stopped
    assert "inactive" in place.machine.run("systemctl", "is-active", "evil-tcp.service").stdout
    revoked = place.step("identity.revoke")
    assert revoked["error"] == "", revoked
    assert place.machine.run("id", "tenant").returncode != 0
    assert not (place.machine.root / "home/tenant").exists()
    assert not (place.machine.root / "etc/sudoers.d/hostler-tenant").exists()


def processes(place: Place) -> dict[str, int]:
    found = {}
    for status in (place.machine.root / "proc").glob("[0-9]*/status"):
        try:
            values = dict(line.partition(":")[::2] for line in status.read_text().splitlines())
        except OSError:
            continue
        if not values["State"].strip().startswith("Z"):
            found[status.parent.name] = int(values["Uid"].split()[0])
    return found


def theirs(place: Place, uid: int) -> list[str]:
    return [pid for pid, owner in processes(place).items() if owner == uid]


def exited(place: Place) -> set[str]:
    """What systemd itself ended meanwhile, because the last process of its unit was gone."""
    return {pid for pid in map(str, range(1, 100_000)) if not (place.machine.root / "proc" / pid).exists()}
