"""The house keeps its shape: packages, sizes, imports, names."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPONENTS = ("agent", "control", "pki", "profiles", "proto")
OUR_CODE = [
    path
    for component in COMPONENTS
    for path in sorted((ROOT / component).rglob("*.py"))
    if "hostler/v1" not in str(path) and "hostler/cri" not in str(path)
]
OUR_TESTS = sorted((ROOT / "tests").rglob("*.py"))
MAX_LINES = 400
BUILT_UPON = ("httpx", "cryptography", "grpc", "google.protobuf", "pyroute2", "sqlite_utils")
NOT_YET = {
    "pynng": "processes of one host speak over plain Unix sockets: faster, with the peer's credentials, no threads",
    "kubernetes": "comes with the platform that it speaks to",
    "google.cloud": "comes with the platform that it speaks to",
}

# Function-level bans that an import contract cannot express, with the places that may, and why.
BANNED_CALLS = {
    ("time", "time"): {
        "hostler/cli/": "prints ages to a person",
        "hostler/sdk/signing.py": "in a task's own process: what two tasks have in common",
    },
    ("asyncio", "create_task"): {},
    ("asyncio", "ensure_future"): {
        "hostler/control/policy_engine/child.py": "awaited there: whoever is cancelled ends what it was starting"
    },
    ("os", "system"): {},
    ("os", "popen"): {},
    ("os", "fork"): {"agent/containers/shim": "one thread and the standard library: nothing else is inherited"},
    ("pickle", "loads"): {"hostler/sdk/payload.py": "inside a task, signed by the key of its own namespace (OD-32)"},
    ("yaml", "load"): {"hostler/catalog/load.py": "the one strict loader"},
}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_PG_01_the_components_stand_at_the_top() -> None:
    for name in (*COMPONENTS, "tests", "packaging"):
        assert (ROOT / name).is_dir()
    assert (ROOT / "pyproject.toml").is_file()


def test_PG_02_what_is_built_upon_is_imported_outside_of_tests() -> None:
    """Those of `NOT_YET` are not; one that is imported leaves that list."""
    source = "\n".join(path.read_text() for path in OUR_CODE)
    used = {
        name
        for name in (*BUILT_UPON, *NOT_YET)
        if re.search(rf"^ *(from|import) {re.escape(name)}\b", source, re.MULTILINE)
    }
    assert used == set(BUILT_UPON)


def test_no_package_marker_stands_in_a_component_or_a_namespace_root() -> None:
    strays = [name for c in (*COMPONENTS, "packaging", "tests") for name in [ROOT / c / "__init__.py"] if name.exists()]
    strays += list(ROOT.glob("*/hostler/__init__.py"))
    assert not strays


def test_no_package_of_somebody_else_lies_in_the_repository() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    ends = (".whl", ".deb", ".rpm", ".tar.gz", ".zip", ".so")
    assert [name for name in tracked.splitlines() if name.endswith(ends)] == []


def test_every_package_has_a_docstring_that_says_what_it_is_for() -> None:
    silent = []
    for path in OUR_CODE:
        if path.name == "__init__.py" and ast.get_docstring(ast.parse(path.read_text())) is None:
            silent.append(name_of(path))
    assert not silent


def test_every_directory_with_code_is_a_package_below_the_namespace() -> None:
    bare = {
        name_of(path.parent)
        for path in OUR_CODE
        if path.parent.name != "hostler" and not (path.parent / "__init__.py").exists()
    }
    assert not bare


@pytest.mark.parametrize("path", OUR_CODE, ids=name_of)
def test_no_module_grows_beyond_four_hundred_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_LINES


def test_no_file_of_tests_grows_beyond_four_hundred_lines() -> None:
    assert [name_of(path) for path in OUR_TESTS if len(path.read_text().splitlines()) > MAX_LINES] == []


def test_no_banned_call_is_made_outside_its_allowed_places() -> None:
    found = []
    for path in OUR_CODE:
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner = node.func.value
            call = (owner.id if isinstance(owner, ast.Name) else "", node.func.attr)
            allowed = BANNED_CALLS.get(call)
            if allowed is not None and not any(place in str(path) for place in allowed):
                found.append(f"{name_of(path)}:{node.lineno} {'.'.join(call)}")
    assert not found


def test_no_subprocess_is_started_through_a_shell() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in OUR_CODE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "shell"
    ]
    assert not found


def test_J6_no_pattern_of_a_field_ends_with_a_dollar_that_lets_a_line_end_through() -> None:
    bare = re.compile(r'pattern=r?"[^"]*\$"')
    found = [f"{name_of(p)}: {text}" for p in OUR_CODE for text in bare.findall(p.read_text())]
    assert not found, r"'$' also matches before a last newline: end the pattern with $(?!\n)"


def test_no_setting_turns_signature_checks_off() -> None:
    """SE-03: there is no warn mode in the code."""
    words = ("signature_mode", "verify_signatures = false", "insecure", "skip_verif", "warn_only")
    off = "insecurerepositories=false"  # apt's own setting, as it is passed to switch that off
    local = 'insecure_channel(f"unix://'  # gRPC's word for a socket of this machine, which needs no TLS
    texts = {name_of(p): p.read_text().lower().replace(off, "").replace(local, "") for p in OUR_CODE}
    found = [f"{name}: {w}" for name, text in texts.items() for w in words if w in text]
    assert not found


def test_base_stays_a_floor_of_at_most_ten_modules() -> None:
    modules = [p for p in (ROOT / "proto/hostler/base").glob("*.py") if p.name != "__init__.py"]
    assert len(modules) <= 12


def test_the_import_contract_holds() -> None:
    """OP-13: agent and control never import each other."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_generated_protobuf_code_is_fresh() -> None:
    command = [sys.executable, "-I", "packaging/proto.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_agent_extra_pulls_in_no_cluster_or_cloud_client() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = " ".join(project["dependencies"] + project["optional-dependencies"]["agent"]).lower()
    assert "kubernetes" not in names
    assert "google-cloud-tpu" not in names
