"""What of this agent is not as it should be: files, units, configuration, certificate, version (LC-04, LC-05).

`look` reads every file, 60 MB of them, so whoever runs a loop calls it from a thread; `judge` is pure.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hostler.agent.upgrade import slots, stand_in
from hostler.agent.upgrade.places import PACKAGED, Places
from hostler.base.digest import canonical_json, sha256_hex
from hostler.base.errors import HostlerError
from hostler.pki.agent_report import MOST_EVIDENCE, DriftState, Evidence, is_unknown_build
from hostler.pki.manifest import MANIFEST, Manifest, differences

UNITS = Path("usr/lib/systemd/system")
OVERRIDES = ("etc/systemd/system", "run/systemd/system")  # where a unit, or a part of one, takes precedence
RELEASED = "a released build"
_CERTIFICATE = "certificate.pem"


@dataclass(frozen=True, kw_only=True)
class Self:
    """What is known without looking.

    Attributes:
        certificate: what is wrong with the certificate, "" for nothing.
        config_digest: sha256 of the configuration that this process was started with, "" where it is not known.
        unproven: of a version whose trial does not come to an end, for how long it goes on; "" for any other.
    """

    version: str
    commit: str
    desired_version: str
    certificate: str
    config: Path
    config_digest: str
    unproven: str = ""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was found. Digests are "" where there is nothing to look at."""

    suite: str = ""
    files: tuple[Evidence, ...] = ()
    units: tuple[Evidence, ...] = ()
    config: tuple[Evidence, ...] = ()
    slots: tuple[Evidence, ...] = ()  # another one runs than should
    files_digest: str = ""
    units_digest: str = ""
    config_digest: str = ""
    whole: bool = False  # there was a manifest to compare with


def look(places: Places, running: str, me: Self, root: Path = Path("/")) -> Seen:
    """Reads every file of the running slot. `running` is "" for an agent that runs from no package."""
    config_digest = digest(me.config)
    config: tuple[Evidence, ...] = ()
    if config_digest != me.config_digest:
        config = (_changed("config", str(me.config), me.config_digest, config_digest),)
    if not running:
        return Seen(config=config, config_digest=config_digest)
    home = places.home(running)
    try:
        manifest = slots.read_manifest(home)
        installed = manifest if running == PACKAGED else slots.read_manifest(places.packaged)
    except (HostlerError, OSError):
        missing = Evidence(kind="file", name=MANIFEST, expected="readable", found="")
        others = stand_in.evidence(places, running)
        return Seen(files=(missing,), config=config, slots=others, config_digest=config_digest)
    files = tuple(_file_evidence(home, manifest, running))
    units = tuple(_unit_evidence(root, manifest, installed))
    return Seen(
        suite=manifest.suite,
        files=files,
        units=units,
        config=config,
        slots=stand_in.evidence(places, running),
        files_digest=_over(manifest.files, files),
        units_digest=_over(manifest.units, units),
        config_digest=config_digest,
        whole=True,
    )


def judge(me: Self, seen: Seen) -> tuple[DriftState, tuple[Evidence, ...]]:
    """The state, and everything that speaks for it; the most urgent first.

    A certificate that only its own repair mends comes first, then what is broken, then what is only behind.
    """
    certificate: tuple[Evidence, ...] = ()
    if me.certificate:
        certificate = (Evidence(kind="certificate", name=_CERTIFICATE, expected="valid", found=me.certificate),)
    trial: tuple[Evidence, ...] = ()
    if me.unproven:
        trial = (Evidence(kind="trial", name=me.version, expected="proved", found=me.unproven),)
    broken = (*trial, *seen.slots, *seen.files, *seen.units, *seen.config)
    behind = _behind(me)
    evidence = (*certificate, *broken, *behind)[:MOST_EVIDENCE]
    if certificate:
        return DriftState.CERTIFICATE_ONLY, evidence
    if broken:
        return DriftState.CONFIG_DRIFT, evidence
    if me.desired_version and me.version != me.desired_version:
        return DriftState.VERSION_DRIFT, evidence
    if is_unknown_build(me.version, me.commit) or not seen.whole:
        return DriftState.UNKNOWN, evidence
    return DriftState.IN_SYNC, evidence


def _behind(me: Self) -> tuple[Evidence, ...]:
    found = []
    if me.desired_version and me.version != me.desired_version:
        found.append(Evidence(kind="version", name="version", expected=me.desired_version, found=me.version))
    if is_unknown_build(me.version, me.commit):
        found.append(Evidence(kind="build", name="commit", expected=RELEASED, found=me.commit or me.version))
    return tuple(found)


def _file_evidence(home: Path, manifest: Manifest, running: str) -> Iterator[Evidence]:
    units = None if running == PACKAGED else home / "units"
    for path in differences(home, manifest, units=units, bytecode=True)[:MOST_EVIDENCE]:
        expected = manifest.files.get(path) or manifest.links.get(path, "")
        yield _changed("file", path, expected, digest(home / path))


def _unit_evidence(root: Path, manifest: Manifest, installed: Manifest) -> Iterator[Evidence]:
    """By what the running version was built with. Units come by the package alone, so they may be of an older one."""
    for name, expected in sorted(manifest.units.items()):
        found = digest(root / UNITS / name)
        if found != expected:
            older = found and found == installed.units.get(name) and installed.version != manifest.version
            yield _changed("unit", f"/{UNITS / name}", expected, f"of package {installed.version}" if older else found)
        for folder in OVERRIDES:
            parts = [root / folder / name, *sorted((root / folder / f"{name}.d").glob("*.conf"))]
            for part in parts:
                if part.is_file() and not part.is_symlink():
                    yield _changed("unit", f"/{part.relative_to(root)}", "", digest(part))


def _changed(kind: str, name: str, expected: str, found: str) -> Evidence:
    return Evidence(kind=kind, name=name[:256], expected=expected, found=found)


def _over(wanted: dict[str, str], other: tuple[Evidence, ...]) -> str:
    """One digest over what was found: of what was built, with what differs in its place."""
    found = wanted | {each.name: each.found for each in other}
    return sha256_hex(canonical_json(found))


def digest(path: Path) -> str:
    """Of a plain file's bytes; "" for what cannot be read, or has no end, as a pipe and a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
    finally:
        os.close(descriptor)
