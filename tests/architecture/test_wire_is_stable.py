"""The wire only grows: a field that was published keeps its number, type and meaning.

`wire.lock` lists every published field. Adding one appends a line (`python -I tests/support/lock_wire.py`);
changing or removing one fails here.
"""

import pytest

from support.lock_wire import LOCK, published

LINES = LOCK.read_text().splitlines()


def test_no_published_field_was_changed_or_removed() -> None:
    now = set(published())
    gone = [line for line in LINES if line not in now]
    assert not gone, "a published field changed: add a new field instead"


def test_every_new_field_is_in_the_lock() -> None:
    fresh = [line for line in published() if line not in set(LINES)]
    assert not fresh, "run: python -I tests/support/lock_wire.py"


@pytest.mark.parametrize("line", ["hostler.v1.TaskPayload task_id 1 string singular"])
def test_the_lock_notices_a_changed_type(line: str) -> None:
    assert line in LINES
    assert line.replace("string", "bytes") not in published()
