"""Builds the control plane's container image: an OCI layout in one tar, which `docker load` takes as well (PG-05).

    .venv/bin/python packaging/build_image.py --out dist          # needs root and debootstrap

Two layers: a minimal Debian with Python, and what the package `hostler-control` consists of. The same package and the
same Debian packages give the same bytes. No container engine takes part.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from build_deb import build, epoch, version
from deb_parts import PACKAGES, ROOT, SUITES, Suite

NAME = "hostler-control"
USER = 61_112  # no login's, no package's, and not among systemd's dynamic users
INCLUDE = "python3,ca-certificates"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
# What says when and where the tree was made, or is made again by whoever needs it.
DROPPED = ("dev", "proc", "sys", "run", "tmp", "debootstrap", "var/cache", "var/lib/apt/lists", "var/log")
DROPPED_FILES = {"etc/hostname", "etc/resolv.conf", "etc/machine-id", "var/lib/dpkg/status-old", "etc/.pwd.lock"}
EMPTY = {"dev": 0o755, "proc": 0o555, "sys": 0o555, "run": 0o755, "tmp": 0o1777, "var/log": 0o755, "var/cache": 0o755}


def make(package: Path, suite: Suite, base: Path | None, out: Path, level: int) -> Path:
    """The image of one `.deb`, on `base` or on a tree that is made for it.

    Raises:
        subprocess.CalledProcessError: where a tool refuses; it has said why.
    """
    with tempfile.TemporaryDirectory(prefix="hostler-image-") as scratch:
        own = Path(scratch) / "own"
        tree = base or _debian(suite, Path(scratch) / "debian")
        subprocess.run(["dpkg-deb", "--extract", str(package), str(own)], check=True)
        _describe(package, own)
        _user(tree, own)
        layers = [layer(_base_entries(tree), level), layer(_entries(own), level)]
    out.mkdir(parents=True, exist_ok=True)
    made = out / f"{NAME}_{version()}_{suite.name}.oci.tar"
    _archive(made, layers)
    return made


def _debian(suite: Suite, tree: Path) -> Path:
    command = ["debootstrap", "--variant=minbase", f"--include={INCLUDE}", suite.name, str(tree)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return tree


def _describe(package: Path, own: Path) -> None:
    """Where scanners look for packages that dpkg did not install."""
    asked = subprocess.run(["dpkg-deb", "--field", str(package)], check=True, capture_output=True, text=True)
    status = own / "var/lib/dpkg/status.d" / NAME
    status.parent.mkdir(parents=True)
    status.write_text(asked.stdout)


def _user(tree: Path, own: Path) -> None:
    """As sysusers would: the account, and the directory that is its own."""
    (own / "etc").mkdir(exist_ok=True)
    line = f"{NAME}:x:{USER}:{USER}:Hostler control plane:/var/lib/{NAME}:/usr/sbin/nologin\n"
    (own / "etc/passwd").write_text((tree / "etc/passwd").read_text() + line)
    (own / "etc/group").write_text((tree / "etc/group").read_text() + f"{NAME}:x:{USER}:\n")
    state = own / "var/lib" / NAME
    state.mkdir(parents=True)
    state.chmod(0o700)
    os.chown(state, USER, USER)


def _base_entries(tree: Path) -> Iterator[tuple[str, Path | None]]:
    for name, path in _entries(tree):
        if name not in DROPPED_FILES and not name.startswith(tuple(f"{each}/" for each in DROPPED)):
            yield name, None if name in DROPPED else path


def _entries(tree: Path) -> Iterator[tuple[str, Path | None]]:
    """(name, path) of everything below, parents first; None for a directory that stays empty."""
    for path in sorted(tree.rglob("*")):
        yield str(path.relative_to(tree)), path


class Layer:
    """Attributes: `data` as it travels, `digest` of that, `diff_id` of the tar inside; both `sha256:…`."""

    def __init__(self, tar: bytes, level: int) -> None:
        self.data = gzip.compress(tar, level, mtime=0)
        self.digest, self.diff_id = digest(self.data), digest(tar)


def layer(entries: Iterator[tuple[str, Path | None]], level: int) -> Layer:
    moment, buffer = epoch(), io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as file:
        for name, path in entries:
            if path is None:
                _add_empty(file, name, moment)
                continue
            entry = file.gettarinfo(str(path), arcname=name)
            if entry is None or entry.isdev():
                continue
            entry.uname = entry.gname = ""
            entry.mtime = min(int(entry.mtime), moment)
            entry.pax_headers = {}
            if entry.isreg():
                with path.open("rb") as content:
                    file.addfile(entry, content)
            else:
                file.addfile(entry)
    return Layer(buffer.getvalue(), level)


def _add_empty(file: tarfile.TarFile, name: str, moment: int) -> None:
    if name not in EMPTY:
        return
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, EMPTY[name], moment
    file.addfile(entry)


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "unknown"


def _config(layers: list[Layer]) -> bytes:
    document = {
        "architecture": "amd64",
        "os": "linux",
        "created": datetime.fromtimestamp(epoch(), UTC).isoformat(),
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
            "Entrypoint": [f"/usr/bin/{NAME}"],
            "Cmd": ["serve"],
            "ExposedPorts": {"7080/tcp": {}, "7081/tcp": {}, "7082/tcp": {}},
            "Volumes": {f"/var/lib/{NAME}": {}},
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": NAME,
                "org.opencontainers.image.version": version(),
                "org.opencontainers.image.revision": _commit(),
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [each.diff_id for each in layers]},
    }
    return _json(document)


def _archive(path: Path, layers: list[Layer]) -> None:
    """`index.json` for everybody, `manifest.json` for engines that know only Docker's own archives."""
    config = _config(layers)
    described = [{"mediaType": LAYER, "digest": each.digest, "size": len(each.data)} for each in layers]
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": digest(config), "size": len(config)},
            "layers": described,
        }
    )
    tag = f"{NAME}:{version()}"
    names = {"org.opencontainers.image.ref.name": version(), "io.containerd.image.name": f"docker.io/library/{tag}"}
    index = {"mediaType": MANIFEST, "digest": digest(manifest), "size": len(manifest), "annotations": names}
    blobs = [config, manifest, *(each.data for each in layers)]
    saved = [{"Config": _blob(config), "RepoTags": [tag], "Layers": [_blob(each.data) for each in layers]}]
    making = path.with_suffix(".new")
    with tarfile.open(making, "w", format=tarfile.PAX_FORMAT) as file:
        _put(file, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _put(file, "index.json", _json({"schemaVersion": 2, "manifests": [index]}))
        for data in blobs:
            _put(file, _blob(data), data)
        _put(file, "manifest.json", _json(saved))
    making.rename(path)


def _blob(data: bytes) -> str:
    return f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _put(file: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(data), epoch(), 0o644
    file.addfile(entry, io.BytesIO(data))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--suite", default="bookworm", choices=sorted(SUITES), help="Debian release [%(default)s]")
    arguments.add_argument("--deb", type=Path, help="package to put in [built for this]")
    arguments.add_argument("--base", type=Path, help="Debian tree with Python to build on [made by debootstrap]")
    arguments.add_argument("--out", type=Path, default=ROOT / "dist", help="directory [dist]")
    arguments.add_argument("--level", type=int, default=6, help="of compression, 0 to 9 [%(default)s]")
    options = arguments.parse_args()
    if os.geteuid() != 0:
        arguments.error("a Debian tree is made by root; run it as root")
    if options.base is None and shutil.which("debootstrap") is None:
        arguments.error("debootstrap is not installed; install it, or name a tree with --base")
    suite = SUITES[options.suite]
    with tempfile.TemporaryDirectory(prefix="hostler-image-deb-") as scratch:
        package = options.deb or build(PACKAGES[NAME], suite, Path(scratch), 0)
        made = make(package, suite, options.base, options.out, options.level)
    print(f"{made}  {hashlib.sha256(made.read_bytes()).hexdigest()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
