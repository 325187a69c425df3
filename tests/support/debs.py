"""Packages built from this checkout, once a run, as fast as can be: barely compressed."""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from conftest import need_slow

ROOT = Path(__file__).resolve().parents[2]
BOOKWORM, TRIXIE = "bookworm", "trixie"
NUMBERS = {BOOKWORM: 12, TRIXIE: 13}
ALL = ("hostler", "hostler-control", "hostler-agent")


def need_suite(suite: str) -> None:
    """Skips the calling test for the second release of each run, whose tree and packages are made for it alone."""
    if suite != BOOKWORM:
        need_slow(f"{suite} besides {BOOKWORM} takes minutes")


def build(out: Path, *packages: str, suite: str = BOOKWORM, version: str = "", level: int = 0) -> list[Path]:
    """Runs the build as people run it."""
    command = [sys.executable, "packaging/build_deb.py", "--suite", suite, "--out", str(out), "--level", str(level)]
    more = {"HOSTLER_PACKAGE_VERSION": version} if version else {}
    done = subprocess.run(
        [*command, *packages], cwd=ROOT, env=os.environ | more, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [Path(line.split()[0]) for line in done.stdout.splitlines()]


def built(package: str, version: str = "", suite: str = BOOKWORM) -> Path:
    """A package of this checkout, built once a run for each version and suite; "" for the source's own."""
    return _built(package, version, suite)


@functools.cache
def _built(package: str, version: str, suite: str) -> Path:
    out = Path(tempfile.mkdtemp(prefix="hostler-debs-"))
    atexit.register(shutil.rmtree, out, ignore_errors=True)
    return build(out, package, suite=suite, version=version)[0]
