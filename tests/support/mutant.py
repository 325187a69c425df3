"""Runs tests against our code with one guard taken out, to see them go red.

As a pytest plugin (`-p support.mutant`) it replaces a piece of one module's source while importing it;
nothing on disk changes. `outcome_without` starts such a run.
"""

import contextlib
import importlib.abc
import importlib.machinery
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "HOSTLER_TEST_MUTANT"
HANGS_S, LONGEST_S = 60, 110


@dataclass(frozen=True)
class Guard:
    """`text` stands once in `module`; `without` is what is left when the guard is gone."""

    module: str
    text: str
    without: str


def outcome_without(guard: Guard, *tests: str) -> subprocess.CompletedProcess[str]:
    """Return code 1 means that a test failed, or hung; 0 that nobody noticed."""
    command = [sys.executable, "-m", "pytest", "-p", "support.mutant", "-q", "-x", "-p", "no:cacheprovider", *tests]
    own = {
        VARIABLE: json.dumps(asdict(guard)),
        "PYTHONPATH": str(ROOT / "tests"),
        "PYTEST_DEBUG_TEMPROOT": _temporary(),
    }
    environment = dict(os.environ) | own
    with tempfile.TemporaryFile("w+") as said:  # a pipe would stay open with whatever outlives the tests
        run = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = run.wait(LONGEST_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        said.seek(0)
        return subprocess.CompletedProcess(command, code, said.read(), "")


def _temporary() -> str:
    """Its own: a pytest that starts shuts the place of all others of this user, and what runs there as somebody else
    finds nothing any more."""
    made = Path(tempfile.gettempdir()) / f"guards-{os.getuid()}"
    made.mkdir(mode=0o755, exist_ok=True)
    return str(made)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """What hangs without its guard has failed: the process ends there and then, whatever the test would clean up."""
    import pytest

    for item in items:
        item.add_marker(pytest.mark.timeout(HANGS_S, method="thread"), append=False)


def child_of_a_test(code: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a fresh interpreter, without the guard as well when this process is without it."""
    command = [sys.executable, "-P", "-c", f"import support.mutant\n{code}", *arguments]
    environment = dict(os.environ) | {"PYTHONPATH": str(ROOT / "tests")}
    options = {"capture_output": True, "text": True, "check": False, "timeout": 60, "env": environment} | options
    return subprocess.run(command, **options)


class _Loader(importlib.machinery.SourceFileLoader):
    guard: Guard

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        if source.count(self.guard.text) != 1:
            raise SystemExit(f"the guard {self.guard.text!r} does not stand once in {self.path}")
        return compile(source.replace(self.guard.text, self.guard.without), self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._guard.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.guard = self._guard
        spec.loader = loader
        return spec


if VARIABLE in os.environ:
    sys.meta_path.insert(0, _Finder(Guard(**json.loads(os.environ[VARIABLE]))))
