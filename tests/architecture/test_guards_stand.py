"""Every guard that a test takes out still stands, once, where the test looks for it, and so do the tests that miss it:
one that was moved is seen here at once, while its own test may be among those that a run leaves out."""

import getpass
import importlib.util
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.mutant import Guard, outcome_without

TESTS = Path(__file__).parents[1]
FILES = sorted((TESTS / "guards").glob("test_*.py"))
BY_HAND = {"test_exec_guards"}  # takes attributes away, not source text


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"guards_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def guards_in(value: Any) -> Iterator[Guard]:
    """As objects, or as tuples of module, text and what is left of it."""
    if isinstance(value, Guard):
        yield value
    elif isinstance(value, tuple) and _is_guard(value):
        yield Guard(*value[:3])
    elif isinstance(value, dict):
        yield from (guard for each in value.values() for guard in guards_in(each))
    elif isinstance(value, (list, tuple)):
        yield from (guard for each in value for guard in guards_in(each))


def named_tests(value: Any) -> Iterator[str]:
    """Files, folders or tests by their path, which the table may leave out "tests/" of."""
    if isinstance(value, str) and re.fullmatch(r"[a-z_/]+/test_\w+\.py(::.*)?", value):
        yield value.removeprefix("tests/")
    elif isinstance(value, dict):
        yield from (each for part in value.values() for each in named_tests(part))
    elif isinstance(value, (list, tuple)):
        yield from (each for part in value for each in named_tests(part))


def _is_guard(value: tuple[Any, ...]) -> bool:
    return len(value) >= 3 and all(isinstance(part, str) for part in value[:3]) and value[0].startswith("hostler.")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_guard_stands_once_and_what_is_left_without_it_is_python(path: Path) -> None:
    found = set(guards_in(list(vars(loaded(path)).values())))
    assert bool(found) != (path.stem in BY_HAND)
    for guard in found:
        spec = importlib.util.find_spec(guard.module)
        assert spec is not None, guard
        assert spec.origin is not None, guard
        source = Path(spec.origin).read_text()
        assert source.count(guard.text) == 1, guard
        compile(source.replace(guard.text, guard.without), spec.origin, "exec")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_test_that_misses_a_guard_is_where_the_table_says(path: Path) -> None:
    """A constant may name only how several begin."""
    for each in set(named_tests(list(vars(loaded(path)).values()))):
        file, _, test = each.partition("::")
        assert f"def {test.partition('[')[0]}" in f"def {(TESTS / file).read_text()}", each


def test_a_run_without_a_guard_leaves_the_place_of_the_others_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their tasks run as somebody else, who has to get there; a pytest that starts lets nobody into its own."""
    monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", str(tmp_path))
    place = tmp_path / f"pytest-of-{getpass.getuser()}"
    place.mkdir(mode=0o755)
    guard = Guard("hostler.base.strict", "if canonical_json(value) != data:", "if False:")
    run = outcome_without(guard, "tests/unit/agent/host/test_records.py")  # which writes, and does not miss it
    assert run.returncode == 0, run.stdout
    assert stat.S_IMODE(place.stat().st_mode) == 0o755
