"""The user data of a host that is installed anew: a program that cloud-init runs at every boot (its boothook).

It stands in the document word for word, with what the host has to know below it, and runs where nothing of ours is:
the Python that cloud-init needs, and its standard library. Started by cloud-init it only has systemd start it again
once the network is there; what it says then is in the journal of hostler-install.service.

The power may fail at any moment, and cloud-init does what is "once per instance" once, whatever became of it. So each
step here is done, or is done again at the next boot, until the package is installed; from then on it does nothing.
"""

import hashlib
import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple, NoReturn

UNIT, PACKAGE = "hostler-install", "hostler-agent"
CONFIG, IDENTITY = Path("/etc/hostler"), Path("/var/lib/hostler/identity/node.json")
FOLDER = Path("/var/cache/hostler-install")
AGAIN, NEVER = 75, 78  # exit codes: systemd tries again after the first, and not before the next boot after the other
AGAIN_S, TIMEOUT_S = 15, 60
CHUNK, MOST_WORDS = 1 << 18, 4096
# the version is the run's, whatever the image brought; settings are the ones written here
APT = ["apt-get", "-q", "-y", "--no-install-recommends", "--allow-downgrades"]
APT += ["-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold", "install"]
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"}


class Facts(NamedTuple):
    """What one host is told. `files`: name below /etc/hostler, content, mode; the token is the last of them."""

    run_id: str
    url: str
    sha256: str
    size_bytes: int
    file: str
    ca: str
    files: list[tuple[str, str, int]]


def main(facts: Facts) -> None:
    program = Path(__file__).absolute()
    marks = program.parent.parent / "sem"  # cloud-init's own of this instance, so a new instance begins anew
    done, begun = marks / f"hostler-{facts.run_id}", marks / f"hostler-{facts.run_id}.begun"
    if done.exists():
        return
    if sys.argv[1:] != ["install"]:
        _schedule(program)
        return
    if IDENTITY.exists() and not begun.exists():
        _stop(NEVER, f"this host is a node already ({IDENTITY}), so it was not installed anew; nothing was done")
    _run("dpkg", "--configure", "-a")
    if not _is_installed(facts.file):
        package = _fetched(facts)
        _write(begun, "", 0o600)
        for name, content, mode in facts.files:
            if not (IDENTITY.exists() and mode == 0o600):  # it has enrolled: the token is spent
                _write(CONFIG / name, content, mode)
        _run(*APT, str(package))
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.sync()
    _write(done, "", 0o600)
    _say(f"{facts.file} is installed; the agent enrols by itself, see 'journalctl -u hostler-agent'")


def _schedule(program: Path) -> None:
    """Packages cannot be installed here: their services would wait for this boot, which waits for cloud-init."""
    properties = ["Type=oneshot", "Restart=on-failure", f"RestartSec={AGAIN_S}", f"RestartPreventExitStatus={NEVER}"]
    properties += ["StartLimitIntervalSec=0", f"SyslogIdentifier={UNIT}", "Wants=network-online.target"]
    properties += ["After=network-online.target", "After=cloud-final.service", "Description=Hostler's agent, installed"]
    command = ["systemd-run", "--no-block", f"--unit={UNIT}", *[f"--property={each}" for each in properties]]
    subprocess.run([*command, sys.executable, "-I", str(program), "install"], check=True)


def _is_installed(file: str) -> bool:
    """Exactly that version, to its end. `file` is NAME_VERSION_ARCHITECTURE.deb."""
    command = ["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", PACKAGE]
    said = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT).stdout
    return said == f"installed {file.split('_')[1]}"


def _fetched(facts: Facts) -> Path:
    """The package, with the digest that was signed."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True, mode=0o755)
    target = FOLDER / facts.file
    try:
        context = ssl.create_default_context(cadata=facts.ca or None)
        asked = urllib.request.urlopen(facts.url, timeout=TIMEOUT_S, context=context)  # noqa: S310 - https, see settings
        with asked as answer, target.open("wb") as out:
            size, digest = 0, hashlib.sha256()
            while (chunk := answer.read(CHUNK)) and size <= facts.size_bytes:
                size += len(chunk)
                digest.update(chunk)
                out.write(chunk)
    except urllib.error.HTTPError as err:
        may_change = err.code >= 500 or err.code in (408, 425, 429)
        _stop(AGAIN if may_change else NEVER, f"the package was refused: {_reason(err)}")
    except (OSError, http.client.HTTPException, ValueError) as err:
        _stop(AGAIN, f"the package could not be fetched: {err}")
    if size < facts.size_bytes:
        _stop(AGAIN, f"the package was cut off after {size} of {facts.size_bytes} bytes")
    if digest.hexdigest() != facts.sha256:
        _stop(
            NEVER, f"{facts.file} is not the signed package: its SHA-256 is not {facts.sha256}; nothing was installed"
        )
    return target


def _reason(err: urllib.error.HTTPError) -> str:
    """In the control plane's words (RFC 9457), if it is who answered."""
    try:
        told = json.loads(err.read(MOST_WORDS))
        return f"{err.code} {told['detail']} [{told['error_code']}]"
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return f"{err.code} {err.reason}"


def _run(*command: str) -> None:
    status = subprocess.run(command, check=False, env=ENVIRONMENT, stdin=subprocess.DEVNULL).returncode
    if status:
        _stop(AGAIN, f"'{' '.join(command)}' ended with {status}")


def _write(path: Path, content: str, mode: int) -> None:
    """Whole and on the disk, or as it was before."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _stop(status: int, why: str) -> NoReturn:
    shutil.rmtree(FOLDER, ignore_errors=True)
    then = f"tried again in {AGAIN_S} s" if status == AGAIN else "not tried again before the next boot"
    _say(f"{why}; {then}")
    sys.exit(status)


def _say(words: str) -> None:
    sys.stderr.write(f"{UNIT}: {words}\n")
