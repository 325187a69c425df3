"""A directory as a bundle: the same bytes whoever packs it, and nothing in it that a node would refuse (JB-08)."""

import os
import socket
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.agent.oci.unpack import PLAIN, Budget, Unpacker
from hostler.base.errors import HostlerError
from hostler.cli.bundle_ignore import Ignore
from hostler.cli.bundle_pack import Packed, pack


def names(packed: Packed) -> list[str]:
    with packed.file, tarfile.open(fileobj=packed.file) as archive:
        return archive.getnames()


def digest(folder: Path) -> str:
    packed = pack(folder)
    packed.file.close()
    return packed.sha256


def tree(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def failure(folder: Path, **more: int) -> HostlerError:
    with pytest.raises(HostlerError) as failed:
        pack(folder, **more)
    return failed.value


def test_JB_08_the_same_files_are_the_same_bytes_whenever_and_by_whomever(tmp_path: Path) -> None:
    one, two = tree(tmp_path / "one", b="2", a="1", d__c="3"), tree(tmp_path / "two", d__c="3", a="1", b="2")
    os.utime(two / "a", (1, 1))
    (two / "b").chmod(0o600)
    (two / "d").chmod(0o700)
    assert digest(one) == digest(two)
    (two / "b").chmod(0o755)
    assert digest(one) != digest(two)
    (two / "b").chmod(0o644)
    (two / "a").write_text("2")
    assert digest(one) != digest(two)


def test_owners_times_and_set_id_bits_do_not_travel(tmp_path: Path) -> None:
    tree(tmp_path, run="x")
    (tmp_path / "run").chmod(0o6755)
    packed = pack(tmp_path)
    with packed.file, tarfile.open(fileobj=packed.file) as archive:
        (member,) = archive.getmembers()
    assert (member.mode, member.mtime, member.uid, member.gid, member.uname) == (0o755, 0, 0, 0, "")


def test_what_never_belongs_there_stays_out(tmp_path: Path) -> None:
    tree(tmp_path, a="1", p__q="")
    tree(tmp_path / ".git", HEAD="ref")
    tree(tmp_path / "env", **{"pyvenv.cfg": "home = /usr"})
    tree(tmp_path / "p" / "__pycache__", x="")
    (tmp_path / ".venv").symlink_to("/nowhere")
    assert names(pack(tmp_path)) == ["a", "p", "p/q"]


def test_hostlerignore_leaves_out_what_it_names(tmp_path: Path) -> None:
    tree(tmp_path, a="1", data__big="x", keep__data__small="y", **{"m.log": "", "keep.log": ""})
    (tmp_path / ".hostlerignore").write_text("# comment\n/data/\n*.log\n!keep.log\n")
    packed = [".hostlerignore", "a", "keep", "keep.log", "keep/data", "keep/data/small"]
    assert names(pack(tmp_path)) == packed


@pytest.mark.parametrize(
    ("pattern", "path", "left_out"),
    [
        ("*.pyc", "a/b/c.pyc", True),
        ("*.pyc", "a/b/c.py", False),
        ("build", "x/build", True),
        ("/build", "x/build", False),
        ("a/b", "x/a/b", False),
        ("a/b", "a/b", True),
        ("**/b", "a/x/b", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**", "a/x/y", True),
        ("a/**", "a", False),
        ("a*/c", "ab/x/c", False),
        ("?.txt", "a.txt", True),
        ("?.txt", "ab.txt", False),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("[a-c].txt", "b.txt", True),
        ("\\#x", "#x", True),
        ("#x", "#x", False),
        ("x ", "x", True),
        ("a.b", "axb", False),
        ("(", "(", True),
        ("[", "[", True),
        ("folder/", "folder", False),
    ],
)
def test_patterns_are_those_of_gitignore(pattern: str, path: str, left_out: bool) -> None:
    assert Ignore([pattern]).leaves_out(path, folder=False) is left_out


def test_too_much_is_said_with_what_is_biggest(tmp_path: Path) -> None:
    tree(tmp_path, small="x", data__one="x" * 3000, data__two="x" * 3000, **{"model.bin": "x" * 5000})
    failed = failure(tmp_path, most_bytes=10_000)
    assert failed.code == "too_large"
    assert "biggest: data/ 5.9 KiB, model.bin 4.9 KiB, small 1 B" in failed.message
    assert ".hostlerignore" in failed.hint


@pytest.mark.parametrize("target", ["/etc/passwd", "../x", "a/../../x"])
def test_a_link_that_leads_out_is_named(tmp_path: Path, target: str) -> None:
    (tmp_path / "bad-link").symlink_to(target)
    failed = failure(tmp_path)
    assert failed.code == "bundle_content"
    assert "bad-link" in failed.message


def test_what_a_node_would_refuse_is_refused_here_with_its_name(tmp_path: Path) -> None:
    for name in ("new\nline", ".hostler-placed", "back\\slash"):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / name).touch()
        assert failure(folder).code == "bundle_content", name
    twins = tree(tmp_path / "twins", readme="", README="")
    assert "differs from" in failure(twins).message
    listening = tmp_path / "sock"
    listening.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(listening / "s"))
        assert "is no file, directory or link" in failure(listening).message


def test_a_directory_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    assert failure(tmp_path / "none").code == "file_error"
    tree(tmp_path, **{".hostlerignore": ""})
    (tmp_path / ".hostlerignore").write_bytes(b"\xff\xfe")
    assert failure(tmp_path).code == "file_error"


PART = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=12)
FILES = st.dictionaries(st.lists(PART, min_size=1, max_size=3).map("/".join), st.binary(max_size=2000), max_size=8)


@settings(max_examples=60, deadline=None)
@given(FILES)
def test_A6_whatever_is_packed_is_taken_by_a_node_as_it_was(files: dict[str, bytes]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        folder, out = Path(place) / "in", Path(place) / "out"
        folder.mkdir()
        out.mkdir()
        for name, data in files.items():
            try:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)
            except OSError:
                continue  # ".", "..", a file where a folder stands
        try:
            packed = pack(folder)
        except HostlerError as err:
            assert err.code == "bundle_content"  # noqa: PT017 - one of two good ends
            return
        source = Path(place) / "tar"
        with packed.file:
            source.write_bytes(packed.file.read())
        root, archive = os.open(out, os.O_RDONLY | os.O_DIRECTORY), os.open(source, os.O_RDONLY)
        try:
            Unpacker(root, Budget(1 << 30, 1000, lambda: None), whiteouts=False).layer(archive, PLAIN[0])
        finally:
            os.close(root)
            os.close(archive)
        there = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}
        kept = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        assert there == kept
