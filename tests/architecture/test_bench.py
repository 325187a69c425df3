"""The README's figures can be made: every bench starts as its first line says, `python -m tests.bench.NAME`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Each as if it were the first: with no path but the repository's root, and nothing found by one before it.
SCRIPT = """
import importlib, sys
for name in sys.argv[1:]:
    path = sys.path[:]
    importlib.import_module(name)
    sys.path[:] = path
    for module in [each for each in sys.modules if each.partition(".")[0] in ("tests", "support")]:
        del sys.modules[module]
"""


def test_every_bench_is_found_with_what_it_imports() -> None:
    names = sorted(f"tests.bench.{path.stem}" for path in (ROOT / "tests/bench").glob("[!_]*.py"))
    assert len(names) > 10
    command = [sys.executable, "-c", SCRIPT, *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
