"""Builds the Debian packages: the same bytes from the same commit, whoever builds them, wherever.

    .venv/bin/python packaging/build_deb.py --suite bookworm --suite trixie --out dist [hostler-agent ...]

A package carries a Python environment of its own with the wheels of `packaging/locks`, checked by digest, and runs the
release's own interpreter. Nothing is compiled here. Needs dpkg-deb and the package index.
"""

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import msgspec
from deb_parts import DEBIAN, LOCKS, PACKAGES, ROOT, SUITES, Package, Suite, wheel_options
from deb_words import completions, manual_pages

from hostler.base.digest import canonical_json
from hostler.base.version import __commit__, __version__
from hostler.pki import manifest
from hostler.pki.releases import version_key

BUILT = ("agent", "control", "packaging", "pki", "profiles", "proto")
LEFT_OUT = {".proto", ".pyi", ".md"}  # sources and hints that no program reads
# What pip leaves behind that no program reads, or that says when and where it was installed.
DROPPED_FILES = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
# What securesystemslib vendors beside the code: for its own development.
DROPPED_ANYWHERE = {".gitignore", "test-ed25519-upstream.sh"}
LAUNCHER = """#!/{home}/bin/python3 -I
import sys

from {module} import {function}

if __name__ == "__main__":
    sys.exit({function}())
"""


def build(package: Package, suite: Suite, out: Path, level: int = 6) -> Path:
    """One `.deb`, compressed fast (level 0) to small (9).

    Raises:
        subprocess.CalledProcessError: where a tool refuses; it has said why.
    """
    with tempfile.TemporaryDirectory(prefix="hostler-deb-") as scratch:
        tree = Path(scratch) / "tree"
        site = tree / package.home / "lib" / f"python{suite.python}" / "site-packages"
        _wheels(package, suite, site)
        _sources(package, site)
        _profiles(package, site, tree)
        _environment(package, suite, tree)
        _shipped(package, tree)
        _manifest(package, suite, tree)
        _words(package, tree)
        _control(package, suite, tree)
        _normal(tree)
        out.mkdir(parents=True, exist_ok=True)
        made = out / f"{package.name}_{deb_version(suite)}_amd64.deb"
        # one thread: how xz cuts its blocks depends on their number
        command = [
            "dpkg-deb",
            "-Zxz",
            f"-z{level}",
            "--threads-max=1",
            "--root-owner-group",
            "--build",
            str(tree),
            str(made),
        ]
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch())}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return made


def version() -> str:
    """That of the source; tests give others, to upgrade from one to the next."""
    found = os.environ.get("HOSTLER_PACKAGE_VERSION", __version__)
    version_key(found)  # nothing else could be released
    return found


def commit() -> str:
    """Of the source; `unknown` where what is built is not what was committed."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    clean = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", *BUILT], cwd=ROOT, check=False)
    return asked.stdout.strip() if (asked.returncode, clean.returncode) == (0, 0) else __commit__


def deb_version(suite: Suite) -> str:
    return f"{version()}-1~deb{suite.version}u1"


def epoch() -> int:
    """When the newest commit was made: every file's time in the package."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    asked = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True)
    return int(asked.stdout)


def _wheels(package: Package, suite: Suite, site: Path) -> None:
    command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--no-deps", "--no-compile"]
    command += ["--require-hashes", "--target", str(site), *wheel_options(suite)]
    subprocess.run([*command, "-r", str(LOCKS / f"{package.name}.txt")], check=True)
    shutil.rmtree(site / "bin", ignore_errors=True)
    for name in package.left_out:
        for path in (site / name, *site.glob(f"{name}-*.dist-info")):
            shutil.rmtree(path)
    for path in sorted(site.rglob("*")):
        if (path.name in DROPPED_FILES and path.parent.name.endswith(".dist-info")) or path.name in DROPPED_ANYWHERE:
            path.unlink()
        elif path.name == "__pycache__":
            shutil.rmtree(path)


