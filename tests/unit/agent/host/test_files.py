"""Paths beneath the root, without links, replaced whole: J1, K7, SK-07."""

import hashlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hostler.agent.host import files as module
from hostler.agent.host.files import TEMPORARY, FileInfo, Files, Stopped, within
from support.refusals import refused


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, ("/srv", "/etc/app.conf"), ("/srv/private",))


def test_a_new_file_has_the_content_mode_and_parents_asked_for(files: Files, tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        info = files.write("/srv/a/b/file", b"hello", mode=0o640, make_parents=True)
    finally:
        os.umask(old)
    assert (tmp_path / "srv/a/b/file").read_bytes() == b"hello"
    assert (tmp_path / "srv/a/b").stat().st_mode & 0o777 == 0o755
    assert (info.mode, info.size_bytes, info.sha256) == ("0640", 5, hashlib.sha256(b"hello").hexdigest())
    assert info == files.digest("/srv/a/b/file")


def test_a_file_is_replaced_and_nothing_is_left_beside_it(files: Files, tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()
    files.write("/srv/file", b"one")
    files.write("/srv/file", b"two", mode=0o600)
    assert [entry.name for entry in (tmp_path / "srv").iterdir()] == ["file"]
    assert files.read("/srv/file", 10) == b"two"


def test_without_its_directory_a_file_is_not_written(files: Files) -> None:
    assert refused(files.write, "/srv/absent/file", b"x") == "file_error"


@pytest.mark.parametrize(
    "path",
    [
        "relative", "", "/", "//srv/x", "/srv//x", "/srv/", "/srv/../etc/x", "/srv/./x", "/srv/x\0", "/srv/a\nb",
        "/srv/" + "x" * 5000, "/etc/passwd", "/srvx/file", "/etc/app.conf.d/x", "/srv/private/x", "/srv/private",
        "/proc/self/root/etc/passwd",
    ],
)  # fmt: skip
def test_a_path_that_is_not_plain_or_not_allowed_is_denied(files: Files, tmp_path: Path, path: str) -> None:
    assert refused(files.write, path, b"x", make_parents=True) == "path_denied"
    assert not any(tmp_path.rglob("x"))


def test_a_prefix_ends_at_a_slash() -> None:
    assert within("/srv", "/srv")
    assert within("/srv/a", "/srv/")
    assert within("/anything", "/")
    assert not within("/srvx", "/srv")


def test_J1_a_target_that_is_a_symbolic_link_is_refused_and_not_followed(files: Files, tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()
    (tmp_path / "victim").write_text("old")
    (tmp_path / "srv/link").symlink_to(tmp_path / "victim")
    assert refused(files.write, "/srv/link", b"new") == "path_denied"
    assert refused(files.read, "/srv/link", 10) == "path_denied"
    assert (tmp_path / "victim").read_text() == "old"


@pytest.mark.parametrize("target", ["../outside", "/", "outside"])
def test_J1_a_directory_that_is_a_symbolic_link_is_refused(files: Files, tmp_path: Path, target: str) -> None:
    (tmp_path / "srv").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "srv/way").symlink_to(target)
    for make in (True, False):
        assert refused(files.write, "/srv/way/file", b"x", make_parents=make) == "path_denied"
    assert not (tmp_path / "outside/file").exists()


def test_J1_the_link_proc_self_root_is_refused() -> None:
    everywhere = Files(Path("/"))
    assert refused(everywhere.read, "/proc/self/root/etc/hostname", 100) == "path_denied"
    assert refused(everywhere.read, f"/proc/{os.getpid()}/root/etc/hostname", 100) == "path_denied"
    assert refused(everywhere.read, f"/proc/{os.getpid()}/cwd/x", 100) == "path_denied"


def test_J1_a_directory_swapped_while_the_file_is_written_is_refused(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "srv/dir").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    fill = module._fill

    def swapped(*args: object) -> None:
        fill(*args)  # type: ignore[arg-type]
        (tmp_path / "srv/dir").rename(tmp_path / "moved")
        (tmp_path / "srv/dir").symlink_to(tmp_path / "outside")

    monkeypatch.setattr(module, "_fill", swapped)
    assert refused(files.write, "/srv/dir/file", b"x") == "path_denied"
    assert not list((tmp_path / "moved").iterdir())
    assert not list((tmp_path / "outside").iterdir())


def test_what_is_no_regular_file_is_neither_read_nor_replaced(files: Files, tmp_path: Path) -> None:
    (tmp_path / "srv/dir").mkdir(parents=True)
    os.mkfifo(tmp_path / "srv/fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "srv/s"))
        for name in ("dir", "fifo", "s"):
            assert refused(files.read, f"/srv/{name}", 10) == "path_denied"
            assert refused(files.write, f"/srv/{name}", b"x") == "path_denied"


def test_a_file_in_the_way_of_a_directory_is_named(files: Files, tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()
    (tmp_path / "srv/file").write_text("x")
    assert refused(files.write, "/srv/file/below", b"x", make_parents=True) == "file_error"


def test_reading_stops_at_the_limit(files: Files, tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()
    (tmp_path / "srv/file").write_bytes(b"12345")
    assert files.read("/srv/file", 5) == b"12345"
    assert refused(files.read, "/srv/file", 4) == "too_large"
    assert refused(files.read, "/srv/absent", 4) == "file_error"


def test_what_does_not_exist_is_said_not_raised(files: Files) -> None:
    assert files.stat("/srv/deep/absent") is None
    assert files.info("/srv/deep/absent") == FileInfo(path="/srv/deep/absent")


def test_hashing_tells_how_far_it_is_and_stops_when_told(files: Files, tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()
    content = os.urandom(3 * 1024 * 1024 + 5)
    (tmp_path / "srv/file").write_bytes(content)
    seen: list[tuple[int, int]] = []
    info = files.digest("/srv/file", progress=lambda done, total: seen.append((done, total)))
    assert info.sha256 == hashlib.sha256(content).hexdigest() == files.sha256("/srv/file")
    assert seen[-1] == (len(content), len(content))
    with pytest.raises(Stopped):
        files.digest("/srv/file", stop=lambda: True)


CRASH = """
import os, sys
from pathlib import Path
from hostler.agent.host.files import Files
point = sys.argv[2]
real = getattr(os, point)
def dies(*args, **named):
    if sys.argv[3] == "after":
        real(*args, **named)
    os.kill(os.getpid(), 9)
setattr(os, point, dies)
Files(Path(sys.argv[1])).write("/file", b"new" * 100_000)
"""


@pytest.mark.parametrize(
    ("point", "when", "expected"),
    [
        ("write", "before", b"old"), ("write", "after", b"old"), ("fsync", "before", b"old"),
        ("rename", "before", b"old"), ("rename", "after", b"new" * 100_000), ("unlink", "before", b"new" * 100_000),
    ],
)  # fmt: skip
def test_K7_a_kill_leaves_the_old_file_or_the_new_one_and_the_next_write_cleans_up(
    tmp_path: Path, point: str, when: str, expected: bytes
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", CRASH, str(tmp_path), point, when], check=False)
    assert done.returncode == -9
    assert (tmp_path / "file").read_bytes() == expected
    Files(tmp_path).write("/file", b"next")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_K7_the_temporary_file_of_a_writer_that_lives_is_left_alone(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        with module._temporary(directory, "file") as (_, temporary):
            Files(tmp_path).write("/file", b"other")
            assert (tmp_path / temporary).exists()
    finally:
        os.close(directory)
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(TEMPORARY)]


def test_a_full_disk_is_disk_full_and_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(module.os, "write", full)
    assert refused(Files(tmp_path).write, "/file", b"new") == "disk_full"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"
