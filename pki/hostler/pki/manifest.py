"""What a package of the agent consists of: `usr/lib/hostler-agent/manifest.json`, written by the build."""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hostler.base.errors import HostlerError, error
from hostler.base.strict import decode_json
from hostler.pki.archive import parts_of

PACKAGE = "hostler-agent"
HOME = f"usr/lib/{PACKAGE}"
UNITS = "usr/lib/systemd/system"
MANIFEST = "manifest.json"  # below HOME
INTERPRETER = "bin/python3"  # below HOME: a link to the release's own Python
SYSTEM_PYTHON = "/usr/bin/python3"
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
_DIGEST = re.compile("[0-9a-f]{64}", re.ASCII)
_UNIT = re.compile(r"[a-z0-9][a-z0-9-]{0,63}[.](service|socket|timer|slice)", re.ASCII)
_BYTECODE = "__pycache__"


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything below `HOME` but the manifest itself, and the units.

    Attributes:
        commit: of the source, 40 hex digits, or `unknown`.
        suite: the Debian release that it is made for.
        python: the release of Python it needs, such as `3.11`.
        launcher: what is run, relative to `HOME`: `bin/python3 -I LAUNCHER`.
        files: path relative to `HOME` → SHA-256.
        links: path relative to `HOME` → where a symbolic link there leads, as the package has it.
        units: file name of a systemd unit → SHA-256.
    """

    version: str
    commit: str
    suite: str
    python: str
    launcher: str
    files: dict[str, str]
    links: dict[str, str]
    units: dict[str, str]


def parse_manifest(data: bytes) -> Manifest:
    """Raises `release_untrusted` for anything that the build would not write."""
    if len(data) > MAX_MANIFEST_BYTES:
        raise error("release_untrusted", f"the package's manifest takes more than {MAX_MANIFEST_BYTES} bytes")
    manifest = decode_json(data, Manifest, code="release_untrusted", what="manifest of the package")
    try:
        for path in (*manifest.files, *manifest.links):
            parts_of(path)
    except HostlerError as err:
        raise error("release_untrusted", f"the package's manifest: {err.message}") from err
    digests = [*manifest.files.values(), *manifest.units.values()]
    if not all(_DIGEST.fullmatch(digest) for digest in digests) or not all(map(_UNIT.fullmatch, manifest.units)):
        raise error("release_untrusted", "the package's manifest names a digest or a unit that is none")
    if manifest.launcher not in manifest.files or MANIFEST in manifest.files:
        raise error("release_untrusted", "the package's manifest does not name what is run, or names itself")
    return manifest


def differences(
    home: Path, manifest: Manifest, *, units: Path | None = None, bytecode: bool = False
) -> tuple[str, ...]:
    """What below `home` is not what was built: changed, missing, or there without being listed; sorted.

    Args:
        units: directory of the units: `home / "units"` in an unpacked tree, where no other may lie; else the
            system's, where others are nobody's business.
        bytecode: pass over `__pycache__`, which an installation by dpkg compiles on the node.
    """
    wanted = dict(manifest.files) | {path: f"-> {leads}" for path, leads in manifest.links.items()}
    found = dict(_present(home, "", bytecode=bytecode))
    found.pop(MANIFEST, None)
    if found.get(INTERPRETER) == f"-> {SYSTEM_PYTHON}" and INTERPRETER in wanted:
        wanted[INTERPRETER] = found[INTERPRETER]  # an unpacked tree leads there directly
    if units is not None:
        wanted |= {f"units/{name}": digest for name, digest in manifest.units.items()}
        found |= {f"units/{name}": _digest(units / name) for name in manifest.units}
    return tuple(sorted(path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path)))


def _present(folder: Path, prefix: str, *, bytecode: bool) -> Iterator[tuple[str, str]]:
    """Path → digest, or where a link leads. What is neither file, directory nor link is shown as no digest."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if bytecode and entry.name == _BYTECODE:
                continue
            if entry.is_symlink():
                yield prefix + entry.name, f"-> {Path(entry.path).readlink()}"
            elif entry.is_dir(follow_symlinks=False):
                yield from _present(Path(entry.path), f"{prefix}{entry.name}/", bytecode=bytecode)
            else:
                yield prefix + entry.name, _digest(Path(entry.path))


def _digest(path: Path) -> str:
    """Of a regular file; of nothing else, and a reason in its place."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as err:
        return f"? {err.strerror}"
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return "? no regular file"
        return hashlib.file_digest(file, "sha256").hexdigest()
