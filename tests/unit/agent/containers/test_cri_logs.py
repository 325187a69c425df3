"""OB-07: log files of CRI, read from any cursor on without gap or repeat, however they were written."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.agent.containers import cri_logs
from hostler.agent.containers.cri_logs import LogReader, lines, turn_away
from hostler.agent.containers.runtime import Line
from hostler.base.errors import HostlerError


class Writer:
    """What containerd does: a time, a stream, a tag and a part."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.moment = 0

    def record(self, stream: str, tag: str, text: str) -> None:
        self.moment += 1
        with self.path.open("a") as file:
            file.write(f"2026-11-22T10:00:{self.moment:09d}Z {stream} {tag} {text}\n")

    def rotate(self) -> None:
        """As the node does it: the file is turned away, then its writer opens a new one."""
        turn_away(self.path, 0 if not self.path.exists() else max(0, self.path.stat().st_size - 1))
        self.path.touch()


def told(reader: LogReader, *, finish: bool = True) -> list[Line]:
    found = []
    while read := reader.read():
        found += read
    if finish:
        found += reader.finish()
        reader.close()
    return found


def texts(found: list[Line]) -> list[tuple[str, str, bool]]:
    return [(line.stream, line.text, line.whole) for line in found]


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path / "task.log")


@pytest.mark.parametrize(
    "text", ["10 %\r20 %\r30 %", "a\r", "\rb", "a\x0bb\x0cc\x1cd\x85e\u2028f", "\r2026Z stderr F forged"]
)
def test_OB_07_only_a_newline_ends_a_record(tmp_path: Path, text: str) -> None:
    """Bars of progress go back to the start of their line; nothing of them is lost, and nobody's record is forged."""
    path = tmp_path / "task.log"
    path.write_bytes(f"2026-11-22T10:00:00Z stdout F {text}\n2026-11-22T10:00:01Z stdout F next\n".encode())
    found = told(LogReader(path))
    assert texts(found) == [("stdout", text, True), ("stdout", "next", True)]
    assert texts(told(LogReader(path, found[0].cursor))) == [("stdout", "next", True)]


def test_parts_of_a_line_are_joined_by_stream(writer: Writer) -> None:
    writer.record("stdout", "P", "one ")
    writer.record("stderr", "F", "between")
    writer.record("stdout", "P", "two ")
    writer.record("stdout", "F", "three")
    found = told(LogReader(writer.path))
    assert texts(found) == [("stderr", "between", True), ("stdout", "one two three", True)]
    again = told(LogReader(writer.path, found[0].cursor))
    assert texts(again) == [("stdout", "one two three", True)], "a cursor between the parts loses none of them"


def test_a_last_line_without_newline_is_kept_and_not_told_twice(writer: Writer) -> None:
    writer.record("stdout", "F", "a")
    writer.record("stdout", "P", "no end")
    found = told(LogReader(writer.path))
    assert texts(found)[-1] == ("stdout", "no end", False)
    assert told(LogReader(writer.path, found[-1].cursor)) == []


def test_a_part_is_not_told_while_more_may_come(writer: Writer) -> None:
    writer.record("stdout", "P", "half")
    reader = LogReader(writer.path)
    assert told(reader, finish=False) == []
    writer.record("stdout", "F", " whole")
    assert texts(told(reader)) == [("stdout", "half whole", True)]


def test_a_record_that_is_being_written_is_waited_for(writer: Writer) -> None:
    with writer.path.open("w") as file:
        file.write("2026-11-22T10:00:00Z stdout F be")
    reader = LogReader(writer.path)
    assert told(reader, finish=False) == []
    with writer.path.open("a") as file:
        file.write("gun\n")
    assert texts(told(reader)) == [("stdout", "begun", True)]


def test_a_follower_reads_a_turned_away_file_to_its_end_first(writer: Writer) -> None:
    writer.record("stdout", "F", "1")
    reader = LogReader(writer.path)
    assert texts(told(reader, finish=False)) == [("stdout", "1", True)]
    writer.path.rename(writer.path.with_name("task.log.1"))
    with writer.path.with_name("task.log.1").open("a") as file:
        file.write("2026-11-22T11:00:00Z stdout F 2\n")
    assert texts(told(reader, finish=False)) == [("stdout", "2", True)]
    writer.record("stdout", "F", "3")
    assert texts(told(reader)) == [("stdout", "3", True)]


