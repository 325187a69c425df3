"""PG-03, PG-04, PG-06: the Debian packages: reproducible, clean, and a whole life in a machine that really booted.

For Debian 12 in every run, and for Debian 13, with its own systemd and Python, with HOSTLER_SLOW=1.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import need, need_root
from hostler.agent.upgrade.unpack import unpack
from hostler.base.digest import sha256_hex
from hostler.base.version import __version__
from hostler.pki.deb import inspect
from support.agent_packages import version_of
from support.archive import SUITE, Archive
from support.debs import ALL, BOOKWORM, NUMBERS, TRIXIE, build, built, need_suite
from support.installed import Installed
from support.machines import machine
from support.ports import control_ports

pytestmark = [pytest.mark.real, pytest.mark.timeout(900), pytest.mark.xdist_group("machines")]

PATIENCE_S = 40.0
PYTHONS = {BOOKWORM: "3.11", TRIXIE: "3.13"}
EXPOSED = {"hostler-session.service": 25, "hostler-control.service": 25, "hostler-trial.service": 33}  # tenths
CLI = 'server = "http://127.0.0.1:{ports.http}"\ntoken_file = "/root/me.token"\nproject = "train"\n'


def until(found: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < end, what
        time.sleep(0.2)


@pytest.fixture(scope="module", params=NUMBERS)
def suite(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    need_suite(name)
    return name


def test_PG_06_two_builds_of_one_commit_are_the_same_bytes(suite: str, tmp_path: Path) -> None:
    need("dpkg-deb", "git")
    packages = ALL if os.environ.get("HOSTLER_SLOW") else ("hostler-agent",)
    again = build(tmp_path, *packages, suite=suite)
    assert [made.name for made in again] == [built(package, suite=suite).name for package in packages]
    for package, made in zip(packages, again, strict=True):
        assert made.read_bytes() == built(package, suite=suite).read_bytes(), package


def test_PG_06_the_agent_s_package_is_what_its_manifest_says(suite: str, tmp_path: Path) -> None:
    need("dpkg-deb", "git")
    package = built("hostler-agent", suite=suite)
    with package.open("rb") as file:
        found = inspect(file.fileno())
        (tmp_path / "version").mkdir()
        target = os.open(tmp_path / "version", os.O_RDONLY | os.O_DIRECTORY)
        try:
            assert unpack(file.fileno(), target, lambda: None) == found.manifest
        finally:
            os.close(target)
    assert found.sha256 == sha256_hex(package.read_bytes())
    python = PYTHONS[suite]
    assert (found.manifest.version, found.manifest.suite, found.manifest.python) == (__version__, suite, python)
    assert found.manifest.commit in (committed(), "unknown")
    assert set(found.manifest.units) == {f"hostler-{name}.service" for name in ("agent", "session", "trial")}
    if "{}.{}".format(*sys.version_info) == python:
        argv = [tmp_path / "version/bin/python3", "-I", tmp_path / "version/bin/hostler-agent", "--version"]
        said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        assert said == f"hostler-agent {__version__} (commit {found.manifest.commit})\n"


def committed() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def archive(suite: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    need("debootstrap", "systemd-nspawn", "nsenter", "dpkg-deb", "gpg", "lintian", "git")
    need_root()
    with Archive(tmp_path_factory.mktemp("archive")) as made:
        for package in ALL:
            made.take(built(package, suite=suite))
        yield made


def test_PG_03_lintian_has_nothing_to_say(archive: Archive) -> None:
    packages = [str(path) for path in sorted((archive.site / "pool").iterdir())]
    said = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "error,warning", *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout


@pytest.fixture(scope="module")
def installed(suite: str, archive: Archive, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    archive.publish()
    files = {
        "/etc/apt/keyrings/hostler.asc": archive.key,
        "/etc/apt/sources.list": f"deb [signed-by=/etc/apt/keyrings/hostler.asc] {archive.uri} {SUITE} main\n",
    }
    place = tmp_path_factory.mktemp("machine")
    with machine(place, "gpu-1", files, own_network=False, suite=suite) as booted:
        yield Installed(booted, suite, control_ports())


def test_PG_03_PG_04_a_whole_life(installed: Installed, archive: Archive) -> None:
    """Install, keys, enrol by a token file, a task, a crash, upgrade, remove, install again, purge."""
    installs(installed)
    sets_up_the_control_plane(installed)
    enrols_by_a_token_file(installed)
    comes_back_after_a_kill(installed)
    upgrades_and_keeps_its_state(installed, archive)
    removes_and_keeps_its_state(installed)
    purges_and_leaves_nothing(installed)


def installs(it: Installed) -> None:
    it.apt("update")
    it.apt("install", "--no-install-recommends", *ALL)
    assert it.is_active("hostler-agent.service")
    assert "waiting for an enrolment token" in it.shows("hostler-agent.service", "StatusText")
    assert not it.is_active("hostler-control.service"), "it has no keys"
    assert (
        it.run(
            "systemctl", "is-enabled", "hostler-agent", "hostler-session", "hostler-trial", "hostler-control"
        ).split()
        == ["enabled"] * 4
    )
    says_what_it_is(it)
    exposes_little(it)
    assert it.is_there("/usr/share/man/man8/hostler-agent.8.gz")
    assert it.is_there("/usr/share/bash-completion/completions/hostler")


def says_what_it_is(it: Installed) -> None:
    """PG-06: version and commit; and the tree that dpkg put there is what the manifest lists."""
    for program in ALL:
        assert re.fullmatch(rf"{program} [0-9.]+ \(commit ([0-9a-f]{{40}}|unknown)\)\n", it.run(program, "--version"))
    compare = (
        "from pathlib import Path; from hostler.pki.manifest import differences, parse_manifest as parse;"
        "home = Path('/usr/lib/hostler-agent'); manifest = parse((home / 'manifest.json').read_bytes());"
        "print(differences(home, manifest, units=Path('/usr/lib/systemd/system'), bytecode=True))"
    )
    assert it.run("/usr/lib/hostler-agent/bin/python3", "-I", "-c", compare) == "()\n"


def exposes_little(it: Installed) -> None:
    """Issue text: at most 2.5 for what faces the network, by the release's own systemd; roots stand apart."""
    for unit, most in EXPOSED.items():
        it.run("systemd-analyze", "security", f"--threshold={most}", unit)


