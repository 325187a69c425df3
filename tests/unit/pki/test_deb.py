"""PG-06, A5, A6: packages are read without dpkg, and nothing that a hostile one holds gets further than its reader."""

import lzma
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import need
from hostler.base.digest import canonical_json
from hostler.pki.deb import Deb, Inspected, Limits, inspect, walk
from hostler.pki.manifest import HOME, MANIFEST
from support.refusals import refused
from support.releases import (
    FILES,
    LAUNCHER,
    agent_package,
    ar,
    digest,
    entries,
    file_entry,
    link_entry,
    manifest_of,
    package,
    tar,
)

XZ = lzma.compress(b"")
DATA = tar(entries())
MAIN = "lib/python3.11/site-packages/hostler/agent/main.py"


def opened(tmp_path: Path, data: bytes) -> int:
    path = tmp_path / "a.deb"
    path.write_bytes(data)
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Any]:
    fds: list[int] = []

    def read(data: bytes, limits: Limits | None = None) -> Inspected:
        fds.append(opened(tmp_path, data))
        return inspect(fds[-1], *(() if limits is None else (limits,)))

    yield read
    for fd in fds:
        os.close(fd)


def test_PG_06_a_package_is_what_its_manifest_says(read: Any) -> None:
    data = package()
    found = read(data)
    assert found.manifest == manifest_of()
    assert found.control["version"] == "1.0.0-1~deb12u1"
    assert (found.size, found.sha256) == (len(data), digest(data))


def test_the_reader_agrees_with_dpkg(tmp_path: Path) -> None:
    """A package by dpkg-deb, whatever its settings for xz, reads as `dpkg-deb --fsys-tarfile` shows it."""
    need("dpkg-deb")
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: x\nVersion: 1.2-3\nArchitecture: all\nMaintainer: a <a@b.c>\n"
        "Description: d\n more\n .\n Not: a field\n"
    )
    (tree / "usr/share" / ("long" * 60)).mkdir(parents=True)
    (tree / "usr/share" / ("long" * 60) / "file").write_bytes(os.urandom(300_000))
    (tree / "usr/link").symlink_to("share")
    (tree / "DEBIAN").chmod(0o755)
    names: list[str] = []
    for level in ("0", "6", "9"):
        made = tmp_path / f"{level}.deb"
        command = ["dpkg-deb", "-Zxz", f"-z{level}", "--root-owner-group", "--build", str(tree), str(made)]
        subprocess.run(command, check=True, capture_output=True)
        shown = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(made)], check=True, capture_output=True).stdout
        with made.open("rb") as file:
            deb = Deb(file.fileno())
            stream, whole = deb.data(), b""
            while some := stream.read(10_000):
                whole += some
            walk(deb.data(), 100, lambda member, _: names.append(member.name))
        assert whole == shown
        assert (deb.control["package"], deb.control["version"]) == ("x", "1.2-3")
        assert "not" not in deb.control
        assert "./usr/link" in names


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"!<arch>\n",
        b"not a package" * 100,
        ar([]),
        ar([("debian-binary", b"2.0\n")]),
        ar([("debian-binary", b"3.0\n"), ("control.tar.xz", XZ), ("data.tar.xz", XZ)]),
        ar([("debian-binary", b"2.0\n" + b"x" * 5000), ("control.tar.xz", XZ), ("data.tar.xz", XZ)]),
        ar([("debian-binary", b"2.0\n"), ("data.tar.xz", XZ), ("control.tar.xz", XZ)]),
        ar([("debian-binary", b"2.0\n"), ("control.tar.gz", XZ), ("data.tar.xz", XZ)]),
        ar([("debian-binary", b"2.0\n"), ("_gpgorigin", b"x"), ("control.tar.xz", XZ), ("data.tar.xz", XZ)]),
        ar([("debian-binary/", b"2.0\n"), ("control.tar.xz/", XZ), ("data.tar.xz/", XZ)]),
        package().replace(b"2.0\n", b"3.0\n", 1),
        package().replace(b"control.tar.xz  ", b"control.tar.gz  ", 1),
        package() + b"\n",
        package() + ar([("data.tar.xz", XZ)])[8:],
        package()[:-2],
        package()[:8] + package()[8:].replace(b"`\n", b"`\r", 1),
        package().replace(b"4         `", b"-4        `", 1),
        package().replace(b"4         `", b"99999999  `", 1),
    ],
    ids=range(19),
)
def test_what_is_no_package_in_form(read: Any, data: bytes) -> None:
    assert refused(read, data) in ("unsafe_archive", "bad_response")


