# ruff: noqa: E501 - a table: one guard a line
"""Each guard over releases and packages, taken out of the source: a test goes red. None is silent."""

import pytest

from support.mutant import Guard, outcome_without

TRUST, RELEASES, FILES = "hostler.pki.release_trust", "hostler.pki.releases", "hostler.pki.release_files"
SIGN, REPO, DEB, MANIFEST = (
    "hostler.pki.release_sign",
    "hostler.pki.release_repo",
    "hostler.pki.deb",
    "hostler.pki.manifest",
)
CASES, KINDS = "tests/conformance/releases", "tests/unit/pki/test_releases.py"
DESK, PACKAGES = "tests/unit/cli/test_releases.py", "tests/unit/pki/test_deb.py"
CUT_SHORT = "tests/unit/cli/test_releases_cut_short.py"
TREES, UNPACKED = "tests/unit/pki/test_manifest.py", "tests/unit/agent/upgrade/test_unpack.py"

GUARDS = {
    "PG_06 all four roles": (TRUST, "if set(metadata) != set(ROLES):", "if False:", CASES),
    "PG_06 size of all roles": (TRUST, "if sum(map(len, metadata.values())) > MAX_DOCUMENT_BYTES:", "if False:", KINDS),
    "PG_06 a successor": (TRUST, "if each.version > BIGGEST:", "if False:", CASES),
    "PG_06 unknown fields": (TRUST, "if each.unrecognized_fields or any(", "if any(", CASES),
    "PG_06 unknown fields of parts": (TRUST, "any(part.unrecognized_fields for part in _parts(each))", "False", CASES),
    "PG_06 nothing else in the snapshot": (TRUST, 'if set(trusted.snapshot.meta) != {"targets.json"}:', "if False:", CASES),
    "PG_06 consistent snapshots": (TRUST, " or root.consistent_snapshot is not True", "", CASES),
    "T7 a key under its own name": (TRUST, "if public_key(key).key_id != keyid:", "if False:", CASES),
    "PG_06 keys of the keyset": (TRUST, "if not set(root.roles[role].keyids) <= keys.keys():", "if False:", CASES),
    "PG_06 threshold of the keyset": (TRUST, "if root.roles[role].threshold < threshold:", "if False:", CASES),
    "PK_09 root rollback": (TRUST, "if root.version < before.version:", "if False:", CASES),
    "PK_09 two roots": (TRUST, "if root.version == before.version and root != before:", "if False:", CASES),
    "T8 marks of keys that are gone": (TRUST, "        return known  # by keys that count no more; each of the others stands or falls with its own keys", "        raise", CASES),
    "PK_09 the time": (TRUST, "    trusted.reference_time = datetime.fromtimestamp(now_ms / 1000, UTC)\n", "", CASES),
    "PK_09 timestamp mark": (TRUST, '    _load_mark(trusted.update_timestamp, known.get("timestamp"))\n', "", CASES),
    "PK_09 snapshot mark": (TRUST, '    _load_mark(lambda mark: trusted.update_snapshot(mark, trusted=True), known.get("snapshot"))\n', "", CASES),
    "PK_09 two timestamps": (TRUST, 'if data != known.get("timestamp"):', "if False:", CASES),
    "PG_06 delegations": (TRUST, "if targets.delegations is not None:", "if False:", CASES),
    "PG_06 bounded releases": (TRUST, "if len(targets.targets) > MAX_RELEASES:", "if False:", CASES),
    "PG_06 one package a version": (TRUST, "if len({(release.version, release.suite) for release in releases}) < len(releases):", "if False:", CASES),
    "PG_06 one digest": (TRUST, '        or set(target.hashes) != {"sha256"}\n', "", CASES),
    "PG_06 said once": (TRUST, 'if custom.keys() & {"file", "size", "sha256"}:', "if False:", CASES),
    "PG_06 strict custom": (RELEASES, "class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True,", "class Release(msgspec.Struct, frozen=True,", CASES),
    "PG_06 facts of a release": (RELEASES, "    if wrong:\n", "    if False:\n", CASES),
    "U3 replaces only what is higher": (RELEASES, "_key_or_refuse(release, version) > own", "_key_or_refuse(release, version)", CASES),
    "U3 downgrade": (RELEASES, "if running_version not in release.replaces:", "if False:", KINDS),
    "LC_13 a version": (RELEASES, "    if found is None:\n", "    if False:\n", KINDS),
    "PG_06 document's size, packed": (RELEASES, "if len(document) > MAX_DOCUMENT_BYTES:\n        said", "if False:\n        said", KINDS),
    "PG_06 document's size": (RELEASES, "if len(document) > MAX_DOCUMENT_BYTES:\n        raise error(\"release_untrusted\", f\"the metadata takes", "if False:\n        raise error(\"release_untrusted\", f\"the metadata takes", KINDS),
    "PG_06 document's format": (RELEASES, "if parsed.format != _FORMAT:", "if False:", KINDS),
    "PG_06 document's fields": (RELEASES, "class _Document(msgspec.Struct, forbid_unknown_fields=True,", "class _Document(msgspec.Struct,", KINDS),
    "PG_06 a version that is a number": (FILES, "if type(version) is not int:", "if False:", KINDS),
    "PG_06 file size": (FILES, "if len(data) > _MOST_BYTES:", "if False:", KINDS),
    "PG_06 enough signatures at the desk": (SIGN, "    if missing > 0:\n", "    if False:\n", DESK),
    "PG_06 only who may signs": (SIGN, "        if keyid in may:\n", "        if True:\n", DESK),
    "PG_06 verified before it is signed": (REPO, "    return verify(newest(directory), by.keyset, {}, by.now_ms, lapsed=lapsed)\n", "    return _unverified(newest(directory))\n", DESK),
    "PG_06 immutable": (REPO, "if each not in others and each.sha256 != release.sha256:", "if False:", DESK),
    "PG_06 the bytes that were inspected": (REPO, "if digest.hexdigest() != release.sha256:", "if False:", CUT_SHORT),
    "PG_06 packages on disk": (REPO, "        if digest != release.sha256:\n", "        if False:\n", DESK),
    "PG_06 an empty directory": (REPO, "if directory.exists() and any(directory.iterdir()):", "if False:", DESK),
    "PG_06 one at a time": (REPO, "        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", "", CUT_SHORT),
    "U3 a rotation cut short": (REPO, '    found["root"] = read_file(directory / METADATA / f"{numbers[-2]}.root.json")\n', "", CUT_SHORT),
    "A5 package size": (DEB, "if self.size > limits.package:", "if False:", PACKAGES),
    "A5 data size": (DEB, "if self._given > self._most:", "if False:", PACKAGES),
    "A5 entries": (DEB, "if count > most:", "if False:", PACKAGES),
    "A5 decoder's memory": (DEB, ", memlimit=_DECODER_BYTES", "", PACKAGES),
    "A6 form": (DEB, "        if offset != self.size:\n", "        if False:\n", PACKAGES),
    "A6 order of members": (DEB, " or header[1].rstrip(b\" \") != name.encode()", "", PACKAGES),
    "A6 format": (DEB, "if size != len(_FORMAT) or os.pread(source, size, offset) != _FORMAT:", "if False:", PACKAGES),
    "A6 control fields once": (DEB, " or found[1].lower() in fields:", ":", PACKAGES),
    "A6 nothing behind the stream": (DEB, "if self._xz.unused_data or self._offset != self._end:", "if False:", PACKAGES),
    "A6 set-id": (DEB, "if member.mode & (stat.S_ISUID | stat.S_ISGID):", "if False:", PACKAGES),
    "A6 kinds": (DEB, "if member.type not in (tarfile.REGTYPE,", "if False and member.type not in (tarfile.REGTYPE,", PACKAGES),
    "A5 holes": (DEB, 'if getattr(member, "sparse", None) is not None:', "if False:", PACKAGES),
    "A6 twice": (DEB, "    if name in found.digests:\n", "    if False:\n", PACKAGES),
    "A6 names": (DEB, "        parts_of(short)\n", "        pass\n", PACKAGES),
    "PG_06 another package": (DEB, 'if deb.control["package"] != PACKAGE:', "if False:", PACKAGES),
    "PG_06 files as listed": (DEB, "    _compare(found.digests, manifest)\n", "", PACKAGES),
    "PG_06 version as listed": (DEB, "if not deb.control[\"version\"].startswith(f\"{manifest.version}-\"):", "if False:", PACKAGES),
    "PG_06 manifest's fields": (MANIFEST, "class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True,", "class Manifest(msgspec.Struct, frozen=True,", TREES),
    "PG_06 manifest's size": (MANIFEST, "if len(data) > MAX_MANIFEST_BYTES:", "if False:", PACKAGES),
    "PG_06 manifest's names": (MANIFEST, "            parts_of(path)\n", "            pass\n", TREES),
    "PG_06 manifest's digests": (MANIFEST, "if not all(_DIGEST.fullmatch(digest) for digest in digests) or not all", "if not all", TREES),
    "PG_06 manifest's units": (MANIFEST, " or not all(map(_UNIT.fullmatch, manifest.units)):", ":", TREES),
    "PG_06 what is run": (MANIFEST, "if manifest.launcher not in manifest.files or MANIFEST in manifest.files:", "if False:", TREES),
    "PG_06 links are looked at": (MANIFEST, "            if entry.is_symlink():\n", "            if False:\n", TREES),
    "PG_06 the unpacked tree": ("hostler.agent.upgrade.unpack", "    if wrong:\n", "    if False:\n", UNPACKED),
    "LC_13 another package is not unpacked": ("hostler.agent.upgrade.unpack", 'if deb.control["package"] != PACKAGE:', "if False:", UNPACKED),
    "A6 unpacked names": ("hostler.agent.oci.unpack", "        parts_of(name)\n        name = self.place(name)\n", "        name = self.place(name)\n", UNPACKED),
    "T7 one form of a key": ("hostler.pki.keys", "if key.public_bytes(_DER, _SPKI) != spki_der:", "if False:", "tests/unit/pki/test_trust.py"),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_of_releases_a_test_fails(name: str) -> None:
    module, text, without, tests = GUARDS[name]
    done = outcome_without(Guard(module, text, without), tests)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
