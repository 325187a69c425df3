"""An attacker's workbench for releases: metadata of which every part can be bent before it is signed (after
python-tuf's repository simulator), and small packages of the agent, whole or hostile."""

import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from securesystemslib.formats import encode_canonical
from tuf.api.metadata import MetaFile, Snapshot, Timestamp

from hostler.base.digest import canonical_json, sha256_hex
from hostler.pki.keys import FileSigner, Signer, new_ed25519
from hostler.pki.keyset import KeyRole, Keyset, RoleKeys, encode_key
from hostler.pki.manifest import HOME, MANIFEST, UNITS, Manifest
from hostler.pki.release_sign import a_year_from, keys_for, make_root, make_targets
from hostler.pki.releases import Release, VerifiedReleases, verify_releases
from support.keys import DOMAIN, NOW, YEAR_MS

Bend = Callable[[dict[str, Any]], object]
COMMIT = "c0ffee" * 6 + "beef"
DAY_MS = 86_400_000


def release(version: str = "1.0.0", **changes: Any) -> Release:
    base = Release(
        version=version,
        commit=COMMIT,
        suite="bookworm",
        file=f"hostler-agent_{version}-1~deb12u1_amd64.deb",
        size=1234,
        sha256=sha256_hex(version.encode()),
        channels=("stable",),
    )
    return msgspec.structs.replace(base, **changes)


def update_keyset(signers: Sequence[Signer], threshold: int = 1, version: int = 1) -> Keyset:
    """A keyset that names `signers` for releases, and one other key for the rest."""
    root = new_ed25519()
    return Keyset(
        version=version,
        trust_domain=DOMAIN,
        issued_ms=NOW,
        expires_ms=NOW + 10 * YEAR_MS,
        keys={each.public.key_id: encode_key(each.public) for each in (root, *signers)},
        roles={
            str(KeyRole.ROOT): RoleKeys(1, (root.public.key_id,)),
            str(KeyRole.UPDATE): RoleKeys(threshold, tuple(each.public.key_id for each in signers)),
        },
        ca_certificates=(),
    )


def sign(signed: dict[str, Any], signers: Iterable[FileSigner]) -> bytes:
    """A TUF document, whatever it says and whoever signs it."""
    data = encode_canonical(signed).encode()
    signatures = [{"keyid": each.public.key_id, "sig": each.sign(data).hex()} for each in signers]
    return json.dumps({"signatures": signatures, "signed": signed}).encode()


def put(name: str, value: Any) -> Bend:
    """Bends the field that `name` leads to, as in "meta/snapshot.json/version"."""

    def bend(signed: dict[str, Any]) -> None:
        *way, last = name.split("/")
        for step in way:
            signed = signed[step]
        signed[last] = value

    return bend


@dataclass
class House:
    """Update keys, a key that only keeps things fresh, and the metadata they sign. Each `publish` is the next state.

    `bends` change a role's content just before it is signed; `by` replaces its signers.
    """

    update: list[FileSigner] = field(default_factory=lambda: [new_ed25519()])
    fresh: FileSigner = field(default_factory=new_ed25519)
    threshold: int = 1
    releases: tuple[Release, ...] = (release(),)
    number: dict[str, int] = field(default_factory=lambda: {"root": 1, "targets": 0, "snapshot": 0, "timestamp": 0})
    bends: dict[str, Bend] = field(default_factory=dict)
    by: dict[str, list[FileSigner]] = field(default_factory=dict)
    keyset: Keyset = field(init=False)
    known: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.keyset = update_keyset(self.update, self.threshold)

    def publish(self, now_ms: int = NOW, *, days: int = 30, **bends: Bend) -> dict[str, bytes]:
        for role in ("targets", "snapshot", "timestamp"):
            self.number[role] += 1
        self.bends = self.bends | bends
        keys = keys_for(update_keyset(self.update, self.threshold), fresh=[self.fresh.public])
        expires = a_year_from(now_ms - (365 - days) * DAY_MS)
        root = self._made("root", make_root(keys, self.number["root"], now_ms).to_dict(), self.update)
        wanted = make_targets(self.releases, self.number["targets"], now_ms).to_dict()
        targets = self._made("targets", wanted, self.update)
        meta = {"targets.json": _meta(targets)}
        wanted = Snapshot(self.number["snapshot"], None, expires, meta).to_dict()
        snapshot = self._made("snapshot", wanted, [self.fresh])
        wanted = Timestamp(self.number["timestamp"], None, expires, _meta(snapshot)).to_dict()
        timestamp = self._made("timestamp", wanted, [self.fresh])
        for role in bends:
            del self.bends[role]
        return {"root": root, "timestamp": timestamp, "snapshot": snapshot, "targets": targets}

    def _made(self, role: str, signed: dict[str, Any], signers: list[FileSigner]) -> bytes:
        self.bends.get(role, lambda _: None)(signed)
        return sign(signed, self.by.get(role, signers))

    def take(self, metadata: Mapping[str, bytes], now_ms: int = NOW) -> VerifiedReleases:
        """What a node does with metadata that is pushed to it."""
        verified = verify_releases(metadata, self.keyset, self.known, now_ms)
        self.known = verified.trusted
        return verified


