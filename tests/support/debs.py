"""Packages built from this checkout, once a run, as fast as can be: barely compressed."""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ALL = ("hostler", "hostler-control", "hostler-agent")


def build(out: Path, *packages: str, suite: str = "bookworm", version: str = "", level: int = 0) -> list[Path]:
    """Runs the build as people run it."""
    command = [sys.executable, "packaging/build_deb.py", "--suite", suite, "--out", str(out), "--level", str(level)]
    more = {"HOSTLER_PACKAGE_VERSION": version} if version else {}
    done = subprocess.run(
        [*command, *packages], cwd=ROOT, env=os.environ | more, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [Path(line.split()[0]) for line in done.stdout.splitlines()]


@functools.cache
def built(package: str, version: str = "") -> Path:
    """A package of this checkout, built once a run for each version; "" for the source's own."""
    out = Path(tempfile.mkdtemp(prefix="hostler-debs-"))
    atexit.register(shutil.rmtree, out, ignore_errors=True)
    return build(out, package, version=version)[0]
