"""LC-13, PG-06, A6: a package becomes a directory of its own, every file of it compared, and not a byte beside it."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.upgrade.unpack import unpack
from hostler.base.errors import HostlerError, error
from hostler.pki.manifest import HOME, SYSTEM_PYTHON, differences
from support.releases import (
    FILES,
    UNIT,
    agent_package,
    entries,
    file_entry,
    link_entry,
    manifest_of,
    package,
)


def into(tmp_path: Path, data: bytes, check: Callable[[], None] = lambda: None) -> Path:
    made = tmp_path / "a.deb"
    made.write_bytes(data)
    target = tmp_path / "version"
    target.mkdir()
    source, opened = os.open(made, os.O_RDONLY), os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    try:
        unpack(source, opened, check)
    finally:
        os.close(source)
        os.close(opened)
    return target


def refused(tmp_path: Path, data: bytes) -> str:
    with pytest.raises(HostlerError) as caught:
        into(tmp_path, data)
    assert {path.name for path in tmp_path.iterdir()} == {"a.deb", "version"}, "something was written beside it"
    return caught.value.code


def test_LC_13_a_version_of_its_own(tmp_path: Path) -> None:
    there = into(tmp_path, agent_package("1.2.3"))
    assert {name: (there / name).read_bytes() for name in FILES} == FILES
    assert (there / "units/hostler-agent.service").read_bytes() == UNIT
    assert str((there / "bin/python3").readlink()) == SYSTEM_PYTHON
    assert sorted(path.name for path in there.iterdir()) == ["bin", "lib", "manifest.json", "units"]
    assert differences(there, manifest_of(version="1.2.3"), units=there / "units") == ()
    assert stat.S_IMODE((there / "bin").stat().st_mode) & 0o022 == 0
    if sys.executable and Path(SYSTEM_PYTHON).exists():
        argv = [str(there / "bin/python3"), "-I", str(there / "bin/hostler-agent")]
        assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "here\n"


@pytest.mark.parametrize(
    "member",
    [
        file_entry(f"./{HOME}/x", mode=0o4755),
        file_entry(f"./{HOME}/../x", b"x"),
        file_entry(f"./{HOME}/../../../../x", b"x"),
        file_entry(f"/{HOME}/x", b"x"),
        link_entry(f"./{HOME}/out", "../../../../../etc"),
        link_entry(f"./{HOME}/out", "../x"),
        link_entry(f"./{HOME}/out", "/etc"),
        link_entry("./usr/lib/systemd/system/x.service", "../../x"),
        file_entry(f"./{HOME}/BIN/hostler-agent", b"x"),
        file_entry(f"./{HOME}/bin/hostler-agent/x", b"x"),
        file_entry(f"./{HOME}/.hostler-x", b"x"),
    ],
    ids=range(11),
)
def test_A6_what_leads_out_or_pretends_is_refused(tmp_path: Path, member: Any) -> None:
    assert refused(tmp_path, package([*entries(), member])) == "unsafe_archive"


def test_A6_a_link_out_of_the_version_cannot_be_written_through(tmp_path: Path) -> None:
    """The name of the link is inside, where it leads is not: refused before anything could pass through it."""
    through = [link_entry(f"./{HOME}/lib/a", "../.."), file_entry(f"./{HOME}/lib/a/x", b"x")]
    assert refused(tmp_path, package([*entries(), *through])) == "unsafe_archive"


@pytest.mark.parametrize(
    "members",
    [
        [*entries(), file_entry(f"./{HOME}/extra.py", b"x")],
        [*entries(), file_entry("./usr/lib/systemd/system/extra.service", b"x")],
        [each for each in entries() if not each[0].name.endswith("main.py")],
        [each for each in entries() if not each[0].name.endswith(".service")],
        entries(manifest_of(FILES | {"bin/hostler-agent": b"other"})),
        entries(b"{}"),
    ],
    ids=range(6),
)
def test_PG_06_other_files_than_the_manifest_s(tmp_path: Path, members: Any) -> None:
    assert refused(tmp_path, package(members)) == "release_untrusted"


def test_a_package_without_a_manifest(tmp_path: Path) -> None:
    without = [each for each in entries() if not each[0].name.endswith("manifest.json")]
    assert refused(tmp_path, package(without)) == "release_untrusted"


def test_another_package(tmp_path: Path) -> None:
    other = package(control="Package: hostler-control\nVersion: 1.0.0-1\n")
    assert refused(tmp_path, other) == "release_untrusted"


def test_it_can_be_ended_on_the_way(tmp_path: Path) -> None:
    def check() -> None:
        raise error("canceled", "the step was cancelled")

    with pytest.raises(HostlerError, match="was cancelled"):
        into(tmp_path, package(), check)