def _meta(data: bytes) -> MetaFile:
    version = json.loads(data)["signed"].get("version")
    return MetaFile.from_data(version if type(version) is int and version > 0 else 1, data, ["sha256"])


# -- packages --------------------------------------------------------------------------------------

LAUNCHER = b"#!/usr/lib/hostler-agent/bin/python3 -I\nprint('here')\n"
FILES = {"bin/hostler-agent": LAUNCHER, "lib/python3.11/site-packages/hostler/agent/main.py": b"print('here')\n"}
UNIT = b"[Service]\nExecStart=/usr/bin/hostler-agent run\n"


def manifest_of(content: Mapping[str, bytes] = FILES, **changes: Any) -> Manifest:
    base = Manifest(
        version="1.0.0",
        commit=COMMIT,
        suite="bookworm",
        python="3.11",
        launcher="bin/hostler-agent",
        files={path: sha256_hex(data) for path, data in content.items()},
        links={"bin/python3": "../../../bin/python3"},
        units={"hostler-agent.service": sha256_hex(UNIT)},
    )
    return msgspec.structs.replace(base, **changes)


def file_entry(name: str, data: bytes = b"", **changes: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    for key, value in changes.items():
        setattr(info, key, value)
    return info, data


def link_entry(name: str, leads: str) -> tuple[tarfile.TarInfo, bytes]:
    return file_entry(name, type=tarfile.SYMTYPE, linkname=leads)


def entries(manifest: Manifest | bytes | None = None, files: Mapping[str, bytes] = FILES) -> list[Any]:
    """What a good package holds."""
    said = manifest if isinstance(manifest, bytes) else canonical_json(manifest or manifest_of(files))
    found = [file_entry(f"./{HOME}/{path}", data) for path, data in files.items()]
    found += [link_entry(f"./{HOME}/bin/python3", "../../../bin/python3"), file_entry(f"./{HOME}/{MANIFEST}", said)]
    return [*found, file_entry(f"./{UNITS}/hostler-agent.service", UNIT), file_entry("./usr/share/doc/x", b"doc")]


def tar(members: Iterable[tuple[tarfile.TarInfo, bytes]], **options: Any) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", **options) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return target.getvalue()


def ar(members: Sequence[tuple[str, bytes]]) -> bytes:
    parts = [b"!<arch>\n"]
    for name, data in members:
        parts += [f"{name:<16}{1700000000:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode(), data]
        parts.append(b"\n" if len(data) % 2 else b"")
    return b"".join(parts)


def package(
    members: Iterable[tuple[tarfile.TarInfo, bytes]] | None = None, *, data: bytes | None = None, control: str = ""
) -> bytes:
    """A `.deb`: a good one, or with other members, or other bytes in the place of `data.tar.xz`."""
    said = control or "Package: hostler-agent\nVersion: 1.0.0-1~deb12u1\nArchitecture: amd64\nDescription: a\n b\n"
    packed = data if data is not None else lzma.compress(tar(members if members is not None else entries()))
    head = lzma.compress(tar([file_entry("./control", said.encode())]))
    return ar([("debian-binary", b"2.0\n"), ("control.tar.xz", head), ("data.tar.xz", packed)])


def agent_package(version: str, files: Mapping[str, bytes] = FILES, suite: str = "bookworm") -> bytes:
    number = {"bookworm": 12, "trixie": 13}[suite]
    control = f"Package: hostler-agent\nVersion: {version}-1~deb{number}u1\n"
    return package(entries(manifest_of(files, version=version, suite=suite), files), control=control)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
