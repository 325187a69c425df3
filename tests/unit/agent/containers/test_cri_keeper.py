"""K2, K3: what the keeper of containers sees, notes and answers, and how the agent finds it."""

import os
from pathlib import Path

import pytest

from hostler.agent.containers import containerd
from hostler.agent.containers.containerd import Containerd
from hostler.agent.containers.cri_keeper import has_begun
from hostler.agent.containers.cri_logs import ends_with
from hostler.agent.containers.cri_noted import Noted, Notes
from hostler.base.errors import HostlerError
from hostler.cri.v1 import api_pb2 as cri


@pytest.mark.parametrize(
    ("words", "begun"),
    [
        (b"runc\0init\0", False),
        (b"/usr/sbin/runc\0init\0", False),
        (b"", False),  # it has ended
        (b"/bin/sh\0-c\0runc init\0", True),
        (b"runc\0list\0", True),
        (b"init\0", True),
    ],
)
def test_K3_a_program_has_begun_once_runc_does_not_stand_in_its_place(
    tmp_path: Path, words: bytes, begun: bool
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_bytes(words)
    (tmp_path / "init.pid").write_text("7")
    assert has_begun(tmp_path, tmp_path) is begun


def test_K3_nothing_has_begun_where_there_is_no_process(tmp_path: Path) -> None:
    assert not has_begun(tmp_path, tmp_path)
    (tmp_path / "init.pid").write_text("7")
    assert not has_begun(tmp_path, tmp_path)


def test_K3_notes_are_added_to_and_forgotten(tmp_path: Path) -> None:
    notes = Notes(tmp_path)
    assert notes.of("c") == Noted()
    notes.add("c", cut=True, begun=True)
    notes.add("c", ended_at_ms=5, exit_code=3)
    assert Notes(tmp_path).of("c") == Noted(cut=True, begun=True, ended_at_ms=5, exit_code=3)
    notes.add("old", cut=True)
    os.utime(tmp_path / "old.json", (1, 1))
    notes.forget_old(int((tmp_path / "c.json").stat().st_mtime * 1000))
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]
    notes.forget("c")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../c", "a/b", "", ".new"])
def test_K3_a_note_is_a_file_of_its_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / "c.json").write_text('{"begun":true}')
    (tmp_path / "notes").mkdir()
    notes = Notes(tmp_path / "notes")
    assert notes.of(name) == Noted()
    notes.forget(name)
    assert (tmp_path / "c.json").exists()


async def test_K3_what_had_begun_when_containerd_was_killed_is_not_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Containerd(tmp_path / "none.sock", tmp_path, tmp_path)
    (tmp_path / "keeper").mkdir()
    Notes(tmp_path / "keeper").add("c", cut=True, begun=True)

    async def look(container: str, *, verbose: bool = True) -> tuple[cri.ContainerStatus, containerd._Info]:
        return cri.ContainerStatus(id=container, state=cri.CONTAINER_CREATED), containerd._Info()

    monkeypatch.setattr(runtime, "_look", look)
    with pytest.raises(HostlerError) as lost:
        await runtime.start("c")
    assert lost.value.code == "container_lost"


def test_K3_runc_s_last_words_are_known_by_the_last_line_alone(tmp_path: Path) -> None:
    log, said = tmp_path / "c.log", b"2026-01-02T03:04:05Z stderr F write exec fifo /proc/self/fd/5: broken pipe\n"
    assert not ends_with(log, b"write exec fifo")
    log.write_bytes(b"x" * 5000 + b"\n" + said)
    assert ends_with(log, b"write exec fifo")
    log.write_bytes(said + b"2026-01-02T03:04:06Z stdout F done\n")
    assert not ends_with(log, b"write exec fifo")
