"""A real Ray, installed beside the tests for the system's own Python, and units that run it."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

PYTHON = "/usr/bin/python3"
PLACE = "/opt/hostler-test-ray"
USER = "nobody"
TIMEOUT_SECONDS = 400


def kept_tree() -> Path:
    """Where Ray's packages are, or will be: $HOSTLER_TEST_CACHE (else ~/.cache/hostler-tests)."""
    place = os.environ.get("HOSTLER_TEST_CACHE")
    cache = Path(place) if place else Path.home() / ".cache/hostler-tests"
    cache.mkdir(parents=True, exist_ok=True)
    return cache / f"ray-{_version()}"


def _version() -> str:
    asked = [PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def ray_tree() -> Path:
    """Ray's packages, 400 MB, made once."""
    tree, version = kept_tree(), _version()
    cache = tree.parent
    with (cache / "ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.exists():
            making = cache / "making-ray"
            shutil.rmtree(making, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--target", str(making)]
            pip += ["--python-version", version, "--only-binary", ":all:", "ray[default]>=2.52,<3"]
            done = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
            assert done.returncode == 0, done.stderr[-2000:]
            making.rename(tree)
    return tree


def unit(*arguments: str, environment_file: str = "", **environment: str) -> str:
    """A service that runs Ray as nobody until it is stopped."""
    variables = {"PYTHONPATH": PLACE, "HOME": "/tmp", "RAY_USAGE_STATS_ENABLED": "0"} | environment
    lines = ["[Service]", f"User={USER}", "KillMode=control-group", "TimeoutStopSec=2"]
    lines += [f"Environment={name}={value}" for name, value in variables.items()]
    lines += [f"EnvironmentFile={environment_file}"] if environment_file else []
    lines.append(f"ExecStart={PYTHON} -m ray.scripts.scripts start --block {' '.join(arguments)}")
    return "\n".join(lines) + "\n"
