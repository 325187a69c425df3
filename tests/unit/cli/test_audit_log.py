"""`hostler audit log`: how a change reads."""

from typing import Any

import pytest

from hostler.cli.audit_log import changed


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, {"role": "auditor", "state": "active"}, "+ role=auditor, state=active"),
        ({"role": "auditor"}, None, "- role=auditor"),
        ({"hold": "clone"}, {"hold": ""}, "hold=clone → -"),
        ({"version": 1}, {"version": 2, "definitions": ["a@v1"]}, "version=1 → 2, definitions=- → ['a@v1']"),
        (None, None, ""),
        ("active", "deprecated", "value=active → deprecated"),  # as an older control plane wrote it
        ({"url": "x" * 80}, None, f"- url={'x' * 57}..."),
    ],
)
def test_DM_08_a_change_reads_in_one_line(before: Any, after: Any, said: str) -> None:
    assert changed(before, after) == said
