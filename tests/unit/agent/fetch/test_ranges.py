"""A1, A2, AR-04: what may be added to a partial file, and what may not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agent.fetch.ranges import Accept, Answer, Held, StartOver, Validator, judge

V1 = Validator('"v1"', "Fri, 20 Nov 2026 08:00:00 GMT")
HELD = Held(offset=400, total=1000, validator=V1)


def part(**changes: str) -> Answer:
    headers = {
        "content-range": "bytes 400-999/1000",
        "content-length": "600",
        "etag": V1.etag,
        "last-modified": V1.last_modified,
    }
    headers |= {name.replace("_", "-"): value for name, value in changes.items()}
    return Answer(206, {name: value for name, value in headers.items() if value})


def test_AR_04_an_exact_part_of_the_same_version_is_accepted() -> None:
    assert judge(part(), HELD) == Accept(400, 600, 1000, V1)


def test_a_part_without_a_length_is_accepted_by_its_range() -> None:
    assert judge(part(content_length=""), HELD).length == 600


def test_an_unknown_total_is_accepted_when_the_total_is_known_from_before() -> None:
    assert judge(part(content_range="bytes 400-999/*"), HELD).total == 1000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bytes ",
        "bytes 5",
        "bytes abc-def/deadbeef",
        "5-6/2",
        "400-999/1000",
        "bytes 5-6/20 7-8/20",
        "bytes 400-999/1000, bytes 400-999/1000",
        "bytes 100-200-300/400",
        "bytes 10000-20000/30000",
        "bytes 999-400/1000",
        "bytes abc-999/1000",
        "abcde 400-999/1000",
        "bytes 400-9o9/1000",
        "bytes 399-999/1000",
        "bytes 401-999/1000",
        "bytes 0-999/1000",
        "bytes 400-998/1000",
        "bytes 400-1000/1000",
        "bytes 400-998/999",
        "bytes 400-999",
        "bytes */1000",
        "bytes=400-999/1000",
        "bytes 400 - 999 / 1000",
        "bytes 400-999/1000\n",
        "bytes -400-999/1000",
        "bytes +400-999/1000",
        "bytes ４00-999/1000",
        "items 400-999/1000",
        "bytes 400-999/99999999999999999999999999",
    ],
)
def test_A2_a_wrong_content_range_is_never_spliced(text: str) -> None:
    with pytest.raises(StartOver) as caught:
        judge(part(content_range=text, content_length=""), HELD)
    assert caught.value.reason.code == "bad_range"
    assert caught.value.blame


@given(
    start=st.integers(0, 1200),
    last=st.integers(0, 1200),
    total=st.integers(0, 1200),
    held=st.integers(1, 999),
)
def test_A2_only_the_one_exact_range_is_accepted(start: int, last: int, total: int, held: int) -> None:
    answer = part(content_range=f"bytes {start}-{last}/{total}", content_length="")
    try:
        accept = judge(answer, Held(held, 1000, V1))
    except StartOver:
        assert (start, last, total) != (held, 999, 1000)
    else:
        assert (start, last, total) == (held, 999, 1000)
        assert accept.start == held


def test_A2_a_length_that_contradicts_the_range_is_refused() -> None:
    with pytest.raises(StartOver):
        judge(part(content_length="599"), HELD)


def test_A2_several_ranges_in_one_body_are_refused() -> None:
    with pytest.raises(StartOver):
        judge(part(content_type="multipart/byteranges; boundary=x"), HELD)


def test_A2_an_unasked_part_is_refused() -> None:
    with pytest.raises(StartOver) as caught:
        judge(part(content_range="bytes 0-999/1000", content_length="1000"), Held())
    assert caught.value.reason.code == "bad_range"
    assert caught.value.blame


def test_A2_the_whole_instead_of_a_part_starts_at_zero() -> None:
    whole = Answer(200, {"content-length": "1000", "etag": V1.etag})
    assert judge(whole, HELD).start == 0


@pytest.mark.parametrize("status", [200, 206])
def test_A2_an_encoded_body_is_refused(status: int) -> None:
    answer = Answer(status, part().headers | {"content-encoding": "gzip"})
    with pytest.raises(StartOver) as caught:
        judge(answer, HELD)
    assert caught.value.reason.code == "bad_response"


@pytest.mark.parametrize("length", ["-5", "5, 5", "0x10", "1e3", " ", "９"])
def test_a_malformed_content_length_is_refused_or_ignored_as_absent(length: str) -> None:
    answer = Answer(200, {"content-length": length})
    if not length.strip():
        assert judge(answer, Held()).length == -1
        return
    with pytest.raises(StartOver):
        judge(answer, Held())


@pytest.mark.parametrize("etag", ['"v2"', 'W/"v1"', ""])
def test_A1_a_part_of_another_version_starts_over_without_blame(etag: str) -> None:
    with pytest.raises(StartOver) as caught:
        judge(part(etag=etag), HELD)
    assert not caught.value.blame


def test_A1_without_strong_tags_the_date_decides() -> None:
    dated = Held(400, 1000, Validator('W/"v1"', V1.last_modified))
    assert judge(part(etag='W/"v1"'), dated).start == 400
    with pytest.raises(StartOver):
        judge(part(etag='W/"v1"', last_modified="Sat, 21 Nov 2026 08:00:00 GMT"), dated)


def test_a_weak_tag_never_makes_a_range_conditional() -> None:
    assert Validator('W/"v1"', "").if_range() == ""
    assert Validator('"v1"', "yesterday").if_range() == '"v1"'


@pytest.mark.parametrize("status", [416, 204, 304, 100])
def test_an_answer_without_usable_bytes_starts_over(status: int) -> None:
    with pytest.raises(StartOver):
        judge(Answer(status, {}), HELD)
