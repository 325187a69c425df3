"""Packages of the agent that are wrong in one known way, or in none, of whatever version a test asks for.

    host.put("/root/next.deb", version_of("0.9.0", "cannot_poll"))
    host.run("dpkg", "-i", "/root/next.deb")

With `hangs` and `slow_start`, dpkg itself waits for the unit: give it to `systemd-run`.

They are made of the package that this run has built anyway: its files are changed, and its version wherever it
stands, its manifest too. Five make one each of what an update may bring (U1, U2):

    crash_loops    `hostler-agent run` exits with 1 at once, whenever it is started
    hangs          it never says READY
    slow_start     it says READY after 20 s, and is good from then on
    cannot_poll    it runs and says READY; the session finds no control plane, though enrolment and renewal do
    cannot_renew   it is good, but every renewal of its certificate, and every recovery, is refused
"""

import atexit
import copy
import functools
import hashlib
import io
import lzma
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hostler.base.digest import canonical_json
from hostler.base.version import __version__
from hostler.pki.manifest import HOME, MANIFEST, parse_manifest
from support.debs import BOOKWORM, built
from support.releases import ar, file_entry, tar

Members = dict[str, tuple[tarfile.TarInfo, bytes]]
SLOW_S = 20


@dataclass(frozen=True)
class Change:
    """`old` stands once in the module `file`."""

    file: str
    old: str
    new: str

    def done(self, text: str) -> str:
        assert text.count(self.old) == 1, f"{self.file} has changed; see {__file__}"
        return text.replace(self.old, self.new)


_RUN = "def _run(options: argparse.Namespace) -> int:\n"
_DIAL = "            async with dial(self._order.address, self._order.tls) as channel:\n"
_RENEW = "        old = self.current\n        chain = await"
_MAIN, _LINKS = "hostler/agent/main.py", "hostler/agent/outside/links.py"
KINDS: Mapping[str, Change] = {
    "crash_loops": Change(_MAIN, _RUN, f"{_RUN}    sys.exit(1)\n"),
    "hangs": Change(_MAIN, _RUN, f"{_RUN}    __import__('time').sleep(100_000)\n"),
    "slow_start": Change(_MAIN, _RUN, f"{_RUN}    __import__('time').sleep({SLOW_S})\n"),
    "cannot_poll": Change(
        _LINKS, _DIAL, f'            raise error("controller_unreachable", "this agent finds nobody")\n{_DIAL}'
    ),
    "cannot_renew": Change(
        "hostler/agent/lifecycle/renew.py",
        _RENEW,
        "        from hostler.base.errors import error\n\n"
        f'        raise error("certificate_invalid", "this agent cannot renew")\n{_RENEW}',
    ),
}


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
    now = int(time.time())
    whole = [
        (_with(info, changed[path], now), changed[path]) if path in changed else (info, data)
        for path, (info, data) in members.items()
    ]
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


def _with(info: tarfile.TarInfo, data: bytes, now: int) -> tarfile.TarInfo:
    """Of another time, too: by that and its size Python on a host knows that bytecode is of an older file."""
    made = copy.copy(info)
    made.size, made.mtime = len(data), now
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