@pytest.mark.parametrize(
    "control",
    [
        "Version: 1.0.0-1~deb12u1\n",
        "Package: hostler-agent\n",
        "Package: hostler-agent\nPackage: other\nVersion: 1.0.0-1\n",
        "Package: hostler-agent\nVERSION: 1.0.0-1\nVersion: 1.0.0-1\n",
        "Package: hostler-agent\nVersion: 1.0.0-1\n\nPackage: second\n",
        "no field\n",
    ],
)
def test_control_fields_that_two_readers_could_read_differently(read: Any, control: str) -> None:
    assert refused(read, package(control=control)) == "unsafe_archive"


def test_two_control_files(read: Any) -> None:
    said = b"Package: hostler-agent\nVersion: 1.0.0-1\n"
    twice = lzma.compress(tar([file_entry("./control", said), file_entry("control", said)]))
    data = ar([("debian-binary", b"2.0\n"), ("control.tar.xz", twice), ("data.tar.xz", lzma.compress(DATA))])
    assert refused(read, data) == "unsafe_archive"


@pytest.mark.parametrize(
    "control",
    [
        "Package: hostler-control\nVersion: 1.0.0-1~deb12u1\n",
        "Package: hostler-agent\nVersion: 1.0.1-1~deb12u1\n",
        "Package: hostler-agent\nVersion: 1.0.0\n",
        "Package: hostler-agent\nVersion: 2:1.0.0-1\n",
    ],
)
def test_PG_06_a_package_that_calls_itself_otherwise_than_its_manifest(read: Any, control: str) -> None:
    assert refused(read, package(control=control)) == "release_untrusted"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"plain bytes",
        DATA,
        lzma.compress(DATA)[:-8],
        lzma.compress(DATA)[:200],
        lzma.compress(DATA) + b"x",
        lzma.compress(DATA) + lzma.compress(DATA),
        lzma.compress(DATA) + bytes(4),
        lzma.compress(DATA, format=lzma.FORMAT_ALONE),
        lzma.compress(DATA[:1000]),
        *(lzma.compress(DATA[:end]) for end in range(600, len(DATA) - 10_240, 512)),
        lzma.compress(b"x" * 10_240),
        lzma.compress(DATA).replace(lzma.compress(DATA)[60:61], bytes([lzma.compress(DATA)[60] ^ 255]), 1),
    ],
    ids=range(12 + len(range(600, len(DATA) - 10_240, 512))),
)
def test_data_that_does_not_unpack(read: Any, data: bytes) -> None:
    assert refused(read, package(data=data)) in ("bad_response", "release_untrusted")


def test_A5_bounds(read: Any) -> None:
    good = package()
    assert refused(read, good, Limits(package=len(good) - 1)) == "too_large"
    assert refused(read, good, Limits(entries=3)) == "too_large"
    assert refused(read, good, Limits(control=100)) == "too_large"
    bomb = [*entries(), file_entry("./usr/share/zeros", bytes(8_000_000))]
    assert refused(read, package(bomb), Limits(data=4_000_000)) == "too_large"
    assert read(package(bomb)).manifest.version == "1.0.0"


def test_A5_a_decoder_that_would_take_all_memory(read: Any) -> None:
    huge = lzma.compress(DATA, filters=[{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 512 * 1024 * 1024}])
    assert refused(read, package(data=huge)) == "bad_response"


def test_A5_a_header_without_end(read: Any) -> None:
    long = tar([file_entry("x" * 3_000_000)], format=tarfile.PAX_FORMAT)
    assert refused(read, package(data=lzma.compress(long))) == "unsafe_archive"


