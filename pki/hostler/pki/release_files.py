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


def newest(directory: Path) -> dict[str, bytes]:
    """Role to metadata: the newest root, and what the timestamp names.

    Raises:
        HostlerError: `release_untrusted` for a repository that is incomplete.
    """
    folder = directory / METADATA
    root = read_file(folder / f"{root_versions(directory)[-1]}.root.json")
    timestamp = read_file(folder / TIMESTAMP)
    snapshot = read_file(folder / f"{_version_in(timestamp, 'snapshot.json')}.snapshot.json")
    targets = read_file(folder / f"{_version_in(snapshot, 'targets.json')}.targets.json")
    return {"root": root, "timestamp": timestamp, "snapshot": snapshot, "targets": targets}


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
        raise error("release_untrusted", f"{path} cannot be read: {err.strerror}") from err
    if len(data) > _MOST_BYTES:
        raise error("release_untrusted", f"{path} is larger than {_MOST_BYTES} bytes")
    return data


def _version_in(data: bytes, name: str) -> int:
    try:
        document: Any = msgspec.json.decode(data)
        version = document["signed"]["meta"][name]["version"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError) as err:
        raise error("release_untrusted", f"the metadata names no {name}") from err
    if type(version) is not int:
        raise error("release_untrusted", f"the metadata names no version of {name}")
    return version
