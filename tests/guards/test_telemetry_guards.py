"""Every bound on what nodes may say of themselves is taken out once, and its test must go red."""

import pytest

from support.mutant import Guard, outcome_without

BOARD, FILE = "hostler.control.samples", "hostler.control.store.samples"
TESTS = "tests/unit/control/test_samples.py"

# module, text that stands once, what is left without it, the test that must notice
GUARDS = {
    "a node is heard now and then": (
        BOARD, "if now < self._due.get(node_id, 0.0) or (", "if (",
        "test_OB_09_a_node_cannot_flood",
    ),
    "so many nodes and no more": (
        BOARD, "len(self._newest) >= MOST_NODES", "False",
        "test_OB_09_what_waits_is_bounded_however_long_nobody_files_it",
    ),
    "what waits is bounded": (
        BOARD, "deque(maxlen=MOST_WAITING)", "deque()",
        "test_OB_09_what_waits_is_bounded_however_long_nobody_files_it",
    ),
    "nonsense is unknown": (
        BOARD, "if not math.isfinite(value) or not 0 <= value <= _MOST:", "if False:",
        "test_OB_09_nonsense_is_unknown_and_the_node_s_clock_files_nothing",
    ),
    "series are bounded": (
        BOARD, "return fresh[: self._shown]", "return fresh",
        "test_OB_04_so_many_nodes_have_series_and_no_more",
    ),
    "a file that has gone is noticed": (
        FILE, "if self._db is not None and _inode(self._path) != self._inode:", "if False:",
        "test_OB_09_the_file_may_be_taken_away_while_it_is_used",
    ),
    "what is too much goes": (
        FILE, "limit = max(before_ms, row[0] + 1) if row else before_ms", "limit = before_ms",
        "test_OB_09_old_ones_go_and_too_many_go",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_without_a_bound_on_measurements_a_test_fails(name: str) -> None:
    module, text, without, test = GUARDS[name]
    done = outcome_without(Guard(module, text, without), f"{TESTS}::{test}")
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
