"""Slots as a node has them, of a few small files each; whole by their own manifests."""

import asyncio
import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from hostler.agent.upgrade import records, slots
from hostler.agent.upgrade.installed import Installed
from hostler.agent.upgrade.offered import Known
from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.base.digest import canonical_json
from hostler.pki.manifest import Manifest
from hostler.pki.releases import Release
from support.keys import NOW
from support.releases import House

PYTHON = "3.11"
SUITE = "bookworm"
COMMIT = "c0ffee00" * 5


def places_in(directory: Path) -> Places:
    """With slot zero, of version 1.0.0, and no other."""
    places = Places(directory / "var", directory / "usr")
    slots.prepare(places)
    make_slot(places, PACKAGED, "1.0.0")
    return places


def make_slot(places: Places, name: str, version: str, commit: str = COMMIT, python: str = PYTHON) -> Path:
    """A whole slot."""
    home = places.home(name)
    (home / "bin").mkdir(parents=True)
    files = {"bin/hostler-agent": f"version {version}\n", "pyvenv.cfg": "home = /usr/bin\n", "lib/one.py": version}
    for path, text in files.items():
        (home / path).parent.mkdir(exist_ok=True)
        (home / path).write_text(text)
    (home / "bin/python3").symlink_to("/usr/bin/python3")
    manifest = Manifest(
        version=version,
        commit=commit,
        suite=SUITE,
        python=python,
        launcher="bin/hostler-agent",
        files={path: hashlib.sha256(text.encode()).hexdigest() for path, text in files.items()},
        links={"bin/python3": "/usr/bin/python3"},
        units={},
    )
    (home / "manifest.json").write_bytes(canonical_json(msgspec.to_builtins(manifest)))
    if name != PACKAGED:
        slots.note_ready(places, name)
    return home


def release(version: str, *, replaces: tuple[str, ...] = (), sha256: str = "a" * 64) -> Release:
    return Release(
        version=version,
        commit=COMMIT,
        suite=SUITE,
        file=f"hostler-agent_{version}.deb",
        size=1,
        sha256=sha256,
        channels=("stable",),
        replaces=replaces,
    )


def offer(places: Places, house: House, *releases: Release, now_ms: int = NOW) -> None:
    """From now on the node knows that these, and no others, are signed."""
    house.releases = releases
    records.write(places.releases, Known(trusted=house.take(house.publish(now_ms), now_ms).trusted))


def installed_in(places: Places, running: str = PACKAGED, house: House | None = None) -> Installed:
    trust: Any = SimpleNamespace(keyset=house.keyset if house else None, check_fresh=lambda now_ms: None)
    return Installed(places, running, lambda: trust, lambda: "serial-1", asyncio.Lock())
