"""LC-04: what stands in a file's place and has no end is told as drift, and keeps nobody from telling it."""

import os
from pathlib import Path

import pytest

from hostler.agent.upgrade.survey import digest


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "link to a device", "directory"])
def test_LC_04_only_a_plain_file_is_read_to_its_end(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "code.py"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "directory":
        place.mkdir()
    else:
        place.symlink_to("/dev/zero")
    assert digest(place) == ""
