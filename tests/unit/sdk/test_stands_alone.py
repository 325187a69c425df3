"""The SDK is a wheel of its own: standard library, any Python from 3.9 on, nothing else of ours (JB-09)."""

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from unit.sdk.sdk_actors import write

from hostler.sdk import jobs

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "agent/hostler/sdk").glob("*.py"))
RUN = [sys.executable, "-m", "hostler.sdk.run"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_module_is_python_3_9_and_imports_the_standard_library_and_itself(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    assert any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body) or (
        path.name == "__init__.py"
    )
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            top = name.partition(".")[0]
            assert name.startswith("hostler.sdk") or (top in sys.stdlib_module_names and top != "hostler"), name
        later = {"kw_only", "slots", "strict"} & {k.arg for k in getattr(node, "keywords", ())}
        assert not later, f"{later} came after Python 3.9"


def test_importing_it_loads_nothing_else_of_ours() -> None:
    code = "import hostler.sdk, sys; print(sorted(m for m in sys.modules if m.split('.')[0] in ('hostler', 'msgspec')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(name.startswith(("'hostler'", "'hostler.sdk")) for name in done.stdout.strip()[1:-1].split(", "))


def test_OD_32_nothing_outside_the_sdk_knows_pickles() -> None:
    ours = [p for part in ("agent", "control", "pki", "profiles", "proto") for p in (ROOT / part).rglob("*.py")]
    found = [p for p in ours if p not in FILES and ("pickle" in p.read_text().lower())]
    assert [p for p in found if "import" in p.read_text() and _imports_pickle(p)] == []


def _imports_pickle(path: Path) -> bool:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if any(name.partition(".")[0] in ("pickle", "cloudpickle", "dill", "marshal", "shelve") for name in names):
            return True
    return False


@pytest.mark.slow
def test_the_wheel_holds_the_sdk_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", str(tmp_path)]
    done = subprocess.run(
        [*command, str(ROOT / "packaging/sdk")], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("hostler_sdk-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name for name in names if not name.startswith("hostler_sdk-")} >= {"hostler/sdk/__init__.py"}
    assert all(name.startswith(("hostler/sdk/", "hostler_sdk-")) for name in names)
    assert "hostler/__init__.py" not in names


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run([*RUN, *words], capture_output=True, text=True, check=False, env=environment, timeout=30)


def test_JB_09_a_callable_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    target = tmp_path / "out"
    entry = jobs.Entrypoint.of(write, str(target), text="done")
    assert run(*entry.command[len(jobs.RUN) :]).returncode == 0
    assert target.read_text() == "done"


def test_JB_09_a_pickled_callable_runs_from_the_bundle(tmp_path: Path) -> None:
    target, call = tmp_path / "out", tmp_path / "call.pkl"
    call.write_bytes(jobs.pickled_call(write, str(target), text="pickled"))
    assert run("--pickle", str(call)).returncode == 0
    assert target.read_text() == "pickled"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("unit.sdk.sdk_actors:missing",), 1, "nothing that can be called"),
        (("unit.sdk.sdk_actors:write",), 1, "TypeError"),
        (("sys:exit", "--args", "[7]"), 7, ""),
        ((), 2, "usage"),
        (("a:b", "--actor", "c:d", "--name", "e"), 2, "usage"),
        (("--actor", "unit.sdk.sdk_actors:Worker", "--name", "w"), 1, "NotInTask"),
    ],
)
def test_JB_09_its_exit_code_says_how_it_went(words: tuple[str, ...], code: int, said: str) -> None:
    done = run(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
