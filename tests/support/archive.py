"""A signed package archive, on loopback unless told otherwise, of packages made here; and a root to install them into.

with Archive(directory) as archive:
    archive.add("demo", "1.0", depends="demo-data")
    archive.publish()
    ... archive.uri, archive.key ...
"""

import functools
import hashlib
import http.server
import shutil
import subprocess
import tempfile
import threading
from email.utils import formatdate
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SUITE = "stable"
ARCHITECTURE = "all"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        return


class Archive:
    """Flat on disk, in the usual form on the wire: dists/stable/main/binary-*/Packages."""

    def __init__(self, directory: Path, address: str = "127.0.0.1") -> None:
        self.directory, self._address = directory, address
        self.site, self._home = (
            directory / "site",
            Path(tempfile.mkdtemp(prefix="gpg-")),
        )  # its sockets have short names only
        (self.site / "pool").mkdir(parents=True)
        self.key = self.new_key("archive")
        self._entries: list[str] = []

    def __enter__(self) -> Self:
        handler = functools.partial(_Quiet, directory=str(self.site))
        self._server = http.server.ThreadingHTTPServer((self._address, 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
        self._gpg("--version")  # the agent below ends with its home
        subprocess.run(["gpgconf", "--homedir", str(self._home), "--kill", "all"], check=False, capture_output=True)
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def uri(self) -> str:
        return f"http://{self._address}:{self._server.server_address[1]}"

    def repository(self, **changes: Any) -> dict[str, Any]:
        return {"uri": self.uri, "suite": SUITE, "components": ["main"], "signed_by": self.key, **changes}

    def new_key(self, name: str) -> str:
        """Makes a signing key; its public half, armoured."""
        self._gpg("--passphrase", "", "--quick-generate-key", f"{name}@test", "ed25519", "sign", "1d")
        return self._gpg("--armor", "--export", f"{name}@test")

    def add(
        self, name: str, version: str, *, files: dict[str, str] | None = None, postinst: str = "", **fields: str
    ) -> None:
        """Builds a package. `fields`: depends, conflicts, ... of its control file."""
        tree = self.directory / "build" / f"{name}_{version}"
        (tree / "DEBIAN").mkdir(parents=True)
        told = {"Package": name, "Version": version, "Architecture": ARCHITECTURE, "Maintainer": "Test <t@test>"}
        told |= {field.capitalize(): value for field, value in fields.items()} | {"Description": "made for a test"}
        (tree / "DEBIAN/control").write_text("".join(f"{key}: {value}\n" for key, value in told.items()))
        if postinst:
            (tree / "DEBIAN/postinst").write_text(f"#!/bin/sh\nset -e\n{postinst}\n")
            (tree / "DEBIAN/postinst").chmod(0o755)
        for path, content in (files or {f"/usr/share/{name}/version": version + "\n"}).items():
            target = tree / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
        for directory in [tree, *(path for path in tree.rglob("*") if path.is_dir())]:
            directory.chmod(0o755)
        deb = self.site / "pool" / f"{name}_{version}_{ARCHITECTURE}.deb"
        command = ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(tree), str(deb)]
        subprocess.run(command, check=True, capture_output=True)
        data = deb.read_bytes()
        told |= {"Filename": f"pool/{deb.name}", "Size": str(len(data)), "SHA256": hashlib.sha256(data).hexdigest()}
        self._entries.append("".join(f"{key}: {value}\n" for key, value in told.items()))

    def take(self, package: Path) -> None:
        """A package that was built elsewhere."""
        fields = subprocess.run(["dpkg-deb", "-f", str(package)], check=True, capture_output=True, text=True).stdout
        deb, data = self.site / "pool" / package.name, package.read_bytes()
        deb.write_bytes(data)
        told = {"Filename": f"pool/{deb.name}", "Size": str(len(data)), "SHA256": hashlib.sha256(data).hexdigest()}
        self._entries.append(fields + "".join(f"{key}: {value}\n" for key, value in told.items()))

    def publish(self, *, signer: str = "archive", valid_s: int = 86_400) -> None:
        """Writes the indexes and signs them."""
        native = subprocess.run(
            ["dpkg", "--print-architecture"], check=True, capture_output=True, text=True
        ).stdout.strip()
        dist = self.site / "dists" / SUITE
        index = dist / "main" / f"binary-{native}" / "Packages"
        index.parent.mkdir(parents=True, exist_ok=True)
        index.write_text("\n".join(self._entries))
        data = index.read_bytes()
        entry = f" {hashlib.sha256(data).hexdigest()} {len(data)} main/binary-{native}/Packages"
        until = formatdate(_now() + valid_s, usegmt=True)
        release = (
            f"Origin: test\nSuite: {SUITE}\nCodename: {SUITE}\nArchitectures: {native}\nComponents: main\n"
            f"Date: {formatdate(_now(), usegmt=True)}\nValid-Until: {until}\nSHA256:\n{entry}\n"
        )
        (dist / "InRelease").unlink(missing_ok=True)
        (dist / "Release").write_text(release)
        self._gpg("-u", f"{signer}@test", "--clearsign", "-o", str(dist / "InRelease"), str(dist / "Release"))

    def _gpg(self, *arguments: str) -> str:
        command = ["gpg", "--batch", "--quiet", "--homedir", str(self._home), "--pinentry-mode", "loopback", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _now() -> float:
    import time

    return time.time()


def empty_root(root: Path) -> Path:
    """What dpkg and apt need of a root to begin with: an empty database."""
    for name in ("etc/apt/apt.conf.d", "etc/apt/sources.list.d", "etc/apt/preferences.d", "etc/apt/trusted.gpg.d"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/lib/apt/lists/partial"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("var/cache/apt/archives/partial", "var/log/apt", "tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "var/lib/dpkg/status").touch()
    (root / "var/lib/dpkg/available").touch()
    return root
