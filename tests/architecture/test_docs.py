"""Documents are true: generated pages are fresh, examples lint, what they name exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hostler.agent.config import AgentConfig
from hostler.base.codes import CODES
from hostler.base.config import load_config
from hostler.base.errors import FAMILIES
from hostler.catalog.definition import definition_from
from hostler.catalog.kinds import KINDS
from hostler.catalog.lint import lint
from hostler.catalog.load import Profiles, Source, load_profiles
from hostler.control.config import ControlConfig

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = [p for c in ("agent", "control", "pki", "profiles", "proto") for p in (ROOT / c).rglob("*.py")]


def test_the_generated_pages_are_fresh() -> None:
    command = [sys.executable, "-I", "packaging/reference.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_s_example_lints_as_part_of_a_definition(kind: str) -> None:
    text = (ROOT / "docs" / "steps" / "examples" / f"{kind}.yaml").read_text()
    steps = yaml.safe_load(text)
    inputs = {name: {"type": "string"} for name in re.findall(r"\$\{inputs\.(\w+)\}", text)}
    value = {
        "type": "docs.example",
        "version": "v1",
        "inputs": {"type": "object", "additionalProperties": False, "properties": inputs},
        "capabilities": {"os.kernel": "linux"},
        "destructive": KINDS[kind].destructive,
        "steps": steps,
        "allowed_packages": ["numactl", "libnuma1"],
        "allowed_units": ["model-server.service", "munge.service", "slurmd.service"],
    }
    assert steps[0]["kind"] == kind  # others may follow, to show who uses what it makes
    shipped = load_profiles(ROOT / "profiles")
    source = Source(file=kind, value=value, lines={})
    profiles = Profiles(definitions=((definition_from(value), source),), commands=shipped.commands)
    assert lint(profiles) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_into_a_page_leads_to_a_heading_of_it(page: Path) -> None:
    lost = []
    for name, anchor in re.findall(r"\]\(([\w./-]*\.md)?#([\w-]+)\)", page.read_text()):
        headings = re.findall(r"^#+ (.*)$", ((page.parent / name) if name else page).read_text(), re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
        lost += [] if anchor in slugs else [f"{name}#{anchor}"]
    assert lost == []


@pytest.mark.parametrize("page", ["tests/fault/README.md", "docs/security.md"])
def test_every_test_that_is_named_as_a_proof_exists(page: str) -> None:
    files = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py")]
    functions = set(re.findall(r"def (test_\w+)", "\n".join((ROOT / file).read_text() for file in files)))
    lost = []
    for name in re.findall(r"`((?:[\w/]*/)?test_[\w*…]+(?:\.py)?)`", (ROOT / page).read_text()):
        pattern = re.compile("(?:.*/)?" + re.escape(name).replace(r"\*", ".*").replace("…", ".*") + r"(?:\.py)?")
        found = any(pattern.fullmatch(file) for file in files) or any(pattern.fullmatch(one) for one in functions)
        lost += [] if found else [name]
    assert lost == []


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = {name for page in PAGES for name in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE)}
    assert {name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)} == set()


def test_every_hostler_command_that_is_named_exists() -> None:
    import click

    from hostler.cli.main import GROUPS, main

    context = click.Context(main)
    inner = {
        name: set(group.list_commands(context))
        for name in GROUPS
        for group in [main.get_command(context, name)]
        if isinstance(group, click.Group)
    }
    wrong = []
    for page in PAGES:
        for options, group, command in re.findall(
            r"^hostler ((?:--\S+ \S+ )*)(\w+)(?: (\w[\w-]*))?", page.read_text(), re.MULTILINE
        ):
            if group not in GROUPS or (group in inner and command not in inner[group]):
                wrong.append(f"{page.name}: hostler {options}{group} {command}")
    assert wrong == []


def test_the_example_configurations_load() -> None:
    load_config(ROOT / "agent" / "agent.example.toml", AgentConfig)
    load_config(ROOT / "control" / "control.example.toml", ControlConfig)


def test_every_error_code_in_the_code_is_listed_and_every_listed_one_has_a_family() -> None:
    used = {code for path in CODE for code in re.findall(r'error\(\s*"([a-z_]+)"', path.read_text())}
    assert used - set(CODES) == set()
    assert {code.family for code in CODES.values()} <= set(FAMILIES)


def test_no_error_code_is_listed_that_nothing_gives() -> None:
    text = "\n".join(path.read_text() for path in CODE if path.name != "codes.py")
    assert {code for code in CODES if f'"{code}"' not in text} == set()


def test_the_table_of_faults_names_tests_that_exist_and_carry_the_id() -> None:
    tests = ROOT / "tests"
    text = (tests / "fault" / "README.md").read_text().partition("## Families")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if re.match(r"[ATIPJSKR][0-9]", row[0])]
    assert {row[0][0] for row in rows} == set("ATIPJSKR")
    for fault_id, _, proof, more, guards in rows:
        folders = ((proof, tests / "fault"), (more, tests), (guards, tests / "guards"))
        for name, folder in ((name, folder) for cell, folder in folders for name in re.findall(r"`([^`]+)`", cell)):
            found = [*folder.glob(name), *(tests / "fault").glob(name)]
            assert found, f"{fault_id} names {name}, which is not there"
            if folder.name == "fault" and name.startswith("test_"):
                assert any(fault_id.split(",")[0] in path.read_text() for path in found), (fault_id, name)