def _sources(package: Package, site: Path) -> None:
    """What git knows below the package's directories."""
    for source in package.sources:
        component = source.split("/")[0]
        for path in tracked(source):
            if path.suffix not in LEFT_OUT:
                _copy(ROOT / path, site / path.relative_to(component))
    told = site / "hostler/base/version.py"
    text = told.read_text().replace(f'"{__version__}"', f'"{version()}"')
    _write(told, text.replace(f'__commit__ = "{__commit__}"', f'__commit__ = "{commit()}"'))


def _profiles(package: Package, site: Path, tree: Path) -> None:
    """The shipped profiles, where people look, and a link from where the command line does."""
    if not package.profiles:
        return
    shared = tree / "usr/share" / package.name / "profiles"
    for part in ("definitions", "commands", "resolver"):
        for path in tracked(f"profiles/{part}"):
            _copy(ROOT / path, shared.parent / path)
    link = site / "hostler/catalog/builtin"
    up = "/".join([".."] * len(link.parent.relative_to(tree / "usr").parts))
    link.symlink_to(f"{up}/share/{package.name}/profiles")


def tracked(directory: str) -> Iterator[Path]:
    asked = subprocess.run(
        ["git", "ls-files", "-z", "--", directory], cwd=ROOT, capture_output=True, text=True, check=True
    )
    yield from (Path(name) for name in sorted(asked.stdout.split("\0")) if name)