def sets_up_the_control_plane(it: Installed) -> None:
    ports = it.ports
    it.hostler("pki", "init", "/root/pki", "--trust-domain", "gpu.test", "--host", "127.0.0.1")
    it.hostler(
        *("profiles", "sign", "/usr/share/hostler/profiles", "-o", "/root/catalog.json"),
        *("--key", "/root/pki/catalog/catalog.key", "--key", "/root/pki/catalog/approver-1.key"),
    )
    it.run("cp", "-r", "/root/pki/control", "/etc/hostler-control/keys")
    it.run("chown", "-R", "hostler-control:hostler-control", "/etc/hostler-control/keys")
    toml = "/etc/hostler-control/control.toml"
    it.replace(toml, "^http_listen = .*$", f'http_listen = "127.0.0.1:{ports.http}"')
    it.replace(toml, "^node_listen = .*$", f'node_listen = "127.0.0.1:{ports.node}"')
    it.replace(toml, "^enroll_listen = .*$", f'enroll_listen = "127.0.0.1:{ports.enroll}"')
    as_it = ("runuser", "-u", "hostler-control", "--")
    it.run(*as_it, "hostler-control", "init")
    it.run(
        *(*as_it, "hostler-control", "principals", "add", "me", "--role", "platform_admin"),
        *("--token-out", "/var/lib/hostler-control/me.token"),
    )
    it.run("mv", "/var/lib/hostler-control/me.token", "/root/me.token")
    it.run("chown", "root:root", "/root/me.token")
    it.run("mkdir", "-p", "/root/.config/hostler")
    it.write("/root/.config/hostler/config.toml", CLI.format(ports=ports))
    it.run("systemctl", "start", "hostler-control.service")
    it.hostler("profiles", "publish", "/root/catalog.json")


