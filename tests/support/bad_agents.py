"""Packages of the agent that are wrong in one known way, or in none, of whatever version a test asks for.

    host.put("/root/next.deb", bad_package("cannot_poll", "0.9.0"))
    host.run("dpkg", "-i", "/root/next.deb")

With `hangs` and `slow_start`, dpkg itself waits for the unit: give it to `systemd-run`.

They are made of the package that this run has built anyway: its files are changed, and its version in both places
where it stands. Five make one each of what an update may bring (U1, U2):

    crash_loops    `hostler-agent run` exits with 1 at once, whenever it is started
    hangs          it never says READY
    slow_start     it says READY after 20 s, and is good from then on
    cannot_poll    it runs and says READY; the session finds no control plane, though enrolment and renewal do
    cannot_renew   it is good, but every renewal of its certificate, and every recovery, is refused
"""

import atexit
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hostler.base.version import __version__
from support.debs import BOOKWORM, built

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


def bad_package(kind: str, version: str, suite: str = BOOKWORM) -> Path:
    """A `.deb`, kept until this process ends; made once for each kind and version."""
    return _made(kind, version, suite)


def good_package(version: str, suite: str = BOOKWORM) -> Path:
    """The same with nothing wrong but its version, in a tenth of the time that a build takes."""
    return _made("", version, suite)


@functools.cache
def _made(kind: str, version: str, suite: str) -> Path:
    source = built("hostler-agent", suite=suite)
    place = Path(tempfile.mkdtemp(prefix="hostler-bad-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    tree = place / "tree"
    _dpkg("-R", str(source), str(tree))
    (site,) = tree.glob("usr/lib/**/site-packages")
    changes = [Change("hostler/base/version.py", __version__, version), *([KINDS[kind]] if kind else [])]
    for change in changes:
        module = site / change.file
        module.write_text(change.done(module.read_text()))
    control = tree / "DEBIAN/control"
    control.write_text(Change("control", f"Version: {__version__}-", f"Version: {version}-").done(control.read_text()))
    package = place / source.name.replace(__version__, version)
    _dpkg("-Znone", "--root-owner-group", "--build", str(tree), str(package))
    shutil.rmtree(tree)
    return package


def _dpkg(*words: str) -> None:
    done = subprocess.run(["dpkg-deb", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