def sparse() -> tuple[tarfile.TarInfo, bytes]:
    """A file that is a terabyte long and takes a kilobyte (A5)."""
    headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": f"./{HOME}/x"}
    headers |= {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 40)}
    return file_entry("./x", b"x", pax_headers=headers)


@pytest.mark.parametrize(
    "member",
    [
        file_entry(f"./{HOME}/x", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
        file_entry(f"./{HOME}/x", type=tarfile.BLKTYPE),
        file_entry(f"./{HOME}/x", type=tarfile.FIFOTYPE),
        file_entry(f"./{HOME}/x", type=tarfile.LNKTYPE, linkname="./etc/passwd"),
        file_entry(f"./{HOME}/x", type=tarfile.GNUTYPE_SPARSE),
        file_entry(f"./{HOME}/x", mode=0o4755),
        file_entry(f"./{HOME}/x", mode=0o2755),
        file_entry("/etc/cron.d/x"),
        file_entry("./../x"),
        file_entry(f"./{HOME}/../../../etc/x"),
        file_entry("./a//b"),
        file_entry("./a\x1b"),
        file_entry(f"./{HOME}/bin/hostler-agent", LAUNCHER),
        sparse(),
    ],
    ids=[
        *(
            "device",
            "block",
            "pipe",
            "hard link",
            "sparse",
            "setuid",
            "setgid",
            "absolute",
            "parent",
            "climbs",
            "empty",
        ),
        *("control", "twice", "holes"),
    ],
)
def test_A6_what_a_package_has_no_business_bringing(read: Any, member: Any) -> None:
    assert refused(read, package([*entries(), member])) == "unsafe_archive"


def test_A6_a_second_manifest_is_not_taken_for_the_first(read: Any) -> None:
    manifest = canonical_json(manifest_of())
    both = [*entries(), file_entry(f"./{HOME}/{MANIFEST}", manifest)]
    assert refused(read, package(both)) == "unsafe_archive"


@pytest.mark.parametrize(
    "members",
    [
        entries(files=FILES | {"extra.py": b"x"})[1:],
        [*entries(), file_entry(f"./{HOME}/lib/sitecustomize.py", b"evil")],
        [*entries(), file_entry("./usr/lib/systemd/system/evil.service", b"evil")],
        [*entries(), link_entry(f"./{HOME}/bin/python", "/tmp/python")],
        [each for each in entries() if not each[0].name.endswith("main.py")],
        [each for each in entries() if not each[0].name.endswith(".service")],
        [each for each in entries() if not each[0].name.endswith(MANIFEST)],
        [each for each in entries() if not each[0].issym()] + [link_entry(f"./{HOME}/bin/python3", "/tmp/python3")],
        entries(manifest_of(FILES | {MAIN: b"other"})),
        entries(b"{}"),
        entries(canonical_json(manifest_of()) + b" " * (4 * 1024 * 1024)),
        entries(manifest_of(version="latest")),
        entries(manifest_of(launcher="bin/other")),
        entries(manifest_of(units={"../x.service": "0" * 64})),
        entries(manifest_of(units={"hostler-agent.service": "short"})),
        entries(manifest_of(FILES, links={"../../x": "y"})),
    ],
    ids=range(16),
)
def test_PG_06_a_package_that_is_not_what_was_built(read: Any, members: Any) -> None:
    assert refused(read, package(members)) == "release_untrusted"


def test_the_position_of_the_descriptor_is_left_alone(tmp_path: Path) -> None:
    source = opened(tmp_path, agent_package("2.0.0", suite="trixie"))
    os.lseek(source, 17, os.SEEK_SET)
    assert inspect(source).manifest.suite == "trixie"
    assert os.lseek(source, 0, os.SEEK_CUR) == 17
    os.close(source)


def test_a_check_on_the_way_ends_the_reading(tmp_path: Path) -> None:
    source = opened(tmp_path, package([*entries(), file_entry("./x", os.urandom(500_000))]))
    asked = []

    def check() -> None:
        asked.append(1)
        if len(asked) > 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        walk(Deb(source).data(check), 100, lambda *_: None)
    os.close(source)
