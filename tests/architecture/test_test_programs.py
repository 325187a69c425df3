"""QA: a bare Debian runs every test: what they start is brought by a listed package, or is on every Debian."""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from conftest import need, packages

ROOT = Path(__file__).resolve().parents[2]
STARTERS = {"run", "Popen", "check_output", "check_call"}


def literals(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Tuple | ast.List):
        for each in node.elts:
            yield from literals(each)


def named(text: str) -> Iterator[str]:
    """Programs that a module of tests asks for by `need`, or starts by their name."""
    tree = ast.parse(text)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if called == "need":
            values = (value.value if isinstance(value, ast.Starred) else value for value in node.args)
            for value in values:
                yield from literals(constants.get(value.id, value) if isinstance(value, ast.Name) else value)
        elif called in STARTERS and node.args and isinstance(node.args[0], ast.List):
            yield from list(literals(ast.List(elts=node.args[0].elts[:1])))


def programs() -> dict[str, str]:
    """Name → a file that names it."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        found |= {name: path.name for name in named(path.read_text()) if re.fullmatch(r"[a-z][a-z0-9.+-]*", name)}
    return found


def lines(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def provided() -> set[str]:
    """Packages on a machine that had nothing but `.ci/run` on it: listed ones with what they need, and the base."""
    listed = packages()
    (first,) = re.findall(r"apt-get .*install .*--no-install-recommends (.*)", (ROOT / ".ci/run").read_text())
    options = ("--recurse", "--installed", "--no-recommends", "--no-suggests", "--no-enhances")
    reached = lines("apt-cache", "depends", *options, *listed, *first.split())
    rows = (line.split() for line in lines("dpkg-query", "-W", "-f", "${Package} ${Priority} ${Essential}\\n"))
    base = {row[0] for row in rows if row[1] == "required" or row[-1] == "yes"}
    return {line for line in reached if line[:1].isalnum()} | base | {"apt"}


def places(program: str) -> set[str]:
    """Wherever /bin leads."""
    found = Path(shutil.which(program) or f"/usr/bin/{program}")
    return {str(path) for path in (found, found.resolve(), Path("/", *found.parts[2:]), Path("/usr", *found.parts[1:]))}


def owners(paths: set[str]) -> dict[str, str]:
    """File → the package that brings it."""
    told = subprocess.run(["dpkg-query", "-S", *paths], capture_output=True, text=True, check=False).stdout
    rows = (line.split(": ") for line in told.splitlines() if not line.startswith("diversion "))
    return {path: package.split(",")[0].split(":")[0] for package, path in rows}


def test_every_program_that_tests_start_is_on_a_bare_machine_after_ci_run() -> None:
    need("dpkg-query", "apt-cache")
    wanted, there = programs(), provided()
    assert {"git", "systemd-nspawn", "promtool"} <= set(wanted)
    need(*wanted)
    bringing = owners(set().union(*map(places, wanted)))
    brought = {name: {bringing[path] for path in places(name) if path in bringing} for name in wanted}
    missing = {name: (brought[name], file) for name, file in wanted.items() if not brought[name] & there}
    assert missing == {}, "add their packages to tests/real/packages.txt"
