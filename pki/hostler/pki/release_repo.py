"""A release repository on the publisher's disk. Whoever signs has verified first what is there: a repository lies
where others can write, and nothing they put in may come out signed.

A change is made whole in memory and verified as a node would; then the files are written, each whole or not at all,
the timestamp last. Until then nobody sees any of it.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hostler.base.errors import HostlerError, error
from hostler.pki import deb, release_sign
from hostler.pki.keys import PublicKey, Signer
from hostler.pki.keyset import Keyset
from hostler.pki.release_files import METADATA, TARGETS, TIMESTAMP, newest, read_file, root_versions
from hostler.pki.release_sign import Versions
from hostler.pki.release_trust import verify
from hostler.pki.releases import Release, VerifiedReleases, check_release, encode_metadata
from hostler.pki.storage import sync_directory, write_public

_COPY_BYTES = 1024 * 1024
_OLD = re.compile("([1-9][0-9]*)[.](snapshot|targets)[.]json", re.ASCII)
_SCRATCH = re.compile("[.].+[.][0-9]+[.]new", re.ASCII)
_DAY_MS = 86_400_000
_RENEW_MS, _WARN_MS = 183 * _DAY_MS, 60 * _DAY_MS


class Publisher(NamedTuple):
    """Who changes a repository, and by whose leave.

    Attributes:
        keyset: the one in force: its update keys are those that count.
        signers: whatever keys are at hand; each signs what it may.
        now_ms: Unix milliseconds.
        days: how long timestamp and snapshot are to be good.
        tell: is told of each step that takes a while.
    """

    keyset: Keyset
    signers: Sequence[Signer]
    now_ms: int
    days: int = 30
    tell: Callable[[str], None] = lambda _: None


class Facts(NamedTuple):
    """What a publisher says of a package, beside what it says of itself."""

    channels: tuple[str, ...]
    replaces: tuple[str, ...] = ()
    notes: str = ""


def init(directory: Path, by: Publisher, fresh: Sequence[PublicKey] = ()) -> VerifiedReleases:
    """An empty repository.

    Args:
        fresh: keys that only keep it fresh; else the update keys do that too.

    Raises:
        HostlerError: `already_initialised` unless `directory` is absent or empty; `invalid_request` for missing keys.
    """
    if directory.exists() and any(directory.iterdir()):
        raise error("already_initialised", f"{directory} is not empty")
    root = release_sign.make_root(release_sign.keys_for(by.keyset, fresh=fresh), 1, by.now_ms)
    root_data = release_sign.signed_by(root, root, by.signers)
    targets = release_sign.make_targets((), 1, by.now_ms)
    made = release_sign.sign_all(root_data, targets, Versions(), by.signers, by.days, by.now_ms)
    verified = _made(made, {}, by)
    directory.parent.mkdir(parents=True, exist_ok=True)
    scratch = directory.with_name(f".{directory.name}.{os.getpid()}.new")
    try:
        for name in (METADATA, TARGETS):
            (scratch / name).mkdir(parents=True)
        _write(scratch, verified)
        scratch.rename(directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return verified


def add(directory: Path, by: Publisher, package: Path, facts: Facts) -> tuple[Release, VerifiedReleases]:
    """Releases `package`, or changes what is said of it when it is released already.

    Raises:
        HostlerError: `definition_immutable` for another package under the same version and suite; what
            `deb.inspect` and `check_release` raise.
    """
    with _alone(directory), _opened(package) as source:
        before = present(directory, by, lapsed=True)
        by.tell(f"reading {package.name}")
        release = _described(package.name, deb.inspect(source), facts)
        others = [each for each in before.releases if (each.version, each.suite) != (release.version, release.suite)]
        for each in before.releases:
            if each not in others and each.sha256 != release.sha256:
                said = f"{release.version} for {release.suite} is released with other bytes"
                raise error("definition_immutable", said, hint="build it under a new version, or withdraw it first")
            if each in others and each.file == release.file:
                raise error("definition_immutable", f"a file {release.file} is released already")
        after = _changed(before, [*others, release], by)
        by.tell(f"writing {release.file}, {release.size} bytes")
        _copy(source, _place(directory, release), release)
        _write(directory, after)
    return release, after


def withdraw(directory: Path, by: Publisher, version: str, suite: str) -> VerifiedReleases:
    """Offers a release no more. Raises `release_unknown` when there is none."""
    with _alone(directory):
        before = present(directory, by, lapsed=True)
        gone = before.find(version, suite)
        after = _changed(before, [each for each in before.releases if each != gone], by)
        _write(directory, after)
        _place(directory, gone).unlink(missing_ok=True)
    return after


def refresh(directory: Path, by: Publisher) -> VerifiedReleases:
    """The same releases for longer: snapshot and timestamp; root and targets as well when they have less than half
    a year left and their keys are at hand."""
    with _alone(directory):
        before = present(directory, by, lapsed=True)
        root, versions = release_sign.root_of(before.trusted["root"]), Versions(**before.versions)
        root_data, targets = before.trusted["root"], before.trusted["targets"]
        left_ms = release_sign.expires_ms(root_data, targets) - by.now_ms
        at_hand = {signer.public.key_id for signer in by.signers} & set(root.roles["targets"].keyids)
        if left_ms < _RENEW_MS and len(at_hand) >= root.roles["targets"].threshold:
            root.version, root.expires = root.version + 1, release_sign.a_year_from(by.now_ms)
            root_data = release_sign.signed_by(root, root, by.signers)
            again = release_sign.make_targets(before.releases, versions.targets + 1, by.now_ms)
            targets = release_sign.signed_by(again, root, by.signers)
        elif left_ms < _WARN_MS:
            by.tell(f"root and targets expire in {max(0, left_ms) // _DAY_MS} days: refresh with the update keys")
        made = release_sign.sign_all(root_data, targets, versions, by.signers, by.days, by.now_ms)
        after = _made(made, before.trusted, by)
        _write(directory, after)
    return after


def rotate(
    directory: Path, by: Publisher, retiring: Sequence[Signer] = (), fresh: Sequence[PublicKey] = ()
) -> VerifiedReleases:
    """Hands the repository over to the update keys of the keyset, less those that are `retiring`, which sign once
    more.

    Raises:
        HostlerError: `release_untrusted` where the keyset names too few others, or does not vouch for what is there.
    """
    with _alone(directory):
        before = _before_rotation(directory, by)
        old = release_sign.root_of(before.trusted["root"])
        signers = [*by.signers, *retiring]
        gone = [signer.public.key_id for signer in retiring]
        keys = release_sign.keys_for(by.keyset, without=gone, fresh=fresh, before=old)
        version = max(root_versions(directory)[-1], old.version) + 1
        root = release_sign.make_root(keys, version, by.now_ms)
        root_data = release_sign.signed_by(root, root, signers, also=old.roles["root"].keyids)
        versions = Versions(**before.versions)
        targets = release_sign.make_targets(before.releases, versions.targets + 1, by.now_ms)
        made = release_sign.sign_all(root_data, targets, versions, signers, by.days, by.now_ms)
        after = _made(made, before.trusted, by)
        _write(directory, after)
    return after


def present(directory: Path, by: Publisher, *, lapsed: bool = False) -> VerifiedReleases:
    """What the repository offers. `lapsed`: also when it has expired.

    Raises:
        HostlerError: `release_untrusted`, `release_stale`.
    """
    return verify(newest(directory), by.keyset, {}, by.now_ms, lapsed=lapsed)


def _before_rotation(directory: Path, by: Publisher) -> VerifiedReleases:
    """Also where a rotation was cut short after its root was written: it is made again from the root before."""
    found, numbers = newest(directory), root_versions(directory)
    try:
        return verify(found, by.keyset, {}, by.now_ms, lapsed=True)
    except HostlerError:
        if len(numbers) < 2:
            raise
    found["root"] = read_file(directory / METADATA / f"{numbers[-2]}.root.json")
    return verify(found, by.keyset, {}, by.now_ms, lapsed=True)


def check_packages(directory: Path, releases: Sequence[Release]) -> list[tuple[Release, str]]:
    """Releases whose package is not there as it was signed, each with what is wrong."""
    wrong = []
    for release in releases:
        path = _place(directory, release)
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as err:
            wrong.append((release, err.strerror or "cannot be read"))
            continue
        if digest != release.sha256:
            wrong.append((release, "other bytes than were signed"))
    return wrong


def _changed(before: VerifiedReleases, releases: Sequence[Release], by: Publisher) -> VerifiedReleases:
    versions = Versions(**before.versions)
    targets = release_sign.make_targets(releases, versions.targets + 1, by.now_ms)
    made = release_sign.sign_all(before.trusted["root"], targets, versions, by.signers, by.days, by.now_ms)
    return _made(made, before.trusted, by)


def _described(name: str, found: deb.Inspected, facts: Facts) -> Release:
    return check_release(
        Release(
            version=found.manifest.version,
            commit=found.manifest.commit,
            suite=found.manifest.suite,
            file=name,
            size=found.size,
            sha256=found.sha256,
            channels=facts.channels,
            replaces=facts.replaces,
            notes=facts.notes,
        )
    )


def _place(directory: Path, release: Release) -> Path:
    return directory / TARGETS / f"{release.sha256}.{release.file}"


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as err:
        raise error("invalid_request", f"{path} cannot be read: {err.strerror}") from err
    try:
        yield source
    finally:
        os.close(source)


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One change at a time. Raises `busy`."""
    folder = directory / METADATA
    if not folder.is_dir():
        root_versions(directory)  # says that there is no repository
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _sweep(directory)
        yield
    except BlockingIOError as err:
        raise error("busy", f"{directory} is being changed by another process") from err
    finally:
        os.close(lock)


