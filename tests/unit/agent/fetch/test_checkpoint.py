"""SK-02, A1: what is remembered of a transfer, and when it may be continued."""

import json

import msgspec
import pytest

from hostler.agent.fetch.checkpoint import MAX_MARKS, Checkpoint, Mark, resumable, source_of

URL = "https://example.test/model.bin?signature=secret"


def checkpoint(**changes: object) -> Checkpoint:
    found = Checkpoint(source=source_of(URL), etag='"v1"', total=100, marks=(Mark(40, "a" * 64), Mark(60, "b" * 64)))
    return msgspec.structs.replace(found, **changes)


def test_a_checkpoint_survives_the_journal() -> None:
    saved = json.loads(json.dumps(checkpoint().to_json()))
    assert resumable(saved, URL) == checkpoint()
    assert resumable(saved, URL).offset == 60


def test_S1_the_query_of_a_url_is_not_in_the_checkpoint() -> None:
    assert "secret" not in json.dumps(checkpoint().to_json())


@pytest.mark.parametrize(
    "changes",
    [
        {"source": source_of("https://example.test/other")},
        {"etag": ""},
        {"etag": 'W/"v1"'},
        {"marks": ()},
        {"marks": (Mark(60, "b"), Mark(40, "a"))},
        {"marks": (Mark(0, "a"),)},
        {"marks": (Mark(101, "a"),)},
    ],
    ids=str,
)
def test_A1_a_checkpoint_that_proves_nothing_is_not_continued(changes: dict[str, object]) -> None:
    assert resumable(checkpoint(**changes).to_json(), URL) == Checkpoint(source=source_of(URL))


@pytest.mark.parametrize("saved", [{}, {"source": 5}, {"unknown": 1}, {"source": "x", "marks": "yes"}])
def test_a_damaged_checkpoint_starts_from_zero(saved: dict[str, object]) -> None:
    assert resumable(saved, URL).offset == 0


def test_marks_are_thinned_out_and_the_newest_is_kept() -> None:
    found = Checkpoint(source="s", etag='"v1"')
    for step in range(1, 20 * MAX_MARKS):
        found = found.with_mark(Mark(step, str(step)))
        assert len(found.marks) <= MAX_MARKS
        assert found.offset == step
    offsets = [mark.offset for mark in found.marks]
    assert offsets == sorted(set(offsets))
    assert offsets[0] == 1