def _environment(package: Package, suite: Suite, tree: Path) -> None:
    """As `python3 -m venv --symlinks` makes it, less pip: the interpreter finds the rest by pyvenv.cfg."""
    home = tree / package.home
    _write(home / "pyvenv.cfg", f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {suite.python}\n")
    (home / "bin").mkdir()
    (home / "bin/python3").symlink_to("../../../bin/python3")
    (tree / "usr/bin").mkdir(parents=True)
    for name, target in package.programs.items():
        module, _, function = target.partition(":")
        text = LAUNCHER.format(home=package.home, module=module, function=function)
        _write(home / "bin" / name, text, 0o755)
        started = f"{name}-launch" if package.launcher else name
        (tree / "usr/bin" / name).symlink_to(f"../lib/{package.name}/bin/{started}")
    if package.launcher:
        text = "#!/usr/bin/python3 -IS\n" + (ROOT / package.launcher).read_text()
        _write(home / f"bin/{package.name}-launch", text, 0o755)


def _shipped(package: Package, tree: Path) -> None:
    """Files as they land: packaging/debian/PACKAGE/root, systemd units, and the copyright of everything."""
    root = DEBIAN / package.name / "root"
    for path in sorted(root.rglob("*")) if root.exists() else ():
        if path.is_file():
            _copy(path, tree / path.relative_to(root))
    for source, place in SHIPPED.get(package.name, {}).items():
        _copy(ROOT / source, tree / place)
    documents = tree / "usr/share/doc" / package.name
    _write(documents / "copyright", (DEBIAN / "copyright").read_text())
    _write_gzip(documents / "changelog.Debian.gz", changelog(package))
    overrides = DEBIAN / package.name / "lintian-overrides"
    if overrides.exists():
        _copy(overrides, tree / "usr/share/lintian/overrides" / package.name)


SHIPPED = {
    "hostler-agent": {
        "agent/systemd/hostler-agent.service": "usr/lib/systemd/system/hostler-agent.service",
        "agent/systemd/hostler-session.service": "usr/lib/systemd/system/hostler-session.service",
        "agent/systemd/hostler-trial.service": "usr/lib/systemd/system/hostler-trial.service",
        "agent/agent.example.toml": "etc/hostler/agent.toml",
    },
    "hostler-control": {
        "control/systemd/hostler-control.service": "usr/lib/systemd/system/hostler-control.service",
        "control/control.example.toml": "etc/hostler-control/control.toml",
    },
}


def _manifest(package: Package, suite: Suite, tree: Path) -> None:
    """What a node compares its files with. The agent's package alone has one: it alone is replaced without dpkg."""
    if package.name != manifest.PACKAGE:
        return
    home, units = tree / package.home, tree / manifest.UNITS
    links = {str(path.relative_to(home)): str(path.readlink()) for path in sorted(home.rglob("*")) if path.is_symlink()}
    said = manifest.Manifest(
        version=version(),
        commit=commit(),
        suite=suite.name,
        python=suite.python,
        launcher=f"bin/{package.name}",
        files={path: _sha256(home / path) for path in _files(home)},
        links=links,
        units={path.name: _sha256(path) for path in sorted(units.iterdir())},
    )
    data = msgspec.json.format(canonical_json(said), indent=1)
    manifest.parse_manifest(data)
    _write(home / manifest.MANIFEST, data.decode() + "\n")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def changelog(package: Package) -> str:
    date = format_datetime(datetime.fromtimestamp(epoch(), UTC))
    return (
        f"{package.name} ({version()}-1) unstable; urgency=medium\n\n  * See CHANGELOG.md of the source.\n\n"
        f" -- The Hostler developers <hostler@example.com>  {date}\n"
    )


def _words(package: Package, tree: Path) -> None:
    """Manual pages and completions, made by the programs' own parsers."""
    for place, page in manual_pages(package, epoch()).items():
        _write_gzip(tree / "usr/share/man" / place, page)
    for place, text in completions(package).items():
        _write(tree / "usr/share" / place, text)


def _control(package: Package, suite: Suite, tree: Path) -> None:
    source = DEBIAN / package.name
    text = (
        (source / "control")
        .read_text()
        .format(version=deb_version(suite), python=suite.python, next_python=suite.next_python, size=_kilobytes(tree))
    )
    _write(tree / "DEBIAN/control", text)
    for script in ("postinst", "prerm", "postrm"):
        if (source / script).exists():
            _write(tree / "DEBIAN" / script, (source / script).read_text(), 0o755)
    conffiles = [path for path in _files(tree) if path.startswith("etc/")]
    if conffiles:
        _write(tree / "DEBIAN/conffiles", "".join(f"/{path}\n" for path in conffiles))
    sums = (f"{hashlib.md5((tree / path).read_bytes()).hexdigest()}  {path}\n" for path in _files(tree))
    _write(tree / "DEBIAN/md5sums", "".join(sums))


def _files(tree: Path) -> list[str]:
    paths = (path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(str(path.relative_to(tree)) for path in paths if path.relative_to(tree).parts[0] != "DEBIAN")


def _kilobytes(tree: Path) -> int:
    return sum((tree / path).stat().st_size + 1023 for path in _files(tree)) // 1024


def _normal(tree: Path) -> None:
    """Modes and times that do not depend on who builds."""
    moment = epoch()
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            executable = path.is_dir() or (path.parent.name in ("bin", "DEBIAN") and path.stat().st_mode & 0o100)
            path.chmod(0o755 if executable else 0o644)
        os.utime(path, (moment, moment), follow_symlinks=False)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _write_gzip(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of {', '.join(PACKAGES)} [all]")
    arguments.add_argument("--suite", action="append", choices=sorted(SUITES), help="Debian release [bookworm]")
    arguments.add_argument("--out", type=Path, default=ROOT / "dist", help="directory [dist]")
    arguments.add_argument("--level", type=int, default=6, help="of compression, 0 to 9 [%(default)s]")
    options = arguments.parse_args()
    unknown = set(options.packages) - set(PACKAGES)
    if unknown:
        arguments.error(f"no package {min(unknown)}; there are {', '.join(PACKAGES)}")
    for suite in options.suite or ["bookworm"]:
        for name in options.packages or PACKAGES:
            made = build(PACKAGES[name], SUITES[suite], options.out, options.level)
            print(f"{made}  {hashlib.sha256(made.read_bytes()).hexdigest()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