def _sweep(directory: Path) -> None:
    """What a command that was killed left behind; nobody else writes now."""
    for name in (METADATA, TARGETS):
        for path in (directory / name).glob(".*.new"):
            if _SCRATCH.fullmatch(path.name):
                path.unlink(missing_ok=True)


def _copy(source: int, target: Path, release: Release) -> None:
    """Whole or not at all, and the very bytes that were inspected."""
    scratch = target.with_name(f".{target.name}.{os.getpid()}.new")
    digest, offset = hashlib.sha256(), 0
    try:
        with scratch.open("wb") as file:
            while data := os.pread(source, _COPY_BYTES, offset):
                digest.update(data)
                file.write(data)
                offset += len(data)
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != release.sha256:
            raise error("digest_mismatch", f"{release.file} was changed while it was read")
        scratch.replace(target)
        sync_directory(target.parent)
    finally:
        scratch.unlink(missing_ok=True)


def _made(metadata: Mapping[str, bytes], before: Mapping[str, bytes], by: Publisher) -> VerifiedReleases:
    """As a node would see it, and small enough to reach one."""
    encode_metadata(metadata)
    return verify(metadata, by.keyset, before, by.now_ms)


def _write(directory: Path, after: VerifiedReleases) -> None:
    folder, versions = directory / METADATA, after.versions
    for role in ("root", "targets", "snapshot"):
        write_public(folder / f"{versions[role]}.{role}.json", after.trusted[role])
    write_public(folder / TIMESTAMP, after.trusted["timestamp"])
    for path in folder.iterdir():
        found = _OLD.fullmatch(path.name)
        if found and int(found[1]) < versions[found[2]] - 1:  # the one before may be being fetched
            path.unlink()