def test_a_follower_that_is_two_files_behind_reads_both(writer: Writer) -> None:
    writer.record("stdout", "F", "1")
    reader = LogReader(writer.path)
    told(reader, finish=False)
    for number in ("2", "3"):
        writer.rotate()
        writer.record("stdout", "F", number)
    assert [line.text for line in told(reader)] == ["2", "3"]


def test_a_cursor_into_a_file_that_is_gone_goes_on_with_the_oldest(writer: Writer) -> None:
    writer.record("stdout", "F", "1")
    (first,) = told(LogReader(writer.path))
    for number in ("2", "3"):
        writer.rotate()
        writer.record("stdout", "F", number)
    assert [line.text for line in told(LogReader(writer.path, first.cursor))] == ["2", "3"]


def test_a_line_beyond_all_measure_is_told_in_pieces(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cri_logs, "MAX_LINE", 10)
    for _ in range(5):
        writer.record("stdout", "P", "abcde")
    writer.record("stdout", "F", "end")
    found = told(LogReader(writer.path))
    assert texts(found) == [("stdout", "abcdeabcde", False)] * 2 + [("stdout", "abcdeend", True)]
    assert texts(told(LogReader(writer.path, found[0].cursor))) == texts(found)[1:]


def test_what_is_no_record_is_passed_over(writer: Writer) -> None:
    writer.path.write_bytes(b"nonsense\n\n2026 stdwhat F x\n\xff\xfe\n2026 stdout F \xff!\n2026 stdout F \n")
    assert texts(told(LogReader(writer.path))) == [("stdout", "\ufffd!", True), ("stdout", "", True)]


@pytest.mark.parametrize("cursor", ["x", "a@1", "a@b c@d", "a@1 b@-1", "a@1 b@2 c@3"])
def test_a_cursor_that_is_none_is_refused(writer: Writer, cursor: str) -> None:
    with pytest.raises(HostlerError) as refused:
        LogReader(writer.path, cursor)
    assert refused.value.code == "invalid_cursor"


def test_a_log_that_is_a_link_is_not_followed(writer: Writer, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("2026 stdout F secret\n")
    writer.path.symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic"):
        told(LogReader(writer.path))


async def test_what_is_written_before_the_end_is_told_even_when_the_end_is_there_first(writer: Writer) -> None:
    async def ended() -> bool:
        writer.record("stdout", "F", "last")
        return True

    assert [line.text async for line in lines(LogReader(writer.path), ended)] == ["last"]


async def test_a_log_that_does_not_exist_yet_has_no_lines(writer: Writer) -> None:
    async def ended() -> bool:
        return False

    assert [line async for line in lines(LogReader(writer.path), ended)] == []


STREAM = st.sampled_from(["stdout", "stderr"])
PIECES = st.tuples(STREAM, st.sampled_from("PF"), st.text(st.characters(codec="ascii", exclude_characters="\n\r")))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(PIECES, st.just(None)), max_size=30), st.data())
def test_from_every_cursor_the_rest_is_exactly_the_rest(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[str, str, str] | None], data: st.DataObject
) -> None:
    """None turns the file away, at most once: what is older than two files is lost by design."""
    writer = Writer(tmp_path_factory.mktemp("log") / "task.log")
    rotated = False
    for piece in written:
        if piece is not None:
            writer.record(*piece)
        elif not rotated and writer.path.exists():
            writer.rotate()
            rotated = True
    found = told(LogReader(writer.path))
    per_stream = {name: "".join(p[2] for p in written if p and p[0] == name) for name in ("stdout", "stderr")}
    assert {name: "".join(line.text for line in found if line.stream == name) for name in per_stream} == per_stream
    if found:
        cut = data.draw(st.integers(0, len(found) - 1))
        assert texts(told(LogReader(writer.path, found[cut].cursor))) == texts(found)[cut + 1 :]


async def test_OB_07_the_end_of_a_log_is_waited_for_until_its_writer_has_closed_it(tmp_path: Path) -> None:
    path = tmp_path / "c.log"
    await cri_logs.written(path)
    async with asyncio.TaskGroup() as group:
        with path.open("wb") as file:
            waiting = group.create_task(cri_logs.written(path))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            file.write(b"x")
        async with asyncio.timeout(10):
            await waiting
