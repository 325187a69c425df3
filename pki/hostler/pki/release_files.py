"""The files of a release repository: which of them are the newest. Reads, verifies nothing."""

import re
from pathlib import Path
from typing import Any

import msgspec

from hostler.base.errors import error

METADATA, TARGETS = "metadata", "targets"
TIMESTAMP = "timestamp.json"
_ROOT = re.compile("([1-9][0-9]{0,15})[.]root[.]json", re.ASCII)
_MOST_BYTES = 512 * 1024
_RESTORE = "put the file back from a copy of the repository; nothing was changed"


def newest(directory: Path) -> dict[str, bytes]:
    """Role to metadata: the newest root, and what the timestamp names.

    Raises:
        HostlerError: `release_untrusted` for a repository that is incomplete.
    """
    folder = directory / METADATA
    places = {"root": folder / f"{root_versions(directory)[-1]}.root.json", "timestamp": folder / TIMESTAMP}
    places["snapshot"] = folder / f"{_named(places['timestamp'], 'timestamp', 'snapshot')}.snapshot.json"
    places["targets"] = folder / f"{_named(places['snapshot'], 'snapshot', 'targets')}.targets.json"
    for role, path in places.items():
        _signed(path, role)
    return {role: read_file(path) for role, path in places.items()}


def root_versions(directory: Path) -> list[int]:
    """Of the roots that are there, the lowest first. Raises `release_untrusted` when there is none."""
    names = (directory / METADATA).iterdir() if (directory / METADATA).is_dir() else ()
    found = [_ROOT.fullmatch(path.name) for path in names]
    if not any(found):
        raise error(
            "release_untrusted",
            f"{directory} holds no release repository",
            hint=f"make one with: hostler releases init {directory}",
        )
    return sorted(int(match[1]) for match in found if match)


def read_file(path: Path) -> bytes:
    """Raises `release_untrusted` when the file is absent or larger than any of ours."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as err:
        raise error("release_untrusted", f"{path} cannot be read: {err.strerror}", hint=_RESTORE) from err
    if len(data) > _MOST_BYTES:
        raise error("release_untrusted", f"{path} is larger than {_MOST_BYTES} bytes", hint=_RESTORE)
    return data


def _signed(path: Path, role: str) -> dict[str, Any]:
    """What the file says under its signatures, which nobody has looked at yet."""
    data = read_file(path)
    try:
        signed: Any = msgspec.json.decode(data)["signed"]
        if signed["_type"] == role:
            return dict(signed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        pass
    raise error("release_untrusted", f"{path} holds no {role} metadata", hint=_RESTORE)


def _named(path: Path, role: str, below: str) -> int:
    """The version of the role below that the file names."""
    try:
        version: Any = _signed(path, role)["meta"][f"{below}.json"]["version"]
    except (KeyError, TypeError):
        version = None
    if type(version) is not int:
        raise error("release_untrusted", f"{path} names no version of the {below} metadata", hint=_RESTORE)
    return version