def enrols_by_a_token_file(it: Installed) -> None:
    toml = "/etc/hostler/agent.toml"
    it.replace(toml, "^address = .*$", f'address = "127.0.0.1:{it.ports.node}"')
    it.replace(toml, "^enroll_address = .*$", f'enroll_address = "127.0.0.1:{it.ports.enroll}"')
    it.run("systemctl", "restart", "hostler-agent.service")
    it.run("cp", "/root/pki/trust.json", "/etc/hostler/trust.json")
    it.hostler("nodes", "token", "gpu-1", "--org", "acme", "-o", "/etc/hostler/enrol.token")
    until(it.connected, f"the agent did not connect: {it.status()}")
    assert not it.is_there("/etc/hostler/enrol.token"), "a used token stays"
    it.noop()
    for unit, user in (("hostler-agent.service", "root"), ("hostler-session.service", "hostler-session")):
        pid = it.shows(unit, "MainPID")
        assert it.run("stat", "-c", "%U", f"/proc/{pid}").strip() == user
        assert not listening(it, pid), f"{unit} listens"
        assert it.run("readlink", f"/proc/{pid}/exe").strip().endswith(f"/python{PYTHONS[it.suite]}")


def listening(it: Installed, pid: str) -> set[str]:
    """Sockets of a process on which others could call it."""
    held = set(re.findall(r"socket:\[(\d+)\]", it.run("ls", "-l", f"/proc/{pid}/fd")))
    rows = (line.split() for name in ("tcp", "tcp6") for line in it.read(f"/proc/{pid}/net/{name}").splitlines()[1:])
    return {row[9] for row in rows if row[3] == "0A"} & held


def comes_back_after_a_kill(it: Installed) -> None:
    """PG-04: restarted by systemd; and the watchdog is told."""
    before = it.shows("hostler-agent.service", "MainPID")
    it.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "hostler-agent.service")
    until(lambda: it.shows("hostler-agent.service", "MainPID") not in ("0", before), "it was not started again")
    until(it.connected, "it did not come back")
    assert it.shows("hostler-agent.service", "WatchdogUSec") == "2min"
    it.noop()


def upgrades_and_keeps_its_state(it: Installed, archive: Archive) -> None:
    receipts = it.run("sh", "-c", "hostler-agent receipts -o /root/before && wc -l < /root/before").split()[-1]
    toml = it.read("/etc/hostler/agent.toml")
    archive.take(version_of("0.9.0", suite=it.suite))
    archive.publish()
    it.apt("update")
    it.apt("install", "--no-install-recommends", "hostler-agent")
    assert f"0.9.0-1~deb{NUMBERS[it.suite]}u1" in it.run("dpkg-query", "-W", "hostler-agent")
    assert it.read("/etc/hostler/agent.toml") == toml
    runs = lambda: re.search(r"^version\s+0\.9\.0$", it.status(), re.MULTILINE) is not None  # noqa: E731
    until(lambda: runs() and it.connected(), "it did not come back after the upgrade")  # not in the old one's words
    it.noop()
    after = it.run("sh", "-c", "hostler-agent receipts -o /root/after && wc -l < /root/after").split()[-1]
    assert int(after) > int(receipts) > 0


def removes_and_keeps_its_state(it: Installed) -> None:
    it.apt("remove", "hostler-agent")
    assert not it.is_there("/usr/lib/hostler-agent")
    assert it.is_there("/var/lib/hostler/identity/node.json")
    assert it.is_there("/etc/hostler/agent.toml")
    it.apt("install", "--no-install-recommends", "hostler-agent")
    until(it.connected, "it did not come back after it was removed and installed again")


def purges_and_leaves_nothing(it: Installed) -> None:
    it.apt("purge", *ALL)
    left = it.run("sh", "-c", "find / -xdev -path /proc -prune -o -name '*hostler*' -print 2>/dev/null || true").split()
    ours = ("/root/", "/etc/apt/", "/var/lib/apt/", "/var/cache/apt/", "/etc/hostname")
    assert [path for path in left if not path.startswith(ours)] == []
    assert "hostler" not in it.read("/etc/passwd") + it.read("/etc/group")
