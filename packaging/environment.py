"""Makes `.venv` from nothing but a Python: what `make demo` and `make test` call first.

    python3 packaging/environment.py EXTRAS [--system-packages FILE] [--strict]

Standard library only. Does nothing when the environment is up to date. As root it installs the Debian
packages it needs; otherwise it prints the line that would, and goes on where that is possible.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
CONSTRAINTS = ROOT / "packaging" / "constraints.txt"
MINIMUM = (3, 11)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("extras", help="comma-separated extras of the project, such as agent,control")
    arguments.add_argument("--system-packages", type=Path, help="file with one Debian package a line")
    arguments.add_argument("--strict", action="store_true", help="fail when a system package is missing")
    options = arguments.parse_args()
    if sys.version_info < MINIMUM:
        found = ".".join(map(str, sys.version_info[:3]))
        return complain(f"Python {found} is too old: 3.11 or newer is needed (set PYTHON=/path/to/python3)")
    status = make_venv() or install(options.extras)
    if status == 0 and options.system_packages:
        status = system_packages(options.system_packages, strict=options.strict)
    return status


def make_venv() -> int:
    if (VENV / "bin" / "python").exists():
        return 0
    if not has_ensurepip():
        package = f"python3.{sys.version_info.minor}-venv"
        if not apt_install([package]) or not has_ensurepip():
            return complain(f"this Python cannot make environments; run: apt-get install -y {package}")
    say("making .venv")
    return subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=False).returncode


def has_ensurepip() -> bool:
    probe = [sys.executable, "-c", "import ensurepip, venv"]
    return subprocess.run(probe, check=False, capture_output=True).returncode == 0


def install(extras: str) -> int:
    stamp = VENV / f".installed-{extras.replace(',', '-')}"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + CONSTRAINTS.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return 0
    say(f"installing hostler[{extras}]")
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q"]
    command = [*pip, "install", "--prefer-binary", "-c", str(CONSTRAINTS), "-e", f"{ROOT}[{extras}]"]
    status = subprocess.run(command, check=False).returncode
    if status == 0:
        stamp.write_text(wanted)
        return 0
    return complain("pip could not install the dependencies; its own message stands above")


def system_packages(listing: Path, *, strict: bool) -> int:
    wanted = [line.split("#")[0].strip() for line in listing.read_text().splitlines()]
    missing = [name for name in wanted if name and not installed(name)]
    if not missing or apt_install(missing):
        return 0
    line = "apt-get install -y --no-install-recommends " + " ".join(missing)
    if strict:
        return complain(f"real parts are missing; as root, run: {line}")
    say(f"tests marked 'real' that need {', '.join(missing)} are left out; to run them, as root: {line}")
    return 0


def installed(package: str) -> bool:
    if shutil.which("dpkg-query") is None:
        return False
    query = ["dpkg-query", "-W", "-f", "${db:Status-Status}", package]
    found = subprocess.run(query, check=False, capture_output=True, text=True)
    return found.stdout.strip() == "installed"


def apt_install(packages: list[str]) -> bool:
    """Whether the packages are installed now. Only root tries."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    say(f"apt-get install {' '.join(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quiet = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
    steps = [[*quiet, "update"], [*quiet, "install", "-y", "--no-install-recommends", *packages]]
    return all(
        subprocess.run(step, check=False, env=environment, stdout=subprocess.DEVNULL).returncode == 0 for step in steps
    )


def say(text: str) -> None:
    print(f"hostler: {text}", file=sys.stderr, flush=True)


def complain(text: str) -> int:
    say(text)
    return 1


if __name__ == "__main__":
    sys.exit(main())
