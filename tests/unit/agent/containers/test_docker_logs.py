"""OB-07: the Engine's stream, in any pieces, from any cursor on without gap or repeat."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.agent.containers import docker_logs
from hostler.agent.containers.docker_logs import Frames, Lines
from hostler.agent.containers.runtime import Line
from hostler.base.errors import HostlerError


def frame(stream: str, second: int, text: str) -> bytes:
    record = f"2026-11-22T10:00:{second:02d}.000000000Z {text}".encode()
    return bytes([2 if stream == "stderr" else 1, 0, 0, 0]) + len(record).to_bytes(4) + record


def told(data: bytes, cursor: str = "") -> list[Line]:
    lines, found = Lines(cursor), []
    for stream, record in Frames().feed(data):
        line = lines.take(stream, record)
        found += [line] if line is not None else []
    return found + lines.finish()


def texts(found: list[Line]) -> list[tuple[str, str, bool]]:
    return [(line.stream, line.text, line.whole) for line in found]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_frames_come_in_any_pieces(size: int) -> None:
    data, frames = frame("stdout", 1, "one\n") + frame("stderr", 2, "two\n"), Frames()
    found = [each for start in range(0, len(data), size) for each in frames.feed(data[start : start + size])]
    assert [(stream, record[-4:]) for stream, record in found] == [("stdout", b"one\n"), ("stderr", b"two\n")]


def test_parts_of_a_line_are_joined_by_stream() -> None:
    data = frame("stdout", 1, "a") + frame("stderr", 1, "between\n") + frame("stdout", 1, "b\n")
    found = told(data)
    assert texts(found) == [("stderr", "between", True), ("stdout", "ab", True)]
    assert texts(told(data, found[0].cursor)) == [("stdout", "ab", True)]


def test_records_of_one_moment_are_counted() -> None:
    data = b"".join(frame("stdout", 5, f"{n}\n") for n in range(4))
    found = told(data)
    for cut in range(4):
        assert texts(told(data, found[cut].cursor)) == texts(found)[cut + 1 :]


def test_a_last_line_without_newline_is_kept() -> None:
    assert texts(told(frame("stdout", 1, "no end"))) == [("stdout", "no end", False)]


def test_the_engine_is_asked_from_a_little_before() -> None:
    assert Lines().since == ""
    assert Lines(told(frame("stdout", 9, "x\n"))[0].cursor).since == "1795341607.000000000"


def test_a_line_beyond_all_measure_is_told_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_logs, "MAX_LINE", 6)
    data = b"".join(frame("stdout", 1, "abcd") for _ in range(3)) + frame("stdout", 1, "\n")
    found = told(data)
    assert texts(found) == [("stdout", "abcdabcd", False), ("stdout", "abcd", True)]
    assert texts(told(data, found[0].cursor)) == texts(found)[1:]


@pytest.mark.parametrize("cursor", ["x", "a+1 b+2", "2026-11-22T10:00:00.0Z+1", "+1 +x", "2026-11-22T10:00:00Z+1 +0"])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(HostlerError) as refused:
        Lines(cursor)
    assert refused.value.code == "invalid_cursor"


PIECES = st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.integers(0, 2), st.sampled_from(["a", "b\n"])))


@settings(max_examples=100, deadline=None)
@given(PIECES, st.data())
def test_from_every_cursor_the_rest_is_exactly_the_rest(
    written: list[tuple[str, int, str]], data: st.DataObject
) -> None:
    """Moments of a stream never go back, and often stand still."""
    moments, said = {"stdout": 0, "stderr": 0}, b""
    for stream, step, text in written:
        moments[stream] = min(59, moments[stream] + step)
        said += frame(stream, moments[stream], text)
    found = told(said)
    if found:
        cut = data.draw(st.integers(0, len(found) - 1))
        assert texts(told(said, found[cut].cursor)) == texts(found)[cut + 1 :]
